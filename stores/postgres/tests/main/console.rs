//! What operators threw away, what they sent again, and whether a read saw every due head.

use std::time::{Duration, Instant};

use postrider_core::{
    Console, ErrorKind, Failure, Filter, List, Park, Read, Settled, Status, Store, Then, Verb,
};
use postrider_postgres::Outbox;

use crate::support::{Db, Relay, act, again, event, parks};

fn dead() -> Park {
    Park::dead(Some("d".into()), Failure::new(ErrorKind::Rejected, "not wanted"))
}

/// Events of keys of their own, parked like this.
async fn parked(db: &Db, ids: &[&str], park: Park) -> Relay {
    let relay = db.relay("one").await;
    let events: Vec<_> = ids.iter().map(|id| event(id, id)).collect();
    db.enqueue(&events).await;
    let rows = relay.queued().await;
    let entries = rows.iter().map(|row| parks(row, vec![park.clone()])).collect();
    assert_eq!(
        relay.settle(entries, vec![]).await,
        vec![Settled::Done; ids.len()]
    );
    relay
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discarded_row_is_kept_with_its_reason_and_was_not_published() {
    let db = Db::new().await;
    parked(&db, &["a"], dead()).await;
    let chunk = db.store.act(act(Verb::Discard("spam".into()), "a")).await;
    assert_eq!(chunk.expect("discarded").touched, 1);
    let seen = db.sql(
        "SELECT status || ' ' || error_kind || ' ' || last_error || ' ' || error_message FROM outbox_events
         WHERE published IS NULL AND published_at IS NULL",
    );
    assert_eq!(seen, "DISCARDED rejected spam spam");
    for (status, count) in [
        (Status::Discarded, 1),
        (Status::Published, 0),
        (Status::DeadLetter, 0),
    ] {
        let filter = Filter {
            status: vec![status],
            ..Filter::default()
        };
        let listing = db.store.list(List::first(10, filter)).await.expect("listed");
        assert_eq!(listing.events.len(), count, "{status:?}");
    }
    let chunk = db.store.act(act(Verb::Redrive, "a")).await.expect("answered");
    assert_eq!(chunk.refused, [("a".into(), Status::Discarded)]);
    let stats = db.store.stats().await.expect("stats");
    assert_eq!((stats.discarded, stats.published), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_in_the_view_once_and_as_discarded_if_any_of_it_was() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    let row = relay.queued().await.remove(0);
    let unroutable = Park::dead(None, Failure::new(ErrorKind::Rejected, "no route"));
    let both = postrider_core::Leaves::Decided {
        sent: vec![("e".into(), postrider_core::Receipt::default())],
        parked: vec![dead(), unroutable],
    };
    let entry = crate::support::decided(&row, both);
    assert_eq!(relay.settle(vec![entry], vec![]).await, [Settled::Done]);
    let chunk = db.store.act(act(Verb::Discard("spam".into()), "a")).await;
    assert_eq!(chunk.expect("discarded").touched, 2);
    assert_eq!(db.sql("SELECT status FROM outbox_events"), "DISCARDED");
    let shown = db.store.show("a".into()).await.expect("shown").remove(0);
    let statuses: Vec<_> = shown.routes.iter().map(|route| route.status).collect();
    assert_eq!(
        statuses,
        [Status::Discarded, Status::Discarded, Status::Published]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_for_long_is_found_whatever_the_length() {
    let db = Db::new().await;
    let refused = Park {
        failures: 1,
        ..dead()
    };
    parked(&db, &["a"], refused).await;
    for (least, count) in [
        (Duration::ZERO, 1),
        (Duration::from_secs(60), 0),
        (Duration::MAX, 0),
    ] {
        let filter = Filter {
            failing_for: Some(least),
            ..Filter::default()
        };
        let listing = db.store.list(List::first(10, filter)).await.expect("listed");
        assert_eq!(listing.events.len(), count, "{least:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_without_a_failure_leaves_the_failure_and_the_redrive() {
    let db = Db::new().await;
    let relay = parked(&db, &["a"], dead()).await;
    let chunk = db.store.act(act(Verb::Redrive, "a")).await;
    assert_eq!(chunk.expect("redriven").touched, 1);
    let kept = "SELECT concat_ws(' ', redriven, error_kind, error_text, error_group, first_failed_at, last_failed_at) \
        FROM outbox_parked";
    assert_eq!(
        db.sql("SELECT error_group FROM outbox_parked"),
        Failure::new(ErrorKind::Rejected, "not wanted").group(Some(&"d".into()))
    );
    let before = db.sql(kept);
    let row = relay.page().await.parked.remove(0);
    assert!(row.redriven);
    let entry = again(&row, Then::Again(Park::waiting("d".into(), false)));
    assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
    assert_eq!(db.sql(kept), before);
    let refused = Park {
        dead: false,
        failures: 1,
        ..dead()
    };
    for (park, redriven) in [(refused, "t"), (dead(), "f")] {
        let row = relay.page().await.parked.remove(0);
        let entry = again(&row, Then::Again(park));
        assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
        assert_eq!(db.sql("SELECT redriven FROM outbox_parked"), redriven);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_says_whether_it_brought_every_due_head() {
    let db = Db::new().await;
    let relay = parked(&db, &["a", "b", "c"], Park::waiting("d".into(), false)).await;
    let ask = async |change: fn(&mut Read)| {
        let mut read = relay.everything();
        change(&mut read);
        let page = relay.store.read(read).await.expect("a page");
        (page.parked.len(), page.parked_to_end)
    };
    assert_eq!(ask(|_| ()).await, (3, true));
    assert_eq!(ask(|read| read.parked.heads = 3).await, (3, true));
    assert_eq!(
        ask(|read| read.parked.heads = 2).await,
        (2, false),
        "cut by heads"
    );
    assert_eq!(ask(|read| read.parked.heads = 0).await, (0, false), "not asked");
    assert_eq!(ask(|read| read.max_bytes = 40).await, (2, false), "cut by bytes");
    assert_eq!(
        ask(|read| read.max_bytes = 1).await,
        (1, false),
        "one goes always"
    );
    assert_eq!(
        ask(|read| read.parked.not_for = vec!["d".into()]).await,
        (0, true),
        "not wanted"
    );
    let shards = db
        .store
        .heartbeat(crate::support::heartbeat("one"))
        .await
        .expect("a heartbeat")
        .shards;
    assert_eq!(shards, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_cut_by_effort_did_not_see_the_end() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let events: Vec<_> = (0..2_500)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    db.enqueue(&events).await;
    let rows = relay.queued().await;
    let later = Park {
        next_attempt_in: Duration::from_secs(3_600),
        ..Park::waiting("d".into(), false)
    };
    let entries = rows.iter().map(|row| parks(row, vec![later.clone()])).collect();
    relay.settle(entries, vec![]).await;
    assert!(
        !relay.page().await.parked_to_end,
        "2,000 lines are visited at most"
    );
    assert!(!relay.page().await.parked_to_end, "the rest, without the first");
    db.sql("DELETE FROM outbox_parked WHERE seq > 100");
    // Where the search goes on, or from its beginning.
    relay.page().await;
    assert!(relay.page().await.parked_to_end, "all of them");
}

/// Fault A6. A transaction that wrote and does not end is older at every look; one that ended is not told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stats_tell_for_how_long_a_writer_has_been_open() {
    let db = Db::new().await;
    let open_for = async || db.store.stats().await.expect("stats").writer_open_for;
    assert_eq!(open_for().await, None);
    let mut client = db.connect().await;
    let tx = client.transaction().await.expect("a transaction");
    Outbox::default()
        .enqueue(&tx, &event("held", "k"))
        .await
        .expect("enqueued");
    let first = open_for().await.expect("it is seen at once");
    let second = open_for().await.expect("it is still there");
    assert!(second > first, "{first:?} {second:?}");
    tx.commit().await.expect("committed");
    assert_eq!(open_for().await, None);
}

/// Fault A6. Nobody asks for numbers while nothing goes wrong. The first who does is told of a transaction that the
/// relay has been waiting for, in an outbox where nothing else happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_who_asks_is_told_of_a_writer_that_the_relay_saw() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let mut client = db.connect().await;
    let tx = client.transaction().await.expect("a transaction");
    let outbox = Outbox::default();
    outbox.enqueue(&tx, &event("held", "k")).await.expect("enqueued");
    relay.page().await;
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(300) {
        relay.page().await;
    }
    let open = db.store.stats().await.expect("stats").writer_open_for;
    assert!(
        open.is_some_and(|open| open >= Duration::from_millis(300)),
        "{open:?}"
    );
}

/// Of a long history a bounded part is looked at. What is rare is found behind it all the same, and a search for
/// nothing comes to its end by pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_is_searched_in_bounded_steps() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, enqueued_at,
             outcome, published_at)
         SELECT n, 'd', 'e' || n, CASE n WHEN 5 THEN 'Rare' ELSE 'T' END, 'A', (n % 90000)::text, now(), 'published',
             now()
         FROM generate_series(1, 150000) n;
         SELECT setval('outbox_seq', 150000)",
    );
    let ask = async |filter: &Filter, from| {
        let list = List {
            newest_first: true,
            from,
            ..List::first(10, filter.clone())
        };
        let page = db.store.list(list).await.expect("listed");
        let ids: Vec<_> = page
            .events
            .iter()
            .map(|event| event.event_id.to_string())
            .collect();
        (ids, page.next)
    };
    let rare = Filter {
        event_type: vec!["Rare".to_owned()],
        ..Filter::default()
    };
    assert_eq!(ask(&rare, None).await, (vec!["e5".to_owned()], None));
    let key = Filter {
        key: vec!["A/60001".to_owned()],
        ..Filter::default()
    };
    assert_eq!(ask(&key, None).await, (vec!["e60001".to_owned()], None));
    let nowhere = Filter {
        destination: Some("nowhere".into()),
        ..Filter::default()
    };
    // A page ends when its places are spent, which two pages do not outlast, or when its time is.
    let (mut pages, began) = (1, Instant::now());
    let (ids, mut next) = ask(&nowhere, None).await;
    assert!(ids.is_empty() && next.is_some(), "it is told how to go on");
    while next.is_some() {
        let (ids, further) = ask(&nowhere, next.clone()).await;
        assert!(ids.is_empty() && further != next);
        (next, pages) = (further, pages + 1);
    }
    let late = began.elapsed().as_millis() / 120;
    assert!(
        pages <= 2 + late,
        "and comes to the end: {pages}, {late} of them late"
    );
}
