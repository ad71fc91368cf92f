//! What comes out is what was put in.

use std::time::Duration;

use bytes::Bytes;
use postrider_core::{Verdict, header};

use super::bench::{Bench, ids, message, message_with, quiet, settle_all};

pub(super) async fn messages_come_in_order(bench: Bench) {
    let wanted = bench.filled(200).await;
    let source = bench.open().await;
    let mut came = Vec::new();
    while came.len() < wanted.len() {
        let received = bench.receive(&source, 20).await;
        assert!(
            received.iter().all(|it| it.redelivered == 0),
            "the first delivery is none before"
        );
        came.extend(ids(&received));
        settle_all(&source, &received, Verdict::Done).await;
    }
    assert_eq!(came, wanted);
}

pub(super) async fn a_receive_waits_for_a_message(bench: Bench) {
    let source = bench.open().await;
    assert_eq!(ids(&quiet(&source).await), Vec::<String>::new());
    let put = async {
        // Nothing tells that a receive has begun to wait; a message that is there before is received as well.
        tokio::time::sleep(Duration::from_millis(50)).await;
        bench.queue.put(vec![message("late")]).await;
    };
    let (received, ()) = tokio::join!(bench.receive(&source, 10), put);
    assert_eq!(ids(&received), ["late"]);
}

pub(super) async fn no_more_than_asked_for_are_returned(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    let mut came = Vec::new();
    while came.len() < wanted.len() {
        let received = bench.receive(&source, 3).await;
        assert!((1..=3).contains(&received.len()), "{} messages", received.len());
        came.extend(ids(&received));
        settle_all(&source, &received, Verdict::Done).await;
    }
    assert_eq!(came, wanted);
}

pub(super) async fn bodies_come_byte_exact(bench: Bench) {
    let bodies: [Bytes; 5] = [
        Bytes::new(),
        " {\"a\" : 1}\r\n".into(),
        "C:\\dir \u{e9} \u{1f600}".into(),
        (0..=255).collect(),
        vec![b'x'; 300_000].into(),
    ];
    let messages = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| message_with(&format!("b{n}"), body.clone()));
    bench.queue.put(messages.collect()).await;
    let source = bench.open().await;
    for (body, received) in bodies.iter().zip(bench.gather(&source, bodies.len()).await) {
        assert_eq!(
            &received.message.body, body,
            "the body of {}",
            received.message.event_id
        );
    }
}

pub(super) async fn ids_headers_and_content_type_come(bench: Bench) {
    let sent = message("with-headers");
    bench.queue.put(vec![sent.clone()]).await;
    let source = bench.open().await;
    let came = bench.receive(&source, 1).await.remove(0).message;
    assert_eq!(came.event_id, sent.event_id);
    assert_eq!(came.order_key, sent.order_key);
    assert_eq!(came.content_type, sent.content_type);
    for (name, value) in &sent.headers {
        assert_eq!(came.header(name), Some(value.as_str()), "the header {name}");
    }
    assert_eq!(came.header(header::EVENT_TYPE), Some("Tested"));
}

/// Somebody else's message must not stop the queue: it is delivered, and its verdict takes it away.
pub(super) async fn a_foreign_message_is_delivered(bench: Bench) {
    bench.queue.put_foreign(b"\xff\x00 not ours").await;
    bench.queue.put(vec![message("ours")]).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 2).await;
    assert_eq!(ids(&received), ["", "ours"]);
    assert_eq!(received[0].message.body.as_ref(), b"\xff\x00 not ours");
    settle_all(&source, &received, Verdict::Done).await;
    source.close().await;
    bench.left(&[]).await;
}

pub(super) async fn a_dropped_receive_loses_nothing(bench: Bench) {
    let source = bench.open().await;
    // Dropped while it waits, again and again, and once while messages come in.
    for _ in 0..5 {
        let waiting = tokio::time::timeout(Duration::from_millis(20), source.receive(10));
        assert!(waiting.await.is_err(), "there is nothing to receive");
    }
    let wanted = bench.filled(20).await;
    let mut came = Vec::new();
    let mut patience = Duration::from_micros(1);
    while came.len() < wanted.len() {
        if let Ok(received) = tokio::time::timeout(patience, source.receive(4)).await {
            let received = received.expect("the queue can be read");
            came.extend(ids(&received));
            settle_all(&source, &received, Verdict::Done).await;
        }
        patience *= 2;
        assert!(patience < bench.patience, "{came:?} of {wanted:?}");
    }
    assert_eq!(came, wanted);
    source.close().await;
    bench.left(&[]).await;
}
