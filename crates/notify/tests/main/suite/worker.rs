//! The worker, on a board that is no stand-in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_notify::{Board, Told, Worker};
use postrider_testkit::wait::{PATIENCE, within};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Bench;
use super::digest::later;
use super::fanout::{refuse_soup, told_once};
use super::stage::{HOUR, accept, crowd, finish, liked, menu, person, two_crowds, workflows};

/// A worker that runs, and all that it told.
struct Running {
    stop: CancellationToken,
    told: Arc<Mutex<Vec<Told>>>,
    task: JoinHandle<()>,
}

impl Running {
    fn begin(board: &Arc<dyn Board>) -> Self {
        let (stop, told) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let worker = Worker::new(Arc::clone(board)).tell({
            let told = Arc::clone(&told);
            move |one| told.lock().expect("no panic").push(one.clone())
        });
        Self {
            task: tokio::spawn(worker.run(stop.clone())),
            stop,
            told,
        }
    }

    async fn end(self) -> Vec<Told> {
        self.stop.cancel();
        self.task.await.expect("it stops");
        let told = self.told.lock().expect("no panic");
        told.clone()
    }
}

/// Waits until a query answers this.
async fn until(bench: &dyn Bench, what: &str, sql: &str, number: i64) {
    within(PATIENCE, what, async || {
        (bench.number(sql).await == number).then_some(())
    })
    .await;
}

/// A fan-out that the database refuses, and a digest that has no workflow; behind both there are others.
pub(crate) async fn what_fails_holds_up_no_other(bench: &dyn Bench) {
    let board = two_crowds(bench, 1_100).await;
    for id in ["ann", "bea"] {
        board.put(&person(id)).await.expect("put");
        assert_eq!(accept(&board, liked("e1", id)).await.collected, 1);
    }
    bench
        .run("UPDATE notification_digest SET workflow = 'gone' WHERE user_id = 'ann'")
        .await;
    later(bench).await;
    later(bench).await;
    assert!(accept(&board, menu("refused", "soup")).await.goes_on);
    assert!(accept(&board, menu("sound", "salad")).await.goes_on);
    refuse_soup(bench, &board).await;
    let worker = Running::begin(&board);
    let open = "SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL";
    until(bench, "the sound fan-out to finish", open, 1).await;
    let open = "SELECT count(*) FROM notification_digest WHERE sent_at IS NULL";
    until(bench, "the sound digest to be told", open, 1).await;
    let told = worker.end().await;
    told_once(bench, "sound", 1_100).await;
    let aside = told.iter().filter(|one| matches!(one, Told::PutAside(_)));
    assert_eq!(aside.count(), 2, "{told:?}");
    let failed = told.iter().filter(|one| matches!(one, Told::Failed(_)));
    assert_eq!(failed.count(), 0, "none of it is the database's: {told:?}");
}

/// Whatever it was doing: what it had not committed is done by the next, and nothing is done twice.
pub(crate) async fn one_that_is_dropped_in_the_middle_is_gone_on_from(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 4_200).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    let open = "SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL";
    let mut dropped = 0;
    while bench.number(open).await > 0 {
        dropped += 1;
        // Each lives a little longer, so that they end at all kinds of places, and one of them gets there.
        let life = Duration::from_millis(2 * dropped);
        let worker = Worker::new(bench.open(workflows()).await);
        let _ = tokio::time::timeout(life, worker.run(CancellationToken::new())).await;
    }
    assert!(dropped > 1, "the first had two milliseconds for three thousand");
    told_once(bench, "e1", 4_200).await;
}

/// Whoever has fan-outs tried again does not disturb those that go on.
pub(crate) async fn resuming_beside_another_changes_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 3_200).await;
    for id in ["e1", "e2", "aside"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    let rename = async |to: &str| {
        let sql = format!("UPDATE notification_fanout SET workflow = '{to}' WHERE event_id = 'aside'");
        bench.run(&sql).await;
    };
    rename("gone").await;
    bench.age("notification_fanout", "created_at", HOUR).await;
    let worker = Running::begin(&board);
    let other = bench.open(workflows()).await;
    let finished = "SELECT count(*) FROM notification_fanout WHERE finished_at IS NOT NULL";
    within(PATIENCE, "the others to finish", async || {
        other.resume().await.expect("resumed");
        (bench.number(finished).await == 2).then_some(())
    })
    .await;
    worker.end().await;
    rename("menuchanged").await;
    other.resume().await.expect("resumed");
    finish(&other).await;
    for id in ["e1", "e2", "aside"] {
        told_once(bench, id, 3_200).await;
    }
}
