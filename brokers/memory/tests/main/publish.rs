//! Publishing, and how it is made to fail.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Answer, ErrorKind, Sink};
use postrider_memory::{MemorySink, TooFew};

use crate::{batch, ids, message};

/// Confirmed, or the kind of the failure and whether the message may have been sent.
async fn publish(sink: &MemorySink, messages: &[(&str, usize)]) -> Vec<Result<(), (ErrorKind, bool)>> {
    let messages = messages.iter().map(|(key, n)| message(key, *n));
    let answers = sink.publish(batch(messages)).await;
    let outcome = |answer: &Answer| match answer {
        Answer::Confirmed(_) => Ok(()),
        Answer::Failed(failure) => Err((failure.kind, failure.maybe_sent)),
    };
    answers.iter().map(outcome).collect()
}

#[tokio::test]
async fn what_is_published_can_be_looked_at() {
    let sink = MemorySink::new();
    assert!(sink.publish(Arc::from([])).await.is_empty());
    assert_eq!(publish(&sink.clone(), &[("a", 1), ("b", 1)]).await, [Ok(()); 2]);
    assert_eq!(ids(&sink.messages()), ["a-1", "b-1"]);
    sink.clear();
    assert_eq!(sink.messages(), []);
}

#[tokio::test]
async fn a_failure_holds_back_its_key_and_no_other() {
    let sink = MemorySink::new();
    sink.fail_next(ErrorKind::Rejected);
    let answers = publish(&sink, &[("a", 1), ("a", 2), ("b", 1)]).await;
    assert_eq!(
        answers,
        [
            Err((ErrorKind::Rejected, false)),
            Err((ErrorKind::Behind, false)),
            Ok(())
        ]
    );
    assert_eq!(publish(&sink, &[("a", 1), ("a", 2)]).await, [Ok(()); 2]);
    assert_eq!(ids(&sink.messages()), ["b-1", "a-1", "a-2"]);
}

#[tokio::test]
async fn a_lost_answer_is_a_message_that_arrived() {
    let sink = MemorySink::new();
    sink.lose_next_answer();
    let answers = publish(&sink, &[("a", 1), ("a", 2)]).await;
    assert_eq!(
        answers,
        [
            Err((ErrorKind::ConnectionLost, true)),
            Err((ErrorKind::Behind, false))
        ]
    );
    assert_eq!(ids(&sink.messages()), ["a-1"]);
}

#[tokio::test]
async fn rules_outages_and_their_end() {
    let sink = MemorySink::new();
    sink.refuse_when(|message| (message.message_key == "a").then_some(ErrorKind::AddressNotFound));
    assert_eq!(
        publish(&sink, &[("a", 1), ("b", 1)]).await,
        [Err((ErrorKind::AddressNotFound, false)), Ok(())]
    );
    sink.set_reachable(false);
    assert_eq!(
        publish(&sink, &[("b", 2)]).await,
        [Err((ErrorKind::Unreachable, false))]
    );
    sink.set_reachable(true);
    assert_eq!(publish(&sink, &[("b", 2)]).await, [Ok(())]);
    sink.fail_next(ErrorKind::Rejected);
    sink.accept_everything();
    assert_eq!(publish(&sink, &[("a", 1)]).await, [Ok(())]);
}

#[tokio::test]
async fn closing_closes_one_handle() {
    let sink = MemorySink::new();
    let other = sink.clone();
    other.close().await;
    other.close().await;
    assert_eq!(
        publish(&other, &[("a", 1)]).await,
        [Err((ErrorKind::Unreachable, false))]
    );
    assert_eq!(publish(&sink, &[("a", 1)]).await, [Ok(())]);
    assert_eq!(ids(&other.messages()), ["a-1"]);
}

#[tokio::test]
async fn waiting_ends_with_the_last_message_or_says_how_many_came() {
    let sink = MemorySink::new();
    let waiting = tokio::spawn({
        let sink = sink.clone();
        async move { sink.wait_for(2, Duration::from_secs(5)).await }
    });
    publish(&sink, &[("a", 1)]).await;
    tokio::task::yield_now().await;
    publish(&sink, &[("a", 2)]).await;
    assert_eq!(ids(&waiting.await.unwrap().unwrap()), ["a-1", "a-2"]);
    let error = sink.wait_for(3, Duration::from_millis(20)).await.unwrap_err();
    assert_eq!(error, TooFew { wanted: 3, got: 2 });
    assert_eq!(error.to_string(), "2 of 3 messages arrived in time");
}
