//! Rows that are not events: they keep their place, say why, and are settled like any other.

use postrider_core::{
    Console, Edit, ErrorKind, Event, HistoryAsk, List, Park, Payload, Settled, Status, Store, Upkeep, Verb,
};
use postrider_testkit::by_hand::act;

use crate::support::{Db, event, everything, parks};

/// Each as the columns that are wrong and what the reason names.
const BAD: &[(&str, &str, &str)] = &[
    ("headers", "'{broken'", "headers"),
    ("headers", "'[]'", "headers"),
    ("headers", r#"'{"n": 1}'"#, "headers"),
    ("headers", "CAST(x'7bff7d' AS TEXT)", "headers"),
    ("payload", "CAST(x'22ff22' AS TEXT)", "payload"),
    ("payload", "'not json'", "payload"),
    ("event_id", "CAST(x'ff61' AS TEXT)", "event_id"),
    ("event_id", "'a' || char(0) || 'b'", "id"),
    ("event_id", "printf('%.*c', 300, 'x')", "id"),
    ("event_key", "CAST(x'ff' AS TEXT)", "key"),
    ("content_type", "CAST(x'ff' AS TEXT)", "content_type"),
    ("available_at", "'soon'", "available_at"),
    ("available_at", "x'00'", "available_at"),
    ("created_at", "'yesterday'", "created_at"),
    ("priority", "3000000000", "priority"),
];

/// Faults G1 and G3.
#[tokio::test]
async fn every_bad_row_is_returned_with_its_reason_and_can_be_parked() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    for (n, (column, value, named)) in BAD.iter().enumerate() {
        db.sql(&format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {column}) VALUES ('T', 'A', '{n}', {value})"
        ));
        let rows = relay.queued().await;
        assert_eq!(rows.len(), 1, "{column} {value}");
        let failure = rows[0].event.clone().expect_err(column);
        assert_eq!(failure.kind, ErrorKind::BadRow);
        assert!(failure.text.contains(named), "{column} {value}: {}", failure.text);
        let park = Park::dead(None, failure);
        assert_eq!(
            relay.settle(vec![parks(&rows[0], vec![park])], vec![]).await,
            [Settled::Done],
            "{column} {value}"
        );
        assert!(relay.queued().await.is_empty());
    }
    let count = i64::try_from(BAD.len()).expect("a few");
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE status = 'DEAD_LETTER'"),
        count
    );

    // Operators see all of them, and can look each of them up.
    let listing = db
        .store
        .list(List::first(100, Default::default()))
        .await
        .expect("a listing");
    assert_eq!(listing.events.len(), BAD.len());
    for record in listing.events {
        assert!(record.event.is_err());
        assert_eq!(record.status(), Status::DeadLetter);
        assert_eq!(
            db.store.show(record.event_id.clone()).await.expect("shown").len(),
            1,
            "{}",
            record.event_id
        );
    }
}

/// An edit may mend the content type, and what it was is kept as it was.
#[tokio::test]
async fn an_event_whose_content_type_was_mended_can_be_shown() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.sql(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, content_type)
         VALUES ('a', 'T', 'A', '1', '{}', CAST(x'ff' AS TEXT))",
    );
    let rows = relay.queued().await;
    let failure = rows[0].event.clone().expect_err("no event");
    let park = Park::dead(None, failure);
    assert_eq!(
        relay.settle(vec![parks(&rows[0], vec![park])], vec![]).await,
        [Settled::Done]
    );
    let edit = Edit {
        event_id: "a".into(),
        destination: None,
        payload: Payload::Text("{}".to_owned()),
        content_type: Some("application/json".to_owned()),
        actor: "ann".to_owned(),
        dry_run: false,
    };
    assert_eq!(db.store.edit(edit).await.expect("edited").touched, 1);
    let shown = db.store.show("a".into()).await.expect("shown").remove(0);
    assert!(shown.event.is_ok());
    let original = shown.original.expect("an original");
    assert_eq!(original.content_type.as_deref(), Some("\u{fffd}"));
}

/// Whoever waits behind such a row is told whom it waits for.
#[tokio::test]
async fn what_stands_behind_a_bad_row_can_be_shown() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    // Those with a wrong key or priority stand in lines of their own.
    let bad = BAD
        .iter()
        .filter(|bad| !["event_key", "priority"].contains(&bad.0));
    for (n, (column, value, _)) in bad.enumerate() {
        db.sql(&format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {column}) VALUES ('T', 'A', '{n}', {value})"
        ));
        db.sql(&format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
             VALUES ('behind{n}', 'T', 'A', '{n}', '1')"
        ));
        let rows = relay.queued().await;
        let bad = Park::dead(None, rows[0].event.clone().expect_err(column));
        let entries = vec![
            parks(&rows[0], vec![bad]),
            parks(&rows[1], vec![Park::waiting("d".into(), false)]),
        ];
        assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 2]);
        let shown = db.store.show(format!("behind{n}").as_str().into()).await;
        let shown = shown.unwrap_or_else(|error| panic!("{column} {value}: {error}"));
        let head = shown[0].routes[0].behind.clone().expect("it waits");
        assert_eq!(head.event_id, rows[0].event_id, "{column} {value}");
    }
}

/// An archive is written from these pages: one row that cannot be read would keep all others out of it for ever.
#[tokio::test]
async fn every_bad_row_that_was_discarded_is_in_the_history() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    for (n, (column, value, _)) in BAD.iter().enumerate() {
        db.sql(&format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {column}) VALUES ('T', 'A', '{n}', {value})"
        ));
        let rows = relay.queued().await;
        let park = Park::dead(None, rows[0].event.clone().expect_err(column));
        relay.settle(vec![parks(&rows[0], vec![park])], vec![]).await;
        let discard = act(Verb::Discard("bad".into()), rows[0].event_id.as_str());
        assert_eq!(
            db.store.act(discard).await.expect("discarded").touched,
            1,
            "{column} {value}"
        );
    }
    // As it was before ids were made up for such rows.
    db.sql("UPDATE outbox_sent SET event_id = CAST(x'ff61' AS TEXT) WHERE seq = 1");
    let ask = HistoryAsk {
        limit: 1_000,
        max_bytes: 1 << 20,
        ..HistoryAsk::default()
    };
    let page = db.store.history(ask).await.expect("a page");
    assert_eq!((page.rows.len(), page.next), (BAD.len(), None));
    for (row, (column, value, named)) in page.rows.iter().zip(BAD) {
        let (kind, text) = row.error.as_ref().expect("an error");
        assert_eq!((row.outcome.as_str(), kind.as_str()), ("discarded", "bad_row"));
        assert!(text.contains(named), "{column} {value}: {text}");
    }
}

#[tokio::test]
async fn a_bad_row_redriven_is_still_bad_and_comes_back_without_a_destination() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.sql(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, headers) VALUES ('T', 'A', '1', 'x')",
    );
    let row = relay.queued().await.remove(0);
    let park = Park::dead(None, row.event.clone().expect_err("bad"));
    relay.settle(vec![parks(&row, vec![park])], vec![]).await;
    db.sql("UPDATE outbox_parked SET dead = 0");
    let parked = relay.page().await.parked.remove(0);
    assert!(parked.row.event.is_err());
    assert_eq!((parked.destination, parked.row.key), (None, row.key));
    // Corrected by hand, it is an event again.
    db.sql("UPDATE outbox_parked SET headers = '{}'");
    assert!(relay.page().await.parked[0].row.event.is_ok());
}

#[tokio::test]
async fn hostile_text_that_is_valid_goes_through_unchanged() {
    let db = Db::new().await;
    let payload = "{\"a\":\"\\u0000 \\ud83d\\ude00 é ' \\\" ; DROP TABLE outbox\"}";
    let sent = Event::builder("T'\"é")
        .id("id'; --")
        .aggregate("A \"x\"", "1;2")
        .key("schlüssel")
        .json(payload)
        .header("trace", "a\"b'c")
        .build()
        .expect("valid");
    db.enqueue(&[sent.clone(), event("b", "k")]);
    let page = db.store.read(everything()).await.expect("a page");
    let mut read = Event::clone(page.queued[0].event.as_ref().expect("an event"));
    read.created_at = None;
    assert_eq!(read, sent);
}

/// Fault G7. A row that could not be moved in the time of a settle is refused where the producer sees it.
#[tokio::test]
async fn a_row_that_could_not_be_parked_is_refused() {
    let db = Db::new().await;
    for column in ["payload_bytes", "headers", "event_key"] {
        let value = match column {
            "payload_bytes" => "zeroblob(67108865)",
            _ => "hex(zeroblob(33554433))",
        };
        let sql = format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {column}) VALUES ('T', 'A', '1', {value})"
        );
        let error = db.connect().execute(&sql, []).expect_err("too large");
        assert!(error.to_string().contains("row_is_at_most_64_mib"), "{error}");
    }
}
