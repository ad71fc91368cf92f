//! An event for many: in chunks, each whole, that go on wherever they were left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postrider_notify::{Board, BoardError, CHUNK, Occasion, To, Told, Worker, Workflows};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Bench;
use super::stage::{
    HOUR, accept, crowd, event, finish, for_all, is_refused, liked, menu, rows, two_crowds, workflows,
};

/// Everybody was told once, in app and by mail.
pub(crate) async fn told_once(bench: &dyn Bench, event: &str, size: usize) {
    let size = i64::try_from(size).expect("a size");
    let count = async |what: &str| {
        let sql = format!("SELECT {what} FROM notification WHERE event_id = '{event}'");
        bench.number(&sql).await
    };
    assert_eq!(
        (count("count(*)").await, count("count(DISTINCT user_id)").await),
        (size, size)
    );
    let deliveries = format!(
        "SELECT count(*) FROM notification_delivery d JOIN notification n ON n.id = d.notification_id \
         JOIN outbox o ON o.event_id = d.event_id WHERE n.event_id = '{event}' AND d.channel = 'email'"
    );
    assert_eq!(bench.number(&deliveries).await, size);
}

pub(crate) async fn a_small_topic_is_stored_at_once(bench: &dyn Bench) {
    let board = crowd(bench, "soup", CHUNK - 1).await;
    let accepted = accept(&board, menu("e1", "soup")).await;
    assert_eq!(
        (accepted.stored, accepted.goes_on, accepted.one),
        (CHUNK as u64 - 1, false, None)
    );
    assert_eq!(
        (rows(bench).await[2], board.step().await.expect("a step")),
        (0, None)
    );
    let empty = accept(&board, menu("e2", "nobody")).await;
    assert_eq!((empty.stored, empty.goes_on), (0, false));
    told_once(bench, "e1", CHUNK - 1).await;
}

pub(crate) async fn a_large_one_goes_on_in_chunks(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 2_500).await;
    let accepted = accept(&board, menu("e1", "soup")).await;
    assert_eq!((accepted.stored, accepted.goes_on), (1_000, true));
    let second = board.step().await.expect("a step").expect("it goes on");
    assert_eq!(
        (&*second.event_id, second.stored, second.finished),
        ("e1", 1_000, false)
    );
    let third = board.step().await.expect("a step").expect("it goes on");
    assert_eq!((third.stored, third.finished), (500, true));
    assert_eq!(board.step().await.expect("a step"), None);
    told_once(bench, "e1", 2_500).await;
    assert_eq!(
        bench.number("SELECT stored FROM notification_fanout").await,
        2_500
    );
}

/// Memory is bounded by what is told, and not by how many are told.
pub(crate) async fn long_words_make_short_chunks(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 120).await;
    let letter = |id: &str| {
        let text = "x".repeat(150_000);
        for_all("soup", event(id, "LetterSent", "", json!({"text": text})))
    };
    let accepted = accept(&board, letter("e1")).await;
    assert!(
        (50..70).contains(&accepted.stored) && accepted.goes_on,
        "{accepted:?}"
    );
    let second = board.step().await.expect("a step").expect("it goes on");
    assert!(second.stored < 70, "{second:?}");
    finish(&board).await;
    told_once(bench, "e1", 120).await;
    let done = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    assert_eq!((done.stored, done.finished), (120, true));
}

/// A page that is exactly full does not say whether it was the last.
pub(crate) async fn a_crash_between_chunks_loses_and_repeats_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 2_500).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    drop(board);
    let board = bench.open(workflows()).await;
    let second = board.step().await.expect("a step").expect("another goes on");
    assert_eq!((second.stored, second.duplicates), (1_000, 0));
    drop(board);
    let board = bench.open(workflows()).await;
    let third = board.step().await.expect("a step").expect("another goes on");
    assert_eq!((third.stored, third.duplicates, third.finished), (500, 0, true));
    told_once(bench, "e1", 2_500).await;
}

pub(crate) async fn two_that_work_on_it_share_it(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 3_300).await;
    for id in ["e1", "e2", "e3"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let board = bench.open(workflows()).await;
        tasks.push(tokio::spawn(async move { finish(&board).await }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    // Who found another at work on the last one may have gone home before it.
    finish(&board).await;
    for id in ["e1", "e2", "e3"] {
        told_once(bench, id, 3_300).await;
    }
    let unfinished = "SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL";
    assert_eq!(bench.number(unfinished).await, 0);
}

/// Lets so much time pass that those who might know a workflow have had their chance.
async fn nobody_took_it(bench: &dyn Bench) {
    bench.age("notification_fanout", "created_at", HOUR).await;
}

/// While a new configuration is rolled out, who has the old one takes nothing that only the new one can do.
pub(crate) async fn what_others_know_is_left_to_them(bench: &dyn Bench) {
    let knows = crowd(bench, "soup", 1_100).await;
    let all = workflows();
    let fewer = all.all().iter().filter(|one| one.name == "userfollowed").cloned();
    let fewer = Workflows::new(all.audiences().to_vec(), fewer.collect()).expect("they are right");
    let older = bench.open(Arc::new(fewer)).await;
    assert!(accept(&knows, menu("e1", "soup")).await.goes_on);
    assert_eq!(accept(&knows, liked("e2", "u00001")).await.collected, 1);
    bench.age("notification_digest", "due_at", HOUR).await;
    assert_eq!(older.step().await.expect("a step"), None);
    assert!(!older.digest().await.expect("asked"));
    assert_eq!(older.next_digest().await.expect("asked"), None);
    assert_eq!(finish(&knows).await, 1);
    assert!(knows.digest().await.expect("asked"));
    // What nobody took is said to be stuck.
    assert!(accept(&knows, menu("e3", "soup")).await.goes_on);
    nobody_took_it(bench).await;
    assert!(is_refused(older.step().await).contains("menuchanged"));
}

/// Its words fail for somebody in a later chunk: it is said once and stands aside until it is delivered again.
pub(crate) async fn one_that_fails_holds_up_no_other(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    for id in ["e1", "e2"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    // The workflow that it was accepted with is not there any more.
    bench
        .run("UPDATE notification_fanout SET workflow = 'gone' WHERE event_id = 'e1'")
        .await;
    nobody_took_it(bench).await;
    let failed = board.step().await;
    assert!(matches!(failed, Err(BoardError::Occasion(_))), "{failed:?}");
    let other = board.step().await.expect("a step").expect("the other goes on");
    assert_eq!((&*other.event_id, other.finished), ("e2", true));
    assert_eq!(board.step().await.expect("a step"), None);
    bench
        .run("UPDATE notification_fanout SET workflow = 'menuchanged' WHERE event_id = 'e1'")
        .await;
    assert!(
        accept(&board, menu("e1", "soup")).await.goes_on,
        "delivered again"
    );
    assert_eq!(finish(&board).await, 1);
    told_once(bench, "e1", 1_100).await;
}

/// Lets the database refuse the second chunk of what goes to `soup`: a unique index of the team's own, which somebody
/// in it stands against.
pub(crate) async fn refuse_soup(bench: &dyn Bench, board: &Arc<dyn Board>) {
    let one = event("one", "MenuChanged", "u01050", json!({"dish": "Soup"}));
    assert_eq!(accept(board, one).await.stored, 1);
    bench
        .run("CREATE UNIQUE INDEX odd ON notification (user_id)")
        .await;
}

/// Nothing of its chunk is there, and others are told.
pub(crate) async fn one_that_the_database_refuses_holds_up_no_other(bench: &dyn Bench) {
    let board = two_crowds(bench, 1_100).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    assert!(accept(&board, menu("e2", "salad")).await.goes_on);
    refuse_soup(bench, &board).await;
    let before = rows(bench).await;
    is_refused(board.step().await);
    assert_eq!(rows(bench).await, before);
    let aside = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    assert!(!aside.finished && aside.problem.is_some(), "{aside:?}");
    let other = board.step().await.expect("a step").expect("the other goes on");
    assert_eq!((&*other.event_id, other.finished), ("e2", true));
    told_once(bench, "e2", 1_100).await;
    bench.run("DROP INDEX odd").await;
    assert_eq!(board.resume().await.expect("resumed"), 1);
    assert_eq!(finish(&board).await, 1);
    told_once(bench, "e1", 1_100).await;
}

/// Whoever starts with the workflow that was missing goes on: the event itself does not come again.
pub(crate) async fn one_that_stands_aside_is_resumed(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    let rename = async |to: &str| {
        let sql = format!("UPDATE notification_fanout SET workflow = '{to}' WHERE event_id = 'e1'");
        bench.run(&sql).await;
    };
    rename("gone").await;
    nobody_took_it(bench).await;
    assert!(matches!(board.step().await, Err(BoardError::Occasion(_))));
    let aside = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    assert!(!aside.finished && aside.problem.is_some_and(|problem| problem.contains("gone")));
    rename("menuchanged").await;
    assert_eq!(board.step().await.expect("a step"), None, "it stands aside");
    assert_eq!(board.resume().await.expect("resumed"), 1);
    assert_eq!(finish(&board).await, 1);
    told_once(bench, "e1", 1_100).await;
    let done = board.fan_out("e1").await.expect("an answer").expect("a fan-out");
    assert_eq!((done.stored, done.finished, done.problem), (1_100, true, None));
    assert_eq!(board.resume().await.expect("nothing is left"), 0);
    assert_eq!(board.fan_out("e2").await.expect("an answer"), None);
}

/// Many that cannot go on cost the others no pause.
pub(crate) async fn a_worker_goes_on_beside_what_stands_aside(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    for n in 0..20 {
        assert!(
            accept(&board, menu(&format!("broken-{n:02}"), "soup"))
                .await
                .goes_on
        );
    }
    bench
        .run("UPDATE notification_fanout SET workflow = 'gone'")
        .await;
    nobody_took_it(bench).await;
    assert!(accept(&board, menu("sound", "soup")).await.goes_on);
    let aside = Arc::new(AtomicUsize::new(0));
    let worker = Worker::new(Arc::clone(&board)).tell({
        let aside = Arc::clone(&aside);
        move |told| {
            let one = usize::from(matches!(told, Told::PutAside(_)));
            aside.fetch_add(one, Ordering::Relaxed);
        }
    });
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    let unfinished =
        "SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL AND event_id = 'sound'";
    let begun = Instant::now();
    while bench.number(unfinished).await > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        tokio::task::yield_now().await;
    }
    stop.cancel();
    running.await.expect("it stops");
    assert_eq!(aside.load(Ordering::Relaxed), 20);
    told_once(bench, "sound", 1_100).await;
}

pub(crate) async fn accepting_again_changes_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    let broadcast = || Occasion {
        to: To::Topic("soup".to_owned()),
        ..event("e1", "MenuChanged", "", json!({"dish": "Soup"}))
    };
    assert!(accept(&board, broadcast()).await.goes_on);
    let again = accept(&board, broadcast()).await;
    assert_eq!((again.stored, again.duplicates, again.goes_on), (0, 1_000, true));
    assert_eq!(finish(&board).await, 1);
    let again = accept(&Arc::clone(&board), broadcast()).await;
    assert_eq!(
        (again.duplicates, again.goes_on),
        (1_000, false),
        "it is finished"
    );
    assert_eq!(finish(&board).await, 0);
    told_once(bench, "e1", 1_100).await;
}
