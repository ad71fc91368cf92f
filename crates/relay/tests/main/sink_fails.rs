//! A sink that misbehaves in ways that are no answer at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::Sink;
use postrider_relay::Settings;

use crate::bench::bench;
use crate::support::*;

/// A sink whose first calls go wrong in a way that is no answer at all.
async fn survives(misbehave: fn() -> Misbehaviour) {
    let bench = bench(8);
    let calls = Arc::new(AtomicUsize::new(0));
    let bad = FnSink::before(&bench.sink, move |inner, batch| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        let how = misbehave();
        async move {
            match how {
                _ if call >= 3 => inner.publish(batch).await,
                Misbehaviour::Panic => panic!("a bug in a sink"),
                Misbehaviour::Silence => std::future::pending().await,
                Misbehaviour::TooFew => {
                    let mut answers = inner.publish(batch).await;
                    answers.truncate(answers.len() / 2);
                    answers
                }
                Misbehaviour::TooMany => {
                    let mut answers = inner.publish(batch).await;
                    answers.extend(answers.clone());
                    answers
                }
            }
        }
    });
    let settings = Settings {
        publish_timeout: Duration::from_millis(50),
        ..quick()
    };
    commit(&bench.memory, &["a", "b", "c"], 20);
    let relay = relay_with(&bench.memory, &bad, settings);
    let running = Running::start(&relay);
    until("an empty outbox", || is_empty(&bench.memory)).await;
    let report = running.stop().await;
    assert_eq!((report.published, report.dead), (60, 0));
    assert_clean(&bench.sink, &["a", "b", "c"], 20);
}

#[derive(Clone, Copy)]
enum Misbehaviour {
    Panic,
    Silence,
    TooFew,
    TooMany,
}

/// Fault C7.
#[tokio::test]
async fn a_sink_that_panics_is_asked_again() {
    survives(|| Misbehaviour::Panic).await;
}

/// Fault B20.
#[tokio::test]
async fn a_sink_that_never_answers_is_asked_again() {
    survives(|| Misbehaviour::Silence).await;
}

/// Fault B23.
#[tokio::test]
async fn a_sink_that_answers_too_little_is_asked_again_for_the_rest() {
    survives(|| Misbehaviour::TooFew).await;
}

#[tokio::test]
async fn a_sink_that_answers_too_much_is_not_believed_beyond_its_batch() {
    survives(|| Misbehaviour::TooMany).await;
}
