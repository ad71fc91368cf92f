//! How long records are kept.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{InboxConsole, Records};
use postrider_listener::{BuildError, DeadLetters, Keep, Listener};
use postrider_testkit::effects::MemoryEffects;
use postrider_testkit::wait::within;

use crate::support::{Stage, dead_address, writes};

const DAY: Duration = Duration::from_secs(86_400);

fn built(stage: &Stage, keep: Keep) -> Result<Listener<MemoryEffects>, BuildError> {
    Listener::builder(Arc::new(stage.queue.source()), stage.effects.clone())
        .consumer("test")
        .handler(writes(|_| Ok(())))
        .dead_letters(DeadLetters::to(Arc::new(stage.dead.clone()), dead_address()))
        .keep(keep)
        .build()
}

/// Fault D7.
#[tokio::test]
async fn an_inbox_that_forgets_before_the_broker_does_is_refused() {
    let stage = Stage::new();
    let keep = || Keep::new(Arc::new(stage.effects.clone()), 10 * DAY);
    assert!(built(&stage, keep().horizon(9 * DAY)).is_ok());
    let refused = built(&stage, keep().horizon(10 * DAY)).unwrap_err().to_string();
    assert!(refused.contains("raise the retention of the inbox"), "{refused}");
}

/// Faults D7 and D19.
#[tokio::test(start_paused = true)]
async fn old_records_go_every_hour_in_steps() {
    let stage = Stage::new();
    let record = async |consumer: &str, id: String| {
        let recorded = stage.effects.record(consumer.to_owned(), id, None).await;
        recorded.expect("recorded");
    };
    for n in 0..2_500 {
        record("test", n.to_string()).await;
    }
    record("other", "old".to_owned()).await;
    // The clock is halted, and goes on only where everything waits: the age of records is what is tested.
    tokio::time::sleep(DAY).await;
    record("test", "young".to_owned()).await;
    let play = stage.play_with(writes(|_| Ok(())), |builder| {
        builder.keep(Keep::new(Arc::new(stage.effects.clone()), DAY / 2))
    });
    let left = async || stage.effects.count(Records::of("test")).await.unwrap();
    let gone = async || (left().await <= 1).then_some(());
    within(Duration::from_secs(3_600), "the old ones are gone", gone).await;
    tokio::time::sleep(DAY / 2 - Duration::from_secs(60)).await;
    assert_eq!(left().await, 1, "it is not old enough");
    // Its time comes, and within an hour after that it is gone.
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    assert_eq!(left().await, 0);
    // Another consumer may have to know its events for longer than this one.
    assert_eq!(stage.effects.count(Records::of("other")).await.unwrap(), 1);
    play.stop().await;
}
