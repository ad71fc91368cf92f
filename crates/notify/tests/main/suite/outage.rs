//! What cannot be done at the moment is seen.

use std::sync::Arc;

use postrider_notify::{Told, Worker};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use super::Bench;
use super::stage::{HOUR, accept, crowd, liked, menu, person, workflows};

/// Also where there is nothing to do: an outage at night must not hide the one in the morning.
pub(crate) async fn a_worker_says_when_it_is_well_again(bench: &dyn Bench) {
    let board = bench.open(workflows()).await;
    let (tell, mut told) = unbounded_channel();
    let worker = Worker::new(Arc::clone(&board)).tell(move |told| {
        let _ = tell.send(told.clone());
    });
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    // Its tables are missing.
    let first = told.recv().await.expect("it says something");
    assert!(matches!(first, Told::Failed(_)), "{first:?}");
    board.migrate().await.expect("migrated");
    loop {
        match told.recv().await.expect("it says something") {
            Told::Failed(_) => {}
            Told::Well => break,
            other => panic!("{other:?}"),
        }
    }
    stop.cancel();
    running.await.expect("it stops");
}

pub(crate) async fn what_stands_aside_is_counted(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    board.put(&person("ann")).await.expect("put");
    let nothing = board.standing().await.expect("counted");
    assert_eq!(nothing, postrider_notify::Standing::default());
    for id in ["e1", "e2"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    accept(&board, liked("e3", "ann")).await;
    accept(&board, liked("e3", "u00001")).await;
    bench
        .run(
            "UPDATE notification_fanout SET workflow = 'gone' WHERE event_id = 'e1'; \
             UPDATE notification_digest SET workflow = 'gone' WHERE user_id = 'ann'",
        )
        .await;
    bench.age("notification_fanout", "created_at", HOUR).await;
    bench.age("notification_digest", "due_at", 2 * HOUR).await;
    assert!(board.step().await.is_err());
    assert!(board.digest().await.is_err() || board.digest().await.is_err());
    let standing = board.standing().await.expect("counted");
    assert_eq!((standing.fan_outs, standing.fan_outs_aside), (2, 1));
    assert_eq!(standing.digests_aside, 1);
    let aside: Vec<_> = standing.aside.iter().map(|one| one.problem.as_str()).collect();
    assert_eq!(aside.len(), 2, "{aside:?}");
    assert!(aside.iter().all(|problem| problem.contains("gone")), "{aside:?}");
    // What is counted goes by workflow, and only what is configured.
    let counted = board.tally().workflows();
    assert_eq!(
        (counted["menuchanged"].stored, counted["postliked"].collected),
        (2_000, 2)
    );
    assert!(!counted.contains_key("gone"));
}
