//! What is away comes back, and nothing is charged for it.

use std::sync::Arc;

use postrider_core::{Sink, Source, StoreErrorKind};
use postrider_memory::MemorySink;
use postrider_testkit::wait::until;

use crate::support::{Cut, Stage, gated, message, writes};

/// Fault D15.
#[tokio::test]
async fn a_database_that_is_away_pauses_consumption_and_charges_nothing() {
    for kind in [
        StoreErrorKind::Unreachable,
        StoreErrorKind::Full,
        StoreErrorKind::Schema,
    ] {
        let stage = Stage::new();
        stage.effects.set_away(Some(kind));
        stage.put((0..50).map(|n| message(&format!("{n:02}"), "k"))).await;
        let play = stage.play_with(writes(|_| Ok(())), |builder| builder.prefetch(10));
        play.health("it notices", |health| health.store.is_some()).await;
        let received = play.listener.report().received;
        let refused = stage.effects.refused();
        until("it probes", || stage.effects.refused() >= refused + 3).await;
        assert_eq!(play.listener.report().received, received);
        assert_eq!(
            (stage.notes.count("StoreFailed"), stage.notes.count("WillRetry")),
            (1, 0)
        );
        stage.effects.set_away(None);
        stage.empty().await;
        assert_eq!(stage.effects.rows().len(), 50);
        assert!(stage.dead.messages().is_empty());
        play.health("all is well", |health| health.is_well()).await;
        assert_eq!(stage.notes.count("StoreBack"), 1);
        play.stop().await;
    }
}

#[tokio::test]
async fn an_error_that_nobody_can_place_is_charged_only_while_others_pass() {
    let stage = Stage::new();
    stage.effects.set_away(Some(StoreErrorKind::Other));
    stage.put([message("e1", "k")]).await;
    let play = stage.play(writes(|_| Ok(())));
    until("more failures than attempts", || {
        stage.notes.count("WillRetry") > 5
    })
    .await;
    assert!(stage.dead.messages().is_empty());
    stage.effects.set_away(None);
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["e1"]);
    play.stop().await;
}

/// Fault D13.
#[tokio::test]
async fn a_lost_connection_delivers_again_and_nothing_takes_effect_twice() {
    let stage = Stage::new();
    stage
        .put((0..6).map(|n| message(&format!("e{n}"), &format!("{}", n % 2))))
        .await;
    let source = Arc::new(Cut::new(&stage.queue));
    let (open, gate) = tokio::sync::watch::channel(false);
    let play = stage.play_on(Arc::clone(&source) as Arc<dyn Source>, gated(gate), |builder| {
        builder.concurrency(2).batch(1)
    });
    play.health("it holds all", |health| health.held == 6).await;
    source.cut();
    // The two that run stay, and all six come again and wait behind them.
    play.health("it holds them again", |health| health.held == 8)
        .await;
    assert_eq!(
        (stage.notes.count("SourceFailed"), stage.notes.count("SourceBack")),
        (1, 1)
    );
    open.send_replace(true);
    stage.empty().await;
    let mut rows = stage.effects.rows();
    for key in ["0", "1"] {
        let of_key = rows
            .iter()
            .filter(|id| (id.as_bytes()[1] - b'0') % 2 == key.as_bytes()[0] - b'0');
        assert!(of_key.is_sorted());
    }
    rows.sort();
    assert_eq!(rows, ["e0", "e1", "e2", "e3", "e4", "e5"]);
    let report = play.stop().await;
    assert_eq!(
        (report.received, report.redelivered, report.duplicates),
        (12, 6, 2)
    );
}

/// Fault D15. What waited for the database is another listener's now: nothing here says whether it is back.
#[tokio::test]
async fn a_database_that_nothing_waits_for_is_no_trouble() {
    let stage = Stage::new();
    stage.effects.set_away(Some(StoreErrorKind::Unreachable));
    stage.put([message("e1", "k")]).await;
    let source = Arc::new(Cut::new(&stage.queue));
    let play = stage.play_on(
        Arc::clone(&source) as Arc<dyn Source>,
        writes(|_| Ok(())),
        |builder| builder,
    );
    play.health("it notices", |health| health.store.is_some()).await;
    let elsewhere = MemorySink::queue(10);
    source.cut_over_to(&elsewhere);
    play.health("nothing is held", |health| health.is_well() && health.held == 0)
        .await;
    // The next message finds out.
    elsewhere.publish([message("e2", "k")].into()).await;
    play.health("it notices again", |health| health.store.is_some())
        .await;
    stage.effects.set_away(None);
    assert_eq!(stage.rows(1).await, ["e2"]);
    play.health("all is well", |health| health.is_well()).await;
    assert_eq!(
        (stage.notes.count("StoreFailed"), stage.notes.count("StoreBack")),
        (1, 1)
    );
    play.stop().await;
}
