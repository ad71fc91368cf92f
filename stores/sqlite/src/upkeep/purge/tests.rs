//! What a removal leaves for a replay.

use postrider_core::{Console, Filter, JobKind, NewJob, Replay, Schema, Upkeep};

use super::*;
use crate::config::SqliteOptions;
use crate::store::SqliteStore;

/// A store whose history is two rows of three days ago.
async fn with_history(folder: &tempfile::TempDir) -> SqliteStore {
    let store = SqliteStore::open(folder.path().join("shop.db"), SqliteOptions::default()).unwrap();
    store.up().await.unwrap();
    let fill = |view: View<'_>| {
        let sql =
            "INSERT INTO {outbox_sent} (seq, destination, event_id, event_type, aggregate_type, aggregate_id,
                       outcome, published_at)
                   VALUES (1, 'd', 'a', 'T', 'A', 'k', 'published', ?1),
                          (2, 'd', 'b', 'T', 'A', 'k', 'published', ?1)";
        let at = view.standing.now - 3 * 86_400_000_000;
        Ok(view.tx.execute(&view.sql(sql), [at])?)
    };
    store.tend("filling", fill).await.unwrap();
    store
}

async fn replay(store: &SqliteStore) -> JobId {
    let job = NewJob {
        id: JobId::new(),
        kind: JobKind::Replay(Replay::default()),
        filter: Filter::default(),
        actor: "ann".to_owned(),
    };
    store.begin(job).await.unwrap().id
}

fn of_history(actor: Option<&str>) -> Purge {
    Purge {
        actor: actor.map(str::to_owned),
        ..Purge::of(Kept::History, Duration::from_secs(2 * 86_400), 100)
    }
}

#[tokio::test]
async fn a_replay_that_begins_behind_the_search_keeps_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_history(&folder).await;
    let found = store
        .view("finding", |view| find(&view, &of_history(None)))
        .await
        .unwrap();
    assert_eq!(found.rows.len(), 2);
    replay(&store).await;
    let removed = store
        .tend("removing", |view| {
            remove(&view, &of_history(None), found, Some(Company::Settle))
        })
        .await
        .unwrap();
    assert_eq!((removed.rows, removed.more), (0, false));
    assert!(store.purge(of_history(None)).await.unwrap().held.is_some());
}

#[tokio::test]
async fn a_replay_keeps_what_it_has_still_to_read_until_it_is_cancelled_as_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_history(&folder).await;
    let job = replay(&store).await;
    let hour = |actor| Purge {
        older_than: Duration::from_secs(3_600),
        ..of_history(actor)
    };
    for actor in [Some("ben"), None] {
        let purged = store.purge(hour(actor)).await.unwrap();
        assert_eq!((purged.rows, purged.held.is_some()), (0, true), "{actor:?}");
    }
    assert_eq!(
        store
            .forgotten(Purge::longest(Duration::from_secs(2 * 86_400)))
            .await
            .unwrap(),
        None
    );
    // Three days are more than an hour and a day.
    let longest = Purge::longest(Duration::from_secs(3_600));
    let forgotten = store.forgotten(longest).await.unwrap();
    assert_eq!(forgotten, Some(job));
}
