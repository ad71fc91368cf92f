//! What operators do beside others who were first: whoever waited for a row sees it as it is by then.

use std::time::Duration;

use postrider_core::{
    Console, DestinationName, Edit, ErrorKind, Failure, Filter, JobKind, JobState, JobVerb, Kept, Park,
    ParkedRow, Payload, Purge, Receipt, Replay, Settled, Status, Then, Upkeep, Verb,
};
use postrider_testkit::by_hand;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::support::{Db, Relay, act, event, parks, until};

const WAITS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

/// One dead event.
async fn with_dead() -> (Db, Relay) {
    with_parked(&["d"], Park::dead).await
}

/// One event that was refused everywhere and is to be tried again.
async fn with_refused(destinations: &[&str]) -> (Db, Relay) {
    with_parked(destinations, |destination, failure| Park {
        failures: 1,
        failure: Some(failure),
        ..Park::waiting(destination.expect("somewhere"), false)
    })
    .await
}

async fn with_parked(
    destinations: &[&str],
    park: impl Fn(Option<DestinationName>, Failure) -> Park,
) -> (Db, Relay) {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    let row = relay.queued().await.remove(0);
    let failure = Failure::new(ErrorKind::Rejected, "not wanted");
    let parks = destinations
        .iter()
        .map(|name| park(Some((*name).into()), failure.clone()));
    assert_eq!(
        relay
            .settle(vec![by_hand::parks(&row, parks.collect())], vec![])
            .await,
        [Settled::Done]
    );
    (db, relay)
}

/// The row of the event for a destination.
async fn due_for(relay: &Relay, destination: &str) -> ParkedRow {
    let mut rows = relay.page().await.parked.into_iter();
    let row = rows.find(|row| row.destination == Some(destination.into()));
    row.expect("it is due")
}

fn edit_of(destination: &str, payload: &str) -> Edit {
    Edit {
        event_id: "a".into(),
        destination: Some(destination.into()),
        payload: Payload::Text(payload.to_owned()),
        content_type: None,
        dry_run: false,
        actor: "ann".to_owned(),
    }
}

/// Somebody who changes something and has not committed it yet.
async fn first(db: &Db, sql: &str) -> Client {
    let client = db.connect().await;
    let changed = client.batch_execute(&format!("BEGIN; {sql}")).await;
    changed.expect("changed");
    client
}

/// Lets the first one commit once the second waits for it; answers what the second did.
async fn then<T>(db: &Db, first: Client, second: JoinHandle<T>) -> T {
    until("the second waits", || db.number(WAITS) == 1).await;
    first.batch_execute("COMMIT").await.expect("committed");
    second.await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discard_leaves_what_was_sent_again_since_it_was_chosen() {
    let (db, relay) = with_dead().await;
    let redriven = "UPDATE outbox_parked SET dead = false, redriven = true, version = version + 1";
    let redriver = first(&db, redriven).await;
    let store = db.store.clone();
    let discard = async move { store.act(act(Verb::Discard("old".into()), "a")).await };
    let chunk = then(&db, redriver, tokio::spawn(discard))
        .await
        .expect("answered");
    assert_eq!(
        (chunk.touched, chunk.refused),
        (0, vec![("a".into(), Status::Retrying)])
    );
    assert_eq!(relay.page().await.parked.len(), 1, "it is still to be sent");
    assert_eq!(db.store.stats().await.expect("stats").discarded, 0);
    let chunk = db.store.act(act(Verb::Discard("old".into()), "a")).await;
    assert_eq!(chunk.expect("discarded").touched, 1, "by one who has seen it so");
}

/// A relay settles between the choice of a row and the verb: the person who named it is told where it is now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_that_comes_too_late_says_where_the_event_is() {
    let gone = "WITH p AS (DELETE FROM outbox_parked RETURNING *)
        INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, payload, destination,
            outcome, attempts, failures, published_at)
        SELECT seq, event_id, event_type, aggregate_type, aggregate_id, payload, destination, 'published', 1, 0,
            clock_timestamp() FROM p";
    for verb in [Verb::Redrive, Verb::Discard("old".into())] {
        let (db, _relay) = with_dead().await;
        let settler = first(&db, gone).await;
        let store = db.store.clone();
        let late = tokio::spawn(async move { store.act(act(verb, "a")).await });
        let chunk = then(&db, settler, late).await.expect("answered");
        assert_eq!(
            (chunk.touched, chunk.refused),
            (0, vec![("a".into(), Status::Published)])
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_comes_too_late_keeps_nothing() {
    let (db, _relay) = with_dead().await;
    let settler = first(&db, "DELETE FROM outbox_parked").await;
    let store = db.store.clone();
    let editing = tokio::spawn(async move { store.edit(edit_of("d", "{}")).await });
    let chunk = then(&db, settler, editing).await.expect("answered");
    assert_eq!(chunk.touched, 0);
    assert_eq!(db.number("SELECT count(*) FROM outbox_original"), 0);
}

/// The snapshot of a settle that waits for the row shows nothing of what the edit keeps: it is told to come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_is_on_record_as_it_was_read_beside_an_edit() {
    let (db, relay) = with_refused(&["d"]).await;
    let read = due_for(&relay, "d").await;
    let auditor = first(&db, "LOCK TABLE outbox_audit IN EXCLUSIVE MODE").await;
    let store = db.store.clone();
    let editing = tokio::spawn(async move { store.edit(edit_of("d", "{\"n\":1}")).await });
    until("the row is edited", || db.number(WAITS) == 1).await;
    let sent = |row: &ParkedRow| vec![by_hand::again(row, Then::Sent(Receipt::default()))];
    let goes_on = async {
        until("the settle waits for the edit", || db.number(WAITS) == 2).await;
        auditor.batch_execute("COMMIT").await.expect("committed");
    };
    let (settled, ()) = tokio::join!(relay.settle(vec![], sent(&read)), goes_on);
    assert_eq!(settled, [Settled::Kept]);
    assert_eq!(editing.await.expect("it ends").expect("edited").touched, 1);
    assert_eq!(relay.settle(vec![], sent(&read)).await, [Settled::Done]);
    let edited = due_for(&relay, "d").await;
    assert_eq!(relay.settle(vec![], sent(&edited)).await, [Settled::Done]);
    let recorded = "SELECT string_agg(payload, ' ' ORDER BY published_at) FROM outbox_sent";
    assert_eq!(db.sql(recorded), "{} {\"n\":1}");
}

/// What the second of two edits keeps is what the first one wrote, also where a settle that began before both of them
/// brings an edit along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_edits_keep_is_not_replaced_by_a_settle_that_began_before_them() {
    let (db, relay) = with_refused(&["d", "x"]).await;
    let edited = db.store.edit(edit_of("x", "{\"x\":1}")).await;
    assert_eq!(edited.expect("edited").touched, 1);
    db.enqueue(&[event("b", "l")]).await;
    let row = relay.queued().await.remove(0);
    let waits = vec![Park::waiting("x".into(), false)];
    assert_eq!(
        relay.settle(vec![parks(&row, waits)], vec![]).await,
        [Settled::Done]
    );
    let mut due = relay.page().await.parked;
    due.retain(|row| row.destination == Some("x".into()));
    assert_eq!(due.len(), 2);
    let anew = |row| by_hand::again(row, Then::Split(vec![Park::waiting("d".into(), false)]));
    let anew = due.iter().map(anew).collect();
    let blocker = first(&db, "SELECT 1 FROM outbox_parked WHERE event_id = 'b' FOR UPDATE").await;
    let goes_on = async {
        until("the settle waits", || db.number(WAITS) == 1).await;
        for payload in ["{\"n\":1}", "{\"n\":2}"] {
            let edited = db.store.edit(edit_of("d", payload)).await;
            assert_eq!(edited.expect("edited").touched, 1);
        }
        blocker.batch_execute("COMMIT").await.expect("committed");
    };
    let (settled, ()) = tokio::join!(relay.settle(vec![], anew), goes_on);
    assert_eq!(settled, [Settled::Done; 2]);
    let kept =
        "SELECT string_agg(payload, ' ' ORDER BY version) FROM outbox_original WHERE destination = 'd'";
    assert_eq!(db.sql(kept), "{} {\"n\":1}");
    let sent = due_for(&relay, "d").await.row.event.expect("an event");
    assert_eq!(sent.payload, Payload::Text("{\"n\":2}".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waited_for_a_replay_knows_of_the_copies_that_were_made() {
    let (db, _relay) = with_dead().await;
    let replay = by_hand::replay_all();
    let job = db.store.begin(replay).await.expect("begun");
    let id = job.id.as_str();
    let copies = format!("UPDATE outbox_parked SET dead = false, replay_id = '{id}'");
    let steps = format!("UPDATE outbox_job SET touched = 1, cursor = bound + 1 || ':' WHERE id = '{id}'");
    let stepper = first(&db, &format!("{copies}; {steps}")).await;
    let (store, id) = (db.store.clone(), job.id.clone());
    let step = tokio::spawn(async move { store.step(id, 100).await });
    let job = then(&db, stepper, step).await.expect("stepped").job;
    assert_eq!((job.state, job.waiting), (JobState::Running, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_taken_back_in_the_order_of_their_places() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k"), event("b", "k")]).await;
    let dead = Park::dead(Some("d".into()), Failure::new(ErrorKind::Rejected, "not wanted"));
    let rows = relay.queued().await;
    let entries = rows.iter().map(|row| parks(row, vec![dead.clone()])).collect();
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 2]);
    let replay = by_hand::replay_all();
    let id = db.store.begin(replay).await.expect("begun").id;
    // The last place lies first in the table and in its index.
    for copy in ["b", "a"] {
        db.sql(&format!(
            "UPDATE outbox_parked SET replay_id = '{id}' WHERE event_id = '{copy}'"
        ));
    }
    let lock = |copy| format!("SELECT 1 FROM outbox_parked WHERE event_id = '{copy}' FOR UPDATE");
    let settler = first(&db, &lock("a")).await;
    let store = db.store.clone();
    let cancel = tokio::spawn(async move { store.steer(id, JobVerb::Cancel, "ann".to_owned()).await });
    until("the second waits", || db.number(WAITS) == 1).await;
    let next = settler.batch_execute(&lock("b")).await;
    next.expect("who waits for the first holds none of the others");
    let job = then(&db, settler, cancel).await.expect("cancelled");
    assert_eq!((job.state, job.waiting), (JobState::Cancelled, 0));
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 0);
}

/// A moment of the history, from long ago.
const SENT: &str =
    "INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, payload,
        destination, outcome, attempts, failures, published_at)
    VALUES (1, 'old', 'T', 'A', '1', '{}', 'd', 'published', 1, 0, clock_timestamp() - interval '1 hour')";

/// What a removal has chosen goes: a replay that had begun meanwhile would count it and not find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_begins_behind_a_removal_that_does_not_know_of_it() {
    let db = Db::new().await;
    db.sql(SENT);
    let removes = "LOCK TABLE outbox_job IN SHARE UPDATE EXCLUSIVE MODE; DELETE FROM outbox_sent";
    let remover = first(&db, removes).await;
    let store = db.store.clone();
    let replay = by_hand::replay_all();
    let begin = tokio::spawn(async move { store.begin(replay).await });
    let job = then(&db, remover, begin).await.expect("begun");
    let step = db.store.step(job.id, 10).await.expect("a step");
    assert_eq!((step.job.touched, step.job.state), (0, JobState::Done));
}

/// What another session does that begins a replay of everything.
const BEGINS: &str = "LOCK TABLE outbox_job IN SHARE ROW EXCLUSIVE MODE;
     INSERT INTO outbox_job (id, kind, spec, state, actor, bound)
     VALUES ('replay', 'replay', '{spec}', 'running', 'ann', 10)";

/// Nor is a whole day dropped that was chosen before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_stays_that_a_replay_begins_to_read() {
    let db = Db::new().await;
    let day = "CREATE TABLE outbox_sent_20200101 PARTITION OF outbox_sent
                   FOR VALUES FROM ('2020-01-01 00:00Z') TO ('2020-01-02 00:00Z')";
    db.sql(day);
    db.sql(&SENT.replace("clock_timestamp() - interval '1 hour'", "'2020-01-01 12:00Z'"));
    let spec = JobKind::Replay(Replay::default()).spec(&Filter::default());
    let beginner = first(&db, &BEGINS.replace("{spec}", &spec)).await;
    let store = db.store.clone();
    let purge = Purge {
        in_bulk: true,
        ..Purge::of(Kept::History, Duration::from_secs(86_400), 10)
    };
    let removal = tokio::spawn(async move { store.purge(purge).await });
    let purged = then(&db, beginner, removal).await.expect("purged");
    assert_eq!(
        (purged.rows, db.number("SELECT count(*) FROM outbox_sent")),
        (0, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_behind_a_replay_that_begins_knows_of_it() {
    for what in [Kept::History, Kept::Restored] {
        let db = Db::new().await;
        db.sql(SENT);
        db.sql(
            "INSERT INTO outbox_restored (job_id, restored_at, seq, event_id, event_type, aggregate_type, aggregate_id,
                 payload, destination, outcome, attempts, failures, published_at)
             SELECT 'restore', published_at, seq, event_id, event_type, aggregate_type, aggregate_id, payload,
                 destination, outcome, attempts, failures, published_at FROM outbox_sent",
        );
        let replay = JobKind::Replay(Replay {
            restored: (what == Kept::Restored).then(|| "restore".into()),
            ..Replay::default()
        });
        let spec = replay.spec(&Filter::default());
        let beginner = first(&db, &BEGINS.replace("{spec}", &spec)).await;
        let store = db.store.clone();
        let purge = Purge::of(what.clone(), Duration::ZERO, 10);
        let removal = tokio::spawn(async move { store.purge(purge).await });
        let purged = then(&db, beginner, removal).await.expect("purged");
        assert_eq!(purged.rows, 0, "{what:?}");
    }
}
