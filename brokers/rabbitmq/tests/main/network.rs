//! A network that cuts, swallows and slices (B2, B3, E1 to E5).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postrider_core::{Answer, ErrorKind, Message, Sink};
use postrider_rabbitmq::{RabbitOptions, RabbitSink};
use postrider_testkit::proxy::{Faults, Proxy};
use postrider_testkit::servers::rabbitmq::{self, PASSWORD, USER, Vhost};

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

async fn through_proxy(queue: &str) -> (Vhost, Proxy, Arc<RabbitSink>) {
    let vhost = rabbitmq::private().await;
    let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
    let url = vhost.url_by(&format!("{USER}:{PASSWORD}"), proxy.port());
    let options = RabbitOptions::new(url)
        .confirm_timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(2));
    let sink = open(options.declare(queues([queue])));
    confirm_all(&sink, &[message("first", &to("", queue))]).await;
    (vhost, proxy, sink)
}

/// What was confirmed is in the queue, what was not may be.
async fn check(vhost: &Vhost, queue: &str, confirmed: &BTreeSet<String>) {
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let ids: BTreeSet<String> = client.take_ids(queue).await.into_iter().collect();
    let lost: Vec<_> = confirmed.difference(&ids).collect();
    assert!(lost.is_empty(), "confirmed and not there: {lost:?}");
}

/// Faults B2, B3 and E1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_a_batch_loses_nothing() {
    let (vhost, proxy, sink) = through_proxy("cut").await;
    let mut confirmed = BTreeSet::new();
    for round in 0..12_u64 {
        // Each time somewhere else: in the middle of a method, of properties, of a body.
        proxy.cut_after(60 + round * 977);
        let mut left: Vec<Message> = numbered(&format!("r{round}-"), 100, &to("", "cut"));
        let began = Instant::now();
        while !left.is_empty() {
            let answers = publish(&sink, &left).await;
            for (message, answer) in left.iter().zip(&answers) {
                match kind(answer) {
                    None => drop(confirmed.insert(message.event_id.to_string())),
                    Some(ErrorKind::ConnectionLost | ErrorKind::Unreachable) => {}
                    other => panic!("{other:?}: {answer:?}"),
                }
            }
            left.retain(|message| !confirmed.contains(message.event_id.as_str()));
            assert!(began.elapsed() < Duration::from_secs(10), "{} left", left.len());
        }
    }
    assert_eq!(confirmed.len(), 1_200);
    check(&vhost, "cut", &confirmed).await;
}

/// Faults B20, E2 and E3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_times_out_and_is_left() {
    let (_vhost, proxy, sink) = through_proxy("silent").await;
    let address = to("", "silent");
    for faults in [
        Faults {
            blackhole: true,
            ..Faults::default()
        },
        Faults {
            deaf: true,
            ..Faults::default()
        },
    ] {
        proxy.set(faults);
        let began = Instant::now();
        for answer in publish(&sink, &numbered("m", 10, &address)).await {
            assert_eq!(kind(&answer), Some(ErrorKind::TimedOut), "{answer:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(4));
        proxy.set(Faults::default());
        // A connect that began in the silence ends by its own limit.
        until(&sink, &message("back", &address), None, Duration::from_secs(5)).await;
    }
    sink.close().await;
}

/// Fault B20. Relays that share a sink have more calls than it has channels; one that got none has sent nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_gets_no_channel_in_time_was_not_sent() {
    let (_vhost, proxy, sink) = through_proxy("crowded").await;
    proxy.set(Faults {
        blackhole: true,
        ..Faults::default()
    });
    let channels = sink.capabilities().concurrent_batches;
    let batches: Vec<_> = (0..=channels)
        .map(|n| numbered(&format!("m{n}-"), 1, &to("", "crowded")))
        .collect();
    let answers = join_all(batches.iter().map(|batch| publish(&sink, batch))).await;
    let mut throttled = 0;
    for answer in answers.into_iter().flatten() {
        if let Answer::Failed(failure) = &answer
            && failure.kind == ErrorKind::Throttled
        {
            throttled += 1;
            assert!(!failure.maybe_sent, "{answer:?}");
        }
    }
    assert_eq!(throttled, 1, "all but one have a channel");
    proxy.set(Faults::default());
    sink.close().await;
}

/// Faults G16 and E5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_in_small_pieces_are_put_together() {
    let (vhost, proxy, sink) = through_proxy("sliced").await;
    proxy.set(Faults {
        slice: 3,
        ..Faults::default()
    });
    let batch = numbered("m", 50, &to("", "sliced"));
    confirm_all(&sink, &batch).await;
    let ids = batch.iter().map(|message| message.event_id.to_string()).collect();
    check(&vhost, "sliced", &ids).await;
}

/// Nothing was published yet, and it is known that nothing could be. Health asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_without_a_connection_says_why() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = nobody.local_addr().expect("an address").port();
    drop(nobody);
    let sink = open(RabbitOptions::new(format!("amqp://127.0.0.1:{port}")));
    assert_eq!(sink.trouble(), None, "it was not asked to connect");
    sink.connect().await;
    let trouble = sink.trouble().expect("nobody listens there");
    assert_eq!(trouble.kind, ErrorKind::Unreachable, "{trouble:?}");
    sink.close().await;
    assert_eq!(sink.trouble(), None, "it is closed on purpose");
}
