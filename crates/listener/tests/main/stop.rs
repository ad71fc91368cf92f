//! A stop finishes what runs, leaves the rest to the broker, and ends in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Address, Source};
use postrider_listener::{BuildError, DeadLetters, Listener};
use postrider_testkit::effects::MemoryEffects;

use crate::support::{Stage, gated, message, writes};

#[tokio::test]
async fn what_runs_is_finished_and_acknowledged_and_the_rest_comes_again() {
    let stage = Stage::new();
    stage
        .put((0..5).map(|n| message(&format!("e{n}"), &format!("{n}"))))
        .await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let play = stage.play_with(gated(gate), |builder| builder.concurrency(2).batch(1));
    play.health("it holds all", |health| health.held == 5).await;
    let listener = play.listener.clone();
    let stopped = tokio::spawn(play.stop());
    postrider_testkit::wait::until("what does not run is given up", || listener.health().held == 2).await;
    open.send_replace(true);
    let report = stopped.await.unwrap();
    assert_eq!(report.effects, 2);
    assert_eq!(stage.queue.messages().len(), 3, "two are acknowledged");
    assert!(!listener.health().running);
    let play = stage.play(writes(|_| Ok(())));
    stage.empty().await;
    assert_eq!(stage.effects.rows().len(), 5);
    assert_eq!(play.stop().await.duplicates, 0);
}

#[tokio::test]
async fn a_handler_that_does_not_end_is_broken_off() {
    let stage = Stage::new();
    stage.put([message("e1", "k")]).await;
    let (_closed, gate) = tokio::sync::watch::channel(false);
    let play = stage.play_with(gated(gate), |builder| builder.drain(Duration::from_millis(50)));
    play.health("it works on it", |health| health.held == 1).await;
    let begun = Instant::now();
    assert_eq!(play.stop().await.effects, 0);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let play = stage.play(writes(|_| Ok(())));
    assert_eq!(stage.rows(1).await, ["e1"]);
    play.stop().await;
}

#[tokio::test]
async fn a_closed_source_ends_it() {
    let stage = Stage::new();
    let source = Arc::new(stage.queue.source());
    let play = stage.play_on(
        Arc::clone(&source) as Arc<dyn Source>,
        writes(|_| Ok(())),
        |builder| builder,
    );
    play.health("it runs", |health| health.is_well()).await;
    source.close().await;
    // A receive under way learns of it with the next change of the queue.
    stage.put([message("e1", "k")]).await;
    play.health("it has ended", |health| !health.running).await;
    play.stop().await;
}

#[test]
fn what_is_missing_is_named() {
    let stage = Stage::new();
    let builder = || Listener::builder(Arc::new(stage.queue.source()), MemoryEffects::new());
    let dead = || DeadLetters::to(Arc::new(stage.dead.clone()), Address::default());
    assert_eq!(builder().build().unwrap_err(), BuildError::Consumer);
    assert_eq!(builder().consumer("c").build().unwrap_err(), BuildError::Handler);
    let handled = || builder().consumer("c").handler(writes(|_| Ok(())));
    assert_eq!(handled().build().unwrap_err(), BuildError::DeadLetters);
    let zero = handled().dead_letters(dead()).batch(0).build().unwrap_err();
    assert_eq!(zero, BuildError::Zero("batch"));
    assert!(handled().dead_letters(dead()).build().is_ok());
}
