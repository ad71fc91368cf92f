//! What a sink answers, and whether it is true.

use bytes::Bytes;
use postrider_core::{Answer, Class, header};

use super::bench::{Bench, is_confirmed, publish, publish_all};

pub(super) async fn an_empty_batch_answers_nothing(bench: Bench) {
    let sink = bench.open().await;
    assert_eq!(publish(&sink, &[]).await, []);
    assert_eq!(bench.broker.arrived().await, [], "and touches nothing");
}

/// Fault B23.
pub(super) async fn every_message_is_answered_for(bench: Bench) {
    let sink = bench.open().await;
    for count in [1, 2, 7, 100] {
        publish_all(&sink, &bench.numbered(&format!("of-{count}-"), count, count)).await;
    }
}

pub(super) async fn confirmed_means_readable(bench: Bench) {
    let sink = bench.open().await;
    let batch = bench.numbered("m", 25, 5);
    publish_all(&sink, &batch).await;
    let arrived = bench.until_arrived(&batch).await;
    assert_eq!(
        arrived.len(),
        batch.len(),
        "each message once while nothing goes wrong"
    );
}

pub(super) async fn bodies_arrive_byte_exact(bench: Bench) {
    let sink = bench.open().await;
    let bodies: Vec<Bytes> = vec![
        r#"{"quote":"\"","back":"C:\\dir\\n","apostrophe":"it's"}"#.into(),
        "{\"line\": 1,\r\n\t\"two\": \"é😀\u{0301}\"}  \n".into(),
        "{\"e\":1.10,\"big\":12345678901234567890123,\"dup\":1,\"dup\":2}".into(),
        "plain text, \u{2028} with separators".into(),
        "\n".into(),
        Bytes::new(),
        Bytes::from_iter(0..=255u8),
        Bytes::from_static(b"\xff\xfe\x00\xc3("),
        vec![b'x'; 100_000].into(),
    ];
    let messages = bodies.iter().enumerate();
    let batch: Vec<_> = messages
        .map(|(n, body)| bench.message_with(&format!("b{n}"), "k", body.clone()))
        .collect();
    publish_all(&sink, &batch).await;
    let arrived = bench.until_arrived(&batch).await;
    for message in &batch {
        let got = arrived
            .iter()
            .find(|got| got.event_id == message.event_id.as_str());
        assert_eq!(
            got.map(|got| &got.body),
            Some(&message.body),
            "body of {}",
            message.event_id
        );
    }
}

pub(super) async fn ids_and_headers_arrive(bench: Bench) {
    let sink = bench.open().await;
    let mut message = bench.message("id with 'quotes' \"and\" é😀", "k");
    message.headers.push(("x-note".into(), "it's \"é😀\" \\".into()));
    let batch = [message];
    publish_all(&sink, &batch).await;
    let arrived = bench.until_arrived(&batch).await;
    let header = |name: &str| {
        let found = arrived[0]
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(header("x-note"), Some("it's \"é😀\" \\"));
    assert_eq!(header(header::EVENT_TYPE), Some("Tested"));
}

pub(super) async fn a_big_batch_arrives(bench: Bench) {
    let sink = bench.open().await;
    let batch = bench.numbered("m", 2_000, 100);
    publish_all(&sink, &batch).await;
    bench.until_arrived(&batch).await;
}

/// Fault B4.
pub(super) async fn a_missing_address_is_never_confirmed(bench: Bench) {
    let sink = bench.open().await;
    let missing = bench.broker.missing_address();
    let missing = missing.expect("a harness without a missing address says so in its capabilities");
    let mut batch = bench.numbered("m", 40, 40);
    for message in batch.iter_mut().skip(3).step_by(10) {
        message.address = missing.clone();
    }
    let answers = publish(&sink, &batch).await;
    let arrived = bench.broker.arrived().await;
    for (message, answer) in batch.iter().zip(&answers) {
        match answer {
            Answer::Confirmed(_) => {
                assert_ne!(message.address, missing, "{} reached nobody", message.event_id);
                bench.until_arrived(std::slice::from_ref(message)).await;
            }
            // A neighbour may be taken down with it, as long as it is not blamed for it.
            Answer::Failed(failure) if message.address == missing => {
                let class = failure.kind.policy().class;
                let unclear = failure.maybe_sent || class == Class::Unavailable;
                assert!(class == Class::Misaddressed || unclear, "{failure:?}");
            }
            Answer::Failed(failure) => {
                let class = failure.kind.policy().class;
                let innocent = matches!(class, Class::Unavailable | Class::NotAttempted);
                assert!(innocent, "{} is blamed: {failure:?}", message.event_id);
            }
        }
    }
    let lost = arrived.iter().find(|got| {
        batch
            .iter()
            .any(|m| m.address == missing && m.event_id.as_str() == got.event_id)
    });
    assert_eq!(lost, None, "the address that nobody listens at has a reader");
}

pub(super) async fn capabilities_do_not_change(bench: Bench) {
    let sink = bench.open().await;
    let before = sink.capabilities();
    assert!(
        before.concurrent_batches > 0,
        "a sink that takes no batch moves nothing"
    );
    publish_all(&sink, &bench.numbered("m", 3, 3)).await;
    assert_eq!(sink.capabilities(), before);
    sink.close().await;
    assert_eq!(sink.capabilities(), before);
}

pub(super) async fn closing_twice_is_safe(bench: Bench) {
    let sink = bench.open().await;
    publish_all(&sink, &bench.numbered("m", 3, 3)).await;
    sink.close().await;
    sink.close().await;
    let untouched = bench.open().await;
    untouched.close().await;
}

pub(super) async fn a_publish_after_close_is_unavailable(bench: Bench) {
    let sink = bench.open().await;
    sink.close().await;
    let batch = bench.numbered("late", 3, 3);
    for answer in publish(&sink, &batch).await {
        let Answer::Failed(failure) = answer else {
            panic!("a closed sink confirms nothing");
        };
        assert_eq!(failure.kind.policy().class, Class::Unavailable, "{failure:?}");
        assert!(!failure.maybe_sent, "nothing was tried");
    }
    assert_eq!(publish(&sink, &[]).await, []);
    assert_eq!(bench.broker.arrived().await, []);
}

pub(super) async fn what_was_confirmed_before_a_close_is_there(bench: Bench) {
    let sink = bench.open().await;
    let batch = bench.numbered("m", 50, 10);
    let answers = publish(&sink, &batch).await;
    sink.close().await;
    drop(sink);
    let confirmed = batch
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| is_confirmed(answer));
    let confirmed: Vec<_> = confirmed.map(|(message, _)| message.clone()).collect();
    bench.until_arrived(&confirmed).await;
}
