//! A broker that takes nothing, lets nobody in, or says nothing (B1, B8, B27).

use std::time::{Duration, Instant};

use postrider_core::{ErrorKind, Sink};
use postrider_rabbitmq::RabbitOptions;
use postrider_testkit::servers::rabbitmq;

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_alarm_blocks_and_ends() {
    let vhost = rabbitmq::alone().await;
    let queue = vhost.named("alarm");
    let options = RabbitOptions::new(vhost.url()).confirm_timeout(Duration::from_secs(2));
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    tokio::task::block_in_place(|| vhost.memory_alarm(true)).expect("the alarm can be raised");
    // The first batch is what makes the broker say so; it waits no longer than a confirm may take.
    let began = Instant::now();
    let during = numbered("during", 5, &address);
    for answer in publish(&sink, &during).await {
        assert_eq!(kind(&answer), Some(ErrorKind::Blocked), "{answer:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // From then on nothing is handed over.
    let began = Instant::now();
    for answer in publish(&sink, &numbered("refused", 5, &address)).await {
        assert_eq!(kind(&answer), Some(ErrorKind::Blocked), "{answer:?}");
    }
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    tokio::task::block_in_place(|| vhost.memory_alarm(false)).expect("the alarm can be ended");
    until(&sink, &message("after", &address), None, Duration::from_secs(5)).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let ids = client.take_ids(&queue).await;
    assert!(ids.iter().all(|id| !id.starts_with("refused")), "{ids:?}");
    sink.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_about_credentials() {
    let vhost = rabbitmq::private().await;
    let url = vhost.url_by("postrider:wrong", vhost.port());
    let sink = open(RabbitOptions::new(url));
    let answers = publish(&sink, &numbered("m", 3, &to("", "q"))).await;
    for answer in answers {
        assert_eq!(kind(&answer), Some(ErrorKind::Credentials), "{answer:?}");
        assert!(!format!("{answer:?}").contains("wrong"));
    }
    sink.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_at_the_address_is_answered_at_once() {
    let port = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let sink = open(RabbitOptions::new(format!("amqp://127.0.0.1:{port}/")));
    for _ in 0..5 {
        let began = Instant::now();
        let answers = publish(&sink, &numbered("m", 3, &to("", "q"))).await;
        assert!(
            answers
                .iter()
                .all(|answer| kind(answer) == Some(ErrorKind::Unreachable)),
            "{answers:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(1));
    }
    sink.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_times_out_and_is_found_again() {
    let vhost = rabbitmq::alone().await;
    let queue = vhost.named("frozen");
    let options = RabbitOptions::new(vhost.url())
        .confirm_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(1));
    let sink = open(options.declare(queues([queue.as_str()])));
    let address = to("", &queue);
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    vhost.freeze().expect("the server can be frozen");
    let first = publish(&sink, &numbered("during", 5, &address)).await;
    assert!(
        first
            .iter()
            .all(|answer| kind(answer) == Some(ErrorKind::TimedOut)),
        "{first:?}"
    );
    let second = publish(&sink, &numbered("still", 5, &address)).await;
    assert!(
        second
            .iter()
            .all(|answer| kind(answer) == Some(ErrorKind::Unreachable)),
        "{second:?}"
    );
    vhost.thaw().expect("the server can be thawed");
    until(&sink, &message("after", &address), None, Duration::from_secs(5)).await;
    sink.close().await;
}
