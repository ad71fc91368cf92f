//! The exact form of a message, and messages that have none (B9, G).

use std::time::Duration;

use lapin::types::AMQPValue;
use postrider_core::{ErrorKind, Sink, header};
use postrider_rabbitmq::RabbitOptions;
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq::{self, MAX_MESSAGE_BYTES, PASSWORD, USER};

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

/// Fault B12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_and_headers_arrive_as_documented() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("form");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    let mut sent = message("0190-é", &to("", &queue));
    let created = (
        header::CREATED_AT.to_owned(),
        "2026-01-31T12:00:00.500000Z".to_owned(),
    );
    sent.headers.push(created);
    sent.headers
        .push(("traceparent".to_owned(), "00-ab-cd-01".to_owned()));
    confirm_all(&sink, std::slice::from_ref(&sent)).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let got = client.take(&queue).await.unwrap().expect("it arrived");
    let properties = &got.delivery.properties;
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), "0190-é");
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "Tested");
    assert_eq!(
        properties.content_type().as_ref().unwrap().as_str(),
        "application/json"
    );
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert_eq!(*properties.timestamp(), Some(1_769_860_800));
    let headers = properties.headers().as_ref().unwrap().inner();
    for (name, value) in &sent.headers {
        let wanted = AMQPValue::LongString(value.as_str().into());
        assert_eq!(headers.get(name.as_str()), Some(&wanted), "{name}");
    }
    assert_eq!(got.delivery.data, sent.body);
}

/// Faults B9 and G9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_form_fails_alone() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("strange");
    let options = RabbitOptions::new(vhost.url()).max_message_bytes(MAX_MESSAGE_BYTES);
    let sink = open(options.declare(queues([queue.as_str()])));
    let mut batch = numbered("m", 100, &to("", &queue));
    batch[10].event_id = "é".repeat(128).as_str().into();
    batch[20].address = to("", &"k".repeat(256));
    batch[30].address = to(&"x".repeat(256), "k");
    batch[40].headers.push(("big".to_owned(), "v".repeat(140_000)));
    batch[50].body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    batch[60].address.0.clear();
    for (n, answer) in publish(&sink, &batch).await.iter().enumerate() {
        let wanted = match n {
            10 | 20 | 30 | 40 | 60 => Some(ErrorKind::NotEncodable),
            50 => Some(ErrorKind::TooLarge),
            _ => None,
        };
        assert_eq!(kind(answer), wanted, "{n}: {answer:?}");
    }
    // At the very limits.
    let mut longest = message(&"i".repeat(255), &to("", &queue));
    longest.headers.push(("h".repeat(255), "v".repeat(120_000)));
    confirm_all(&sink, &[longest]).await;
}

/// Fault B9. The relay was told a larger limit than the broker has: the culprit is found, its neighbours are not
/// blamed, and the broker's own limit is remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_above_the_brokers_limit_is_found_among_a_hundred() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("large");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    let mut batch = numbered("m", 100, &to("", &queue));
    batch[50].body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    for (n, answer) in publish(&sink, &batch).await.iter().enumerate() {
        match (n, kind(answer)) {
            (50, found) => assert_eq!(found, Some(ErrorKind::TooLarge), "{answer:?}"),
            (_, None | Some(ErrorKind::ConnectionLost)) => {}
            (n, other) => panic!("{n} is blamed: {other:?}"),
        }
    }
    let again = publish(&sink, &batch).await;
    let failed: Vec<usize> = (0..100).filter(|n| kind(&again[*n]).is_some()).collect();
    assert_eq!(failed, [50], "the neighbours pass at the next attempt");
}

/// Fault B9. An operator who does as the advice says, raises the broker's limit and redrives, need not restart the
/// relay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_raised_is_found_with_the_next_connection() {
    let vhost = rabbitmq::alone().await;
    let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
    let limit =
        |bytes| tokio::task::block_in_place(|| vhost.max_message_size(bytes)).expect("the limit is set");
    let queue = vhost.named("raised");
    let options = RabbitOptions::new(vhost.url_by(&format!("{USER}:{PASSWORD}"), proxy.port()));
    let sink = open(options.declare(queues([queue.as_str()])));
    let mut large = message("large", &to("", &queue));
    large.body = vec![b'x'; MAX_MESSAGE_BYTES + 1].into();
    for _ in 0..2 {
        let answers = publish(&sink, std::slice::from_ref(&large)).await;
        assert_eq!(kind(&answers[0]), Some(ErrorKind::TooLarge), "{answers:?}");
    }
    limit(2 * MAX_MESSAGE_BYTES);
    // As a restart of the broker does.
    proxy.cut();
    until(&sink, &large, None, Duration::from_secs(5)).await;
    limit(MAX_MESSAGE_BYTES);
    sink.close().await;
}
