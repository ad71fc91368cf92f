//! Effects without a broker: a relay's destination that is a consumer.

use std::sync::Arc;

use postrider_core::{Answer, Class, ErrorKind, HandlerError, Message, Received, Sink, StoreErrorKind};
use postrider_listener::Direct;
use postrider_testkit::effects::{MemoryEffects, MemoryHandler};

use crate::support::{message, message_with, writes};

fn direct(effects: &MemoryEffects, handler: Arc<MemoryHandler>) -> Direct<MemoryEffects> {
    Direct::new(Arc::new(effects.clone()), "test", handler)
}

async fn publish(sink: &dyn Sink, messages: impl IntoIterator<Item = Message>) -> Vec<Option<ErrorKind>> {
    let kind = |answer| match answer {
        Answer::Confirmed(_) => None,
        Answer::Failed(failure) => Some(failure.kind),
    };
    let answers = sink.publish(messages.into_iter().collect()).await;
    answers.into_iter().map(kind).collect()
}

#[tokio::test]
async fn what_is_handed_over_again_takes_effect_once() {
    let effects = MemoryEffects::new();
    let sink = direct(&effects, writes(|_| Ok(())));
    for _ in 0..2 {
        let messages = [message("a", "k"), message("b", "l")];
        assert_eq!(publish(&sink, messages).await, [None, None]);
    }
    assert_eq!(effects.rows(), ["a", "b"]);
    assert_eq!(publish(&sink, []).await, []);
}

/// The commit took effect and its answer was lost: the relay is told that it failed, and hands it over again.
#[tokio::test]
async fn a_lost_answer_repeats_nothing() {
    let effects = MemoryEffects::new();
    let sink = direct(&effects, writes(|_| Ok(())));
    effects.lose_next_answer();
    let lost = publish(&sink, [message("a", "k")]).await;
    assert!(lost[0].is_some_and(|kind| kind.policy().class == Class::Unavailable));
    assert_eq!(publish(&sink, [message("a", "k")]).await, [None]);
    assert_eq!(effects.rows(), ["a"]);
}

#[tokio::test]
async fn one_that_fails_keeps_to_itself() {
    let effects = MemoryEffects::new();
    let check = |event: &Received| match event.event_id() {
        "never" => Err(HandlerError::reject("not like this")),
        "later" => Err(HandlerError::retry("not now")),
        _ => Ok(()),
    };
    let sink = direct(&effects, writes(check));
    let mut foreign = message("foreign", "f");
    foreign.body = "{".into();
    let ids = ["a", "never", "b", "later", "c"];
    let messages = ids.into_iter().map(|id| message(id, id)).chain([foreign]);
    let kinds = publish(&sink, messages).await;
    let class = |kind: Option<ErrorKind>| kind.map(|kind| kind.policy().class);
    assert_eq!(
        kinds.into_iter().map(class).collect::<Vec<_>>(),
        [
            None,
            Some(Class::Invalid),
            None,
            Some(Class::Rejected),
            None,
            Some(Class::Invalid)
        ]
    );
    assert_eq!(effects.rows(), ["a", "b", "c"]);
}

#[tokio::test]
async fn an_id_that_is_used_again_is_dead_and_a_database_that_is_away_is_nobodys_fault() {
    let effects = MemoryEffects::new();
    let sink = direct(&effects, writes(|_| Ok(())));
    assert_eq!(publish(&sink, [message("a", "k")]).await, [None]);
    let other = message_with("a", "k", "{\"other\":true}");
    assert_eq!(publish(&sink, [other]).await, [Some(ErrorKind::IdReused)]);
    effects.set_away(Some(StoreErrorKind::Unreachable));
    let away = publish(&sink, [message("b", "k"), message("c", "l")]).await;
    assert_eq!(away, [Some(ErrorKind::Unreachable); 2]);
    assert_eq!(effects.rows(), ["a"]);
}
