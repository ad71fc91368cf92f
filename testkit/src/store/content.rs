//! What a row says: the event as the producer wrote it, its key, its time, and why it is not an event.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use postrider_core::{Blocked, Event, Lane, OrderKey, Payload, Timestamp};

use super::bench::Bench;
use super::words::{event, event_in, event_with, ids};

/// Fault G4.
pub(super) async fn events_come_back_byte_exact(bench: Bench) {
    let events = awkward_events();
    let (_, rows) = bench.queued(&events).await;
    for (row, event) in rows.iter().zip(&events) {
        let read = row.event.as_ref().expect("a valid event is read as one");
        assert_eq!(row.event_id, event.id);
        assert_eq!(row.key, event.order_key());
        assert_eq!(row.lane, event.lane());
        assert_eq!(row.blocked, Blocked::Nowhere);
        assert_eq!(row.replay, None);
        assert!(row.sent_before.is_empty());
        assert_eq!(read.payload, event.payload, "payload of {}", event.id);
        assert_eq!(read.headers, event.headers, "headers of {}", event.id);
        assert_eq!(read.content_type(), event.content_type());
        assert_eq!(read.priority, event.priority);
        assert_eq!(read.event_type, event.event_type);
        assert_eq!(read.order_key(), event.order_key());
        let aggregate = |event: &Event| (event.aggregate_type.clone(), event.aggregate_id.clone());
        assert_eq!(aggregate(read), aggregate(event));
        assert!(
            read.created_at.is_some(),
            "the database notes when an event was made"
        );
    }
}

pub(super) async fn a_key_stays_in_its_shard(bench: Bench) {
    let mut events: Vec<_> = (0..6)
        .map(|n| Event {
            key: Some("k".to_owned()),
            ..event_in(&format!("e{n}"), "k", Lane::ALL[n % 3])
        })
        .collect();
    // The key decides, not the aggregate.
    events.push(Event {
        key: Some("k".to_owned()),
        ..event("by-hand", "other")
    });
    let (_, rows) = bench.queued(&events).await;
    for row in &rows {
        assert!(row.shard.0 < bench.capabilities.shards);
        assert_eq!(
            row.shard, rows[0].shard,
            "rows of one key are in one shard, whatever their lane"
        );
        assert_eq!(row.key, rows[0].key);
    }
}

pub(super) async fn a_scheduled_row_says_how_long(bench: Bench) {
    let at = |time: SystemTime, id: &str| Event {
        available_at: Some(Timestamp::from(time)),
        ..event(id, id)
    };
    let now = SystemTime::now();
    let hour = Duration::from_secs(3_600);
    let events = [
        at(now - hour, "past"),
        event("now", "now"),
        at(now + hour, "later"),
    ];
    let (_, rows) = bench.queued(&events).await;
    assert_eq!(rows[0].due_in, Duration::ZERO);
    assert_eq!(rows[1].due_in, Duration::ZERO);
    let minute = Duration::from_secs(60);
    assert!(
        rows[2].due_in > hour - minute && rows[2].due_in <= hour,
        "an hour ahead, by the database's clock: {:?}",
        rows[2].due_in
    );
}

pub(super) async fn bad_rows_keep_their_place(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.insert(&event("before", "k")).await.expect("inserted");
    tx.insert_bad(&event("bad", "k"))
        .await
        .expect("inserted as a bad row");
    tx.insert(&event("after", "k")).await.expect("inserted");
    tx.commit().await;
    let relay = bench.relay("one").await;
    let rows = relay.queued().await;
    assert_eq!(
        ids(&rows),
        ["before", "bad", "after"],
        "a bad row is never left out"
    );
    assert!(rows[0].event.is_ok() && rows[2].event.is_ok());
    let failure = rows[1]
        .event
        .as_ref()
        .expect_err("a bad row comes with its reason");
    assert!(!failure.text.is_empty());
    assert_eq!((&rows[1].key, rows[1].shard), (&rows[0].key, rows[0].shard));
}

pub(super) async fn replayed_rows_keep_order_among_themselves(bench: Bench) {
    let mut tx = bench.begin().await;
    for id in ["one", "two"] {
        tx.insert_replay(&event(id, "k"), "replay-7")
            .await
            .expect("inserted");
    }
    tx.commit().await;
    let rows = bench.relay("one").await.queued().await;
    assert_eq!(ids(&rows), ["one", "two"]);
    for row in rows {
        assert_eq!(row.replay.as_deref(), Some("replay-7"));
        assert_eq!(
            row.key,
            OrderKey::replayed("replay-7", event("e", "k").order_key().as_str())
        );
    }
}

/// Payloads, headers, ids and keys that were lost or changed by some client of some database.
fn awkward_events() -> Vec<Event> {
    let texts = [
        r#"{"quote":"\"","back":"C:\\dir\\n","apostrophe":"it's"}"#,
        "{\"line\": 1,\r\n\t\"two\": \"é😀\u{0301}\"}  ",
        "{\"e\":1.10,\"big\":12345678901234567890123,\"dup\":1,\"dup\":2}",
        "\"\\u0000 \\ud83d\\ude00\"",
        "null",
        "{\"$1\":\"%s ? :name\"}",
    ];
    let mut events: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(n, text)| event_with(&format!("text-{n}"), "k", text))
        .collect();
    let base = |id: &str| event(id, "k");
    let all_bytes = Bytes::from_iter(0..=255u8);
    let shapes = [
        ("bytes", Payload::Bytes(all_bytes)),
        ("empty-bytes", Payload::Bytes(Bytes::new())),
        ("tombstone", Payload::Tombstone),
    ];
    events.extend(shapes.map(|(id, payload)| Event { payload, ..base(id) }));
    events.push(Event {
        payload: Payload::Text(String::new()),
        content_type: Some("text/plain".into()),
        ..base("empty-text")
    });
    events.push(Event {
        headers: [("trace-parent", "00-ab"), ("x-note", "it's \"é😀\" \\n")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        content_type: Some("application/vnd.x+json; charset=utf-8".into()),
        ..base("headers")
    });
    events.push(Event {
        key: Some("it's a \"key\" é😀 %_\\".into()),
        event_type: "Typé'd".into(),
        ..base("id with 'quotes' \"and\" é😀")
    });
    events.push(base(&"i".repeat(255)));
    events.push(base("trailing-space "));
    events.push(base("trailing-space"));
    events.push(base("CASE"));
    events.push(base("case"));
    events
}
