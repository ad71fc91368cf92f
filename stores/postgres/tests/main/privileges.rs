//! The relay runs under a role that may do what was printed for it, and nothing else.

use postrider_core::{
    Claim, Console, Control, Cursor, Duty, Edit, Filter, HistoryAsk, JobId, JobKind, JobState, JobVerb, Kept,
    Limits, List, NewJob, Park, Payload, Purge, RelayId, Replay, Restore, Schema, Scope, Settled, Store,
    StoreErrorKind, Timestamp, Upkeep, Verb,
};
use postrider_postgres::PgOptions;
use postrider_testkit::servers::Postgres;

use crate::support::{Db, Relay, act, event, few_shards, heartbeat, parks, sent};

/// A store that connects as the role of the relay.
async fn as_role(db: &Db, role: &str) -> Relay {
    db.sql(&format!(
        "DO $$ BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    ));
    db.sql(&db.store.grants(role).expect("grants"));
    let url = Postgres::shared()
        .url(&db.database.name)
        .replace("postgres@", &format!("{role}@"));
    let store = postrider_postgres::PgStore::connect(&url, few_shards())
        .await
        .expect("a connection");
    let standing = store
        .heartbeat(heartbeat("restricted"))
        .await
        .expect("a heartbeat");
    Relay {
        fence: standing
            .leases
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect(),
        store,
    }
}

/// Fault H17.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_and_its_console_need_only_what_is_granted() {
    let db = Db::new().await;
    let relay = as_role(&db, "relay_role").await;
    db.enqueue(&[event("a", "k"), event("b", "l"), event("c", "m")])
        .await;
    let rows = relay.queued().await;
    let dead = Park::dead(
        Some("d".into()),
        postrider_core::Failure::new(postrider_core::ErrorKind::Rejected, "no"),
    );
    let entries = vec![
        sent(&rows[0], "d"),
        parks(&rows[1], vec![dead.clone()]),
        parks(&rows[2], vec![dead]),
    ];
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 3]);
    assert_eq!(
        relay
            .store
            .act(act(Verb::Redrive, "b"))
            .await
            .expect("redriven")
            .touched,
        1
    );
    assert_eq!(
        relay
            .store
            .act(act(Verb::Discard("x".into()), "c"))
            .await
            .expect("discarded")
            .touched,
        1
    );
    assert_eq!(relay.page().await.parked.len(), 1);
    assert_eq!(relay.store.stats().await.expect("stats").published, 1);
    assert_eq!(
        relay
            .store
            .list(List::first(10, Filter::default()))
            .await
            .expect("a list")
            .events
            .len(),
        3,
        "what was discarded is listed too"
    );
    relay
        .store
        .control(Control::Pause(Scope::Outbox), "-".to_owned())
        .await
        .expect("paused");
    relay.store.groups().await.expect("groups");
    relay.store.maintain().await.expect("partitions are looked after");
    let bell = relay.store.doorbell().expect("a doorbell");
    drop(
        bell.arm(relay.fence.iter().map(|(shard, _)| *shard).collect())
            .await
            .expect("armed"),
    );
    db.sql("INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, outcome, published_at)
            VALUES (999, 'old', 'T', 'A', '1', 'published', now() - interval '30 minutes')");
    let gone = relay
        .store
        .purge(Purge::of(Kept::History, std::time::Duration::from_secs(600), 10))
        .await
        .expect("purged");
    assert_eq!(gone.rows, 1);
}

fn job(kind: JobKind) -> NewJob {
    NewJob {
        id: JobId::new(),
        kind,
        filter: Filter::default(),
        actor: "ann".to_owned(),
    }
}

/// Fault H17. What people and the housekeeping do is granted too, every table of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_and_every_duty_is_granted() {
    let db = Db::new().await;
    let Relay { store, fence } = as_role(&db, "verbs_role").await;
    let relay = Relay {
        store: store.clone(),
        fence,
    };
    db.enqueue(&[event("a", "k"), event("b", "l")]).await;
    let rows = relay.queued().await;
    let dead = Park::dead(
        Some("d".into()),
        postrider_core::Failure::new(postrider_core::ErrorKind::Rejected, "no"),
    );
    let entries = vec![sent(&rows[0], "d"), parks(&rows[1], vec![dead])];
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 2]);

    let edit = Edit {
        event_id: "b".into(),
        destination: None,
        payload: Payload::Text("{}".to_owned()),
        content_type: None,
        dry_run: false,
        actor: "ann".to_owned(),
    };
    assert_eq!(store.edit(edit).await.expect("edited").touched, 1);
    let redrive = store
        .begin(job(JobKind::Act(Verb::Redrive)))
        .await
        .expect("begun");
    let step = store.step(redrive.id.clone(), 10).await.expect("a step");
    assert_eq!((step.job.touched, step.job.state), (1, JobState::Done));

    let page = store
        .history(HistoryAsk {
            limit: 10,
            max_bytes: 1_000,
            ..HistoryAsk::default()
        })
        .await
        .expect("a page");
    let restore = store
        .begin(job(JobKind::Restore(Restore::default())))
        .await
        .expect("begun")
        .id;
    let restored = store.restore(restore.clone(), page.rows, Cursor("1".to_owned()));
    assert_eq!(restored.await.expect("restored").touched, 1);
    store
        .mark(restore.clone(), Cursor("2".to_owned()), 0, true)
        .await
        .expect("marked");
    for restored in [None, Some(restore)] {
        let replay = Replay {
            restored,
            ..Replay::default()
        };
        let replay = store.begin(job(JobKind::Replay(replay))).await.expect("begun").id;
        let step = store.step(replay.clone(), 10).await.expect("a step");
        assert_eq!((step.job.touched, step.job.waiting), (1, 1));
        let job = store.steer(replay, JobVerb::Cancel, "ann".to_owned()).await;
        assert_eq!(job.expect("cancelled").waiting, 0);
    }

    for control in [
        Control::Pause(Scope::Key("k".to_owned())),
        Control::Resume(Scope::Key("k".to_owned())),
        Control::Limit("d".into(), Limits::default()),
        Control::Unlimit("d".into()),
    ] {
        store
            .control(control, "ann".to_owned())
            .await
            .expect("controlled");
    }
    store.controls().await.expect("controls");
    assert!(!store.audit(10, None).await.expect("the audit").entries.is_empty());
    let duty = Duty {
        name: "x/1".to_owned(),
        holder: RelayId("one".into()),
        term: std::time::Duration::from_secs(60),
        slot: Timestamp(0),
    };
    assert_eq!(store.claim(duty.clone()).await.expect("claimed"), Claim::Yours);
    store
        .finish(duty.clone(), "fine".to_owned())
        .await
        .expect("finished");
    assert_eq!(store.claim(duty).await.expect("asked"), Claim::Done);
    let past = store.past_duties("x/".to_owned()).await.expect("looked at");
    assert_eq!(store.forget_duties(past).await.expect("forgotten"), 1);
    for (what, least) in [
        (Kept::Audit, 1),
        (Kept::Jobs, 1),
        (Kept::Restored, 1),
        (Kept::Originals, 0),
    ] {
        let purge = Purge::of(what.clone(), std::time::Duration::ZERO, 100);
        let gone = store.purge(purge).await.expect("purged");
        assert!(gone.rows >= least, "{what:?} {gone:?}");
    }
    let client = crate::support::connect(
        &Postgres::shared()
            .url(&db.database.name)
            .replace("postgres@", "verbs_role@"),
    )
    .await;
    client
        .execute("DELETE FROM outbox_audit", &[])
        .await
        .expect_err("the audit can only be added to");
}

/// Fault H17. Where functions are not for everybody by default, the grants name the ones that are needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_granted_where_they_are_not_public() {
    let db = Db::without_tables(few_shards());
    db.sql("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC");
    db.store.up().await.expect("the tables are made");
    let relay = as_role(&db, "careful_role").await;
    let url = Postgres::shared()
        .url(&db.database.name)
        .replace("postgres@", "careful_role@");
    let client = crate::support::connect(&url).await;
    client
        .batch_execute(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1');
             SELECT outbox_send('T', 'A', '2')",
        )
        .await
        .expect("the database makes the ids");
    assert_eq!(relay.send_all().await, 2);
}

/// Fault H17.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_grants_is_denied() {
    let db = Db::new().await;
    db.sql("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    let url = Postgres::shared()
        .url(&db.database.name)
        .replace("postgres@", "stranger@");
    let store = postrider_postgres::PgStore::lazy(&url, PgOptions::default()).expect("a url");
    let error = store.heartbeat(heartbeat("stranger")).await.expect_err("denied");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error:?}");
}

/// Fault H17. A producer needs `INSERT` on the outbox and nothing else: no sequence, no other table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_may_only_insert() {
    let db = Db::new().await;
    db.sql(
        "DO $$ BEGIN CREATE ROLE producer_role LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT INSERT ON outbox TO producer_role",
    );
    let url = Postgres::shared()
        .url(&db.database.name)
        .replace("postgres@", "producer_role@");
    let mut client = crate::support::connect(&url).await;
    let tx = client.transaction().await.expect("a transaction");
    postrider_postgres::Outbox::default()
        .enqueue(&tx, &event("a", "k"))
        .await
        .expect("enqueued");
    tx.batch_execute("INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1')")
        .await
        .expect("the database makes the id");
    tx.commit().await.expect("committed");
    client
        .query("SELECT 1 FROM outbox", &[])
        .await
        .expect_err("it may not read");
    assert_eq!(db.relay("one").await.queued().await.len(), 2);
}
