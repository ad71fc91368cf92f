//! However often an event is delivered, it takes effect once.

use postrider_core::header;
use postrider_listener::Replays;

use crate::support::{Stage, gated, message, message_with, writes};

/// Fault D1.
#[tokio::test]
async fn the_same_event_twice_takes_effect_once() {
    let stage = Stage::new();
    stage
        .put([message("e1", "k"), message("e2", "k"), message("e1", "k")])
        .await;
    let play = stage.play(writes(|_| Ok(())));
    stage.empty().await;
    let report = play.stop().await;
    assert_eq!(stage.effects.rows(), ["e1", "e2"]);
    assert_eq!((report.received, report.effects, report.duplicates), (3, 2, 1));
}

/// Fault D2.
#[tokio::test]
async fn the_same_event_at_two_listeners_at_once_takes_effect_once() {
    let stage = Stage::new();
    let other = Stage {
        effects: stage.effects.clone(),
        ..Stage::new()
    };
    let (open, gate) = tokio::sync::watch::channel(false);
    stage.put([message("e1", "k")]).await;
    other.put([message("e1", "k")]).await;
    let plays = [stage.play(gated(gate.clone())), other.play(gated(gate))];
    for play in &plays {
        play.health("both have it", |health| health.held == 1).await;
    }
    open.send_replace(true);
    stage.empty().await;
    other.empty().await;
    assert_eq!(stage.effects.rows(), ["e1"]);
    let [first, second] = plays;
    let (first, second) = (first.stop().await, second.stop().await);
    assert_eq!(
        (
            first.effects + second.effects,
            first.duplicates + second.duplicates
        ),
        (1, 1)
    );
}

/// Fault D3: the answer to the commit is lost, and so is the acknowledgement.
#[tokio::test]
async fn a_commit_without_an_answer_is_not_done_again() {
    let stage = Stage::new();
    stage.effects.lose_next_answer();
    stage.put([message("e1", "k")]).await;
    let play = stage.play(writes(|_| Ok(())));
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["e1"]);
    let report = play.stop().await;
    assert_eq!((report.effects, report.duplicates), (0, 1));
}

/// Faults D4 and D5: nothing is acknowledged before its commit.
#[tokio::test]
async fn a_listener_that_dies_before_its_commit_has_done_nothing() {
    let stage = Stage::new();
    stage.put([message("e1", "k")]).await;
    let (_closed, gate) = tokio::sync::watch::channel(false);
    let play = stage.play(gated(gate));
    play.health("it works on it", |health| health.held == 1).await;
    assert_eq!(stage.queue.messages().len(), 1);
    play.kill().await;
    assert!(stage.effects.rows().is_empty());
    let play = stage.play(writes(|_| Ok(())));
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["e1"]);
    let report = play.stop().await;
    assert_eq!(report.redelivered, 1);
}

/// Fault D9.
#[tokio::test]
async fn an_id_that_belongs_to_another_event_is_a_dead_letter() {
    let stage = Stage::new();
    stage.put([message_with("e1", "k", "1")]).await;
    let play = stage.play(writes(|_| Ok(())));
    stage.rows(1).await;
    stage
        .put([message_with("e1", "k", "2"), message("e2", "k")])
        .await;
    let letters = stage.letters(1).await;
    assert_eq!((&*letters[0].0, &*letters[0].1), ("e1", "id_reused"));
    assert!(letters[0].2.contains("another payload"), "{}", letters[0].2);
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["e1", "e2"]);
    play.stop().await;
}

#[tokio::test]
async fn a_replay_takes_effect_again_where_it_is_asked_to_and_once() {
    for (replays, expected) in [(Replays::Ignore, 1), (Replays::Apply, 3)] {
        let stage = Stage::new();
        let replayed = |replay: &str| {
            let mut message = message("e1", "k");
            message
                .headers
                .push((header::REPLAY.to_owned(), replay.to_owned()));
            message
        };
        stage
            .put([message("e1", "k"), replayed("a"), replayed("a"), replayed("b")])
            .await;
        let play = stage.play_with(writes(|_| Ok(())), |builder| builder.replays(replays));
        stage.empty().await;
        assert_eq!(stage.effects.rows().len(), expected);
        play.stop().await;
    }
}
