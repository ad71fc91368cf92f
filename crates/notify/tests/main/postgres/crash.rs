//! Backends and servers that end in the middle of a chunk.

use std::process::Command;

use postrider_core::{Schema, StoreErrorKind};
use postrider_notify::{Board, BoardError};
use postrider_testkit::wait::{PATIENCE, within};

use super::Pg;
use crate::suite::Bench;
use crate::suite::stage::{accept, crowd, finish, menu, workflows};

/// Holds up the next statement that inserts a delivery, until it is let go: a chunk stands still half stored.
const HOLD: &str = "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_lock(4711); PERFORM pg_advisory_unlock(4711); RETURN NULL; END $$;
    CREATE TRIGGER hold BEFORE INSERT ON notification_delivery FOR EACH STATEMENT EXECUTE FUNCTION hold()";

/// The backend that waits there.
const HELD: &str = "SELECT coalesce(max(pid), 0)::bigint FROM pg_locks
    WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted";

/// `kill -9` of a backend makes the server end all of them and recover: a chunk that was half stored is not there, and
/// the fan-out goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_is_killed_in_the_middle_of_a_chunk_repeats_and_loses_nothing() {
    // A server of its own: all of its connections end.
    let pg = Pg::alone().await;
    let board = crowd(&pg, "soup", 3_500).await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    pg.run(HOLD).await;
    for round in 1..=2 {
        let holder = pg.connect().await;
        holder
            .batch_execute("SELECT pg_advisory_lock(4711)")
            .await
            .expect("locked");
        let stepping = pg.board(workflows());
        let step = tokio::spawn(async move { stepping.step().await });
        let pid = within(PATIENCE, "the chunk stands still", async || {
            Some(pg.number(HELD).await).filter(|pid| *pid > 0)
        })
        .await;
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.expect("kill").success());
        let failed = step.await.expect("no panic").expect_err("the backend is gone");
        let BoardError::Store(error) = failed else {
            panic!("{failed:?}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
        drop(holder);
        within(PATIENCE, "the server is back", async || {
            pg.outbox().status().await.ok()
        })
        .await;
        let count = pg.number("SELECT count(*) FROM notification").await;
        assert_eq!(count, round * 1_000, "nothing of the chunk is there");
        // The connections of the board were cut as well; it finds new ones by itself.
        let step = within(PATIENCE, "it goes on", async || board.step().await.ok()).await;
        let step = step.expect("there is one");
        assert_eq!((step.stored, step.duplicates), (1_000, 0));
    }
    assert_eq!(finish(&board).await, 1);
    let told =
        "SELECT count(*) FROM (SELECT user_id FROM notification GROUP BY user_id HAVING count(*) = 1) once";
    assert_eq!(pg.number(told).await, 3_500);
    assert_eq!(
        pg.number("SELECT count(*) FROM notification_delivery").await,
        7_000
    );
    assert_eq!(pg.number("SELECT count(*) FROM outbox").await, 3_500);
}
