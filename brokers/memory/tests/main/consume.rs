//! Consuming.

use std::time::Duration;

use postrider_core::{Answer, ErrorKind, Incoming, Sink, Source, SourceErrorKind, Verdict};
use postrider_memory::MemorySink;

use crate::{batch, ids, message};

async fn filled(sink: MemorySink, messages: &[(&str, usize)]) -> MemorySink {
    sink.publish(batch(messages.iter().map(|(key, n)| message(key, *n))))
        .await;
    sink
}

fn received(incoming: &[Incoming]) -> Vec<&str> {
    incoming
        .iter()
        .map(|incoming| incoming.message.event_id.as_str())
        .collect()
}

#[tokio::test]
async fn a_message_stays_until_it_is_done() {
    let sink = filled(MemorySink::new(), &[("a", 1), ("b", 1), ("c", 1)]).await;
    let source = sink.source();
    let first = source.receive(2).await.unwrap();
    assert_eq!(received(&first), ["a-1", "b-1"]);
    source
        .settle(vec![
            (first[0].tag, Verdict::Done),
            (first[1].tag, Verdict::Again),
        ])
        .await
        .unwrap();
    let second = source.receive(10).await.unwrap();
    assert_eq!(received(&second), ["b-1", "c-1"]);
    assert_eq!((second[0].redelivered, second[1].redelivered), (1, 0));
    source
        .settle(vec![(second[0].tag, Verdict::Reject)])
        .await
        .unwrap();
    assert_eq!(ids(&sink.rejected()), ["b-1"]);
    drop(source);
    let other = sink.source();
    assert_eq!(received(&other.receive(10).await.unwrap()), ["c-1"]);
    // A log keeps what was consumed.
    assert_eq!(sink.messages().len(), 3);
}

#[tokio::test]
async fn several_consumers_keep_each_key_in_order() {
    let sink = filled(MemorySink::new(), &[("a", 1), ("a", 2), ("b", 1)]).await;
    let (one, two) = (sink.source(), sink.source());
    let of_one = one.receive(1).await.unwrap();
    assert_eq!(received(&of_one), ["a-1"]);
    let of_two = two.receive(10).await.unwrap();
    assert_eq!(received(&of_two), ["b-1"]);
    // Somebody else's tag means nothing.
    two.settle(vec![(of_one[0].tag, Verdict::Done)]).await.unwrap();
    assert!(two.try_receive(10).unwrap().is_empty());
    one.close().await;
    let of_two = two.receive(10).await.unwrap();
    assert_eq!(received(&of_two), ["a-1", "a-2"]);
    one.settle(vec![(of_one[0].tag, Verdict::Done)]).await.unwrap();
    assert_eq!(one.receive(1).await.unwrap_err().kind, SourceErrorKind::Closed);
}

#[tokio::test]
async fn a_dropped_call_takes_nothing_and_a_waiting_one_is_woken() {
    let sink = MemorySink::new();
    let source = sink.source();
    assert!(
        tokio::time::timeout(Duration::from_millis(10), source.receive(1))
            .await
            .is_err()
    );
    let waiting = tokio::spawn(async move {
        let incoming = source.receive(1).await.unwrap();
        (received(&incoming)[0].to_owned(), source)
    });
    tokio::task::yield_now().await;
    filled(sink.clone(), &[("a", 1), ("a", 2)]).await;
    let (id, source) = waiting.await.unwrap();
    assert_eq!(id, "a-1");
    // What came back wakes the others.
    let other = sink.source();
    let waiting = tokio::spawn(async move { other.receive(9).await.unwrap().len() });
    tokio::task::yield_now().await;
    drop(source);
    assert_eq!(waiting.await.unwrap(), 2);
}

#[tokio::test]
async fn a_full_queue_takes_nothing_and_drops_nothing() {
    let sink = filled(MemorySink::queue(2), &[("a", 1), ("a", 2)]).await;
    let blocked = || async {
        let answers = sink.publish(batch([message("a", 3)])).await;
        matches!(&answers[..], [Answer::Failed(failure)] if failure.kind == ErrorKind::Blocked)
    };
    assert!(blocked().await);
    let source = sink.source();
    let incoming = source.receive(1).await.unwrap();
    assert!(blocked().await, "it is out for delivery, and not gone");
    source
        .settle(vec![(incoming[0].tag, Verdict::Done)])
        .await
        .unwrap();
    assert!(!blocked().await);
    assert_eq!(ids(&sink.messages()), ["a-2", "a-3"]);
    // Clearing forgets what is out for delivery too.
    let incoming = source.receive(9).await.unwrap();
    sink.clear();
    source
        .settle(vec![(incoming[0].tag, Verdict::Again)])
        .await
        .unwrap();
    assert!(source.try_receive(9).unwrap().is_empty());
    assert_eq!(sink.wait_for(0, Duration::ZERO).await.unwrap(), []);
}
