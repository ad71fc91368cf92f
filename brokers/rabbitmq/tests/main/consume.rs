//! The consuming side (D3, D4, D10, D13, D16).

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{ErrorKind, Incoming, Sink, Source, Verdict};
use postrider_rabbitmq::{RabbitOptions, RabbitSource, Topology};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq::{self, PASSWORD, USER};

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to};

const LIMIT: Duration = Duration::from_secs(10);

async fn receive(source: &RabbitSource, max: usize) -> Vec<Incoming> {
    let received = tokio::time::timeout(LIMIT, source.receive(max)).await;
    received
        .expect("something arrives")
        .expect("the queue can be read")
}

fn ids(received: &[Incoming]) -> Vec<&str> {
    received.iter().map(|it| it.message.event_id.as_str()).collect()
}

/// Receives until this many have come.
async fn gather(source: &RabbitSource, count: usize) -> Vec<Incoming> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(receive(source, count - all.len()).await);
    }
    all
}

/// Faults D3, D4 and D10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verdicts_mean_what_they_say() {
    let vhost = rabbitmq::shared().await;
    let options = RabbitOptions::new(vhost.url()).declare(Topology::notifications(true));
    let sink = open(options.clone());
    let mut sent = numbered("m", 3, &to("notifications.exchange", "notification.admin"));
    sent[0]
        .headers
        .push(("traceparent".to_owned(), "00-1".to_owned()));
    confirm_all(&sink, &sent).await;

    let source = RabbitSource::new(options, "notification.admin").unwrap();
    let received = gather(&source, 3).await;
    assert_eq!(ids(&received), ["m0", "m1", "m2"]);
    let first = &received[0].message;
    assert_eq!(
        (first.body.clone(), first.content_type.as_str()),
        (sent[0].body.clone(), "application/json")
    );
    assert_eq!(first.header("traceparent"), Some("00-1"));
    assert_eq!(first.address.get("routing_key"), Some("notification.admin"));
    assert_eq!(received[0].redelivered, 0);
    let verdicts = [Verdict::Done, Verdict::Again, Verdict::Reject];
    let told = received
        .iter()
        .zip(verdicts)
        .map(|(it, verdict)| (it.tag, verdict));
    source.settle(told.collect()).await.unwrap();

    let again = receive(&source, 10).await;
    assert_eq!(ids(&again), ["m1"]);
    assert_eq!(again[0].redelivered, 1);
    // A tag that nobody has, and one that was settled: neither does anything.
    source
        .settle(vec![(received[0].tag, Verdict::Again), (999, Verdict::Done)])
        .await
        .unwrap();
    source.settle(vec![(again[0].tag, Verdict::Done)]).await.unwrap();
    source.close().await;

    let dead = RabbitSource::new(RabbitOptions::new(vhost.url()), "notification.dead").unwrap();
    assert_eq!(ids(&receive(&dead, 10).await), ["m2"]);
    dead.close().await;
}

/// Fault D16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prefetch_bounds_what_is_held_and_close_gives_it_back() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("bounded");
    let options = RabbitOptions::new(vhost.url())
        .declare(queues([queue.as_str()]))
        .prefetch(10);
    let sink = open(options.clone());
    confirm_all(&sink, &numbered("m", 50, &to("", &queue))).await;
    let source = RabbitSource::new(options.clone(), &queue).unwrap();
    let held = gather(&source, 10).await;
    assert!(
        receive_within(&source, Duration::from_millis(300))
            .await
            .is_none()
    );
    source.settle(vec![(held[0].tag, Verdict::Done)]).await.unwrap();
    assert_eq!(receive(&source, 100).await.len(), 1);
    source.close().await;
    source.close().await;
    assert!(source.receive(1).await.is_err(), "it is closed");

    let other = RabbitSource::new(options, &queue).unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 49 {
        let received = receive(&other, 100).await;
        seen.extend(received.iter().map(|it| it.message.event_id.to_string()));
        let done = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
        other.settle(done).await.unwrap();
    }
    assert!(!seen.contains("m0"), "it was settled");
    other.close().await;
}

async fn receive_within(source: &RabbitSource, limit: Duration) -> Option<Vec<Incoming>> {
    // Dropped in the middle, it loses nothing: the cases count what arrives.
    tokio::time::timeout(limit, source.receive(100))
        .await
        .ok()
        .map(Result::unwrap)
}

/// Fault D13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_delivers_again_and_old_tags_are_ignored() {
    let vhost = rabbitmq::private().await;
    let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues(["lost"])));
    confirm_all(&sink, &numbered("m", 20, &to("", "lost"))).await;
    let url = vhost.url_by(&format!("{USER}:{PASSWORD}"), proxy.port());
    let source = RabbitSource::new(RabbitOptions::new(url), "lost").unwrap();
    let before = gather(&source, 20).await;
    proxy.cut();
    assert!(source.receive(1).await.is_err(), "the loss is told once");
    let after = gather(&source, 20).await;
    assert!(after.iter().all(|it| it.redelivered >= 1), "{after:?}");
    // Verdicts of the first life must not fall on the deliveries of the second.
    let old = before.iter().map(|it| (it.tag, Verdict::Done)).collect();
    source.settle(old).await.unwrap();
    source.close().await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    assert_eq!(client.take_ids("lost").await.len(), 20, "nothing was settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_an_error_and_the_source_recovers() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("deleted");
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    client.declare(&queue).await;
    let source = RabbitSource::new(RabbitOptions::new(vhost.url()), &queue).unwrap();
    assert!(
        receive_within(&source, Duration::from_millis(500))
            .await
            .is_none()
    );
    let gone = client
        .channel
        .queue_delete(queue.as_str().into(), Default::default());
    gone.await.expect("the queue can be deleted");
    let error = tokio::time::timeout(LIMIT, source.receive(1))
        .await
        .expect("it is noticed");
    assert!(error.is_err());
    assert!(source.receive(1).await.is_err(), "there is no queue");
    client.declare(&queue).await;
    let sink = open(RabbitOptions::new(vhost.url()));
    confirm_all(&sink, &[message("m", &to("", &queue))]).await;
    assert_eq!(ids(&receive(&source, 1).await), ["m"]);
}

/// Fault B8. Publishers and consumers have connections of their own: a broker that takes nothing stops to read what a
/// publisher's connection says, and verdicts on it would wait for the end of the alarm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_that_is_blocked_holds_no_consumer_up() {
    let vhost = rabbitmq::alone().await;
    let queue = vhost.named("apart");
    let options = RabbitOptions::new(vhost.url())
        .confirm_timeout(Duration::from_secs(1))
        .declare(queues([queue.as_str()]))
        .prefetch(1);
    let sink = open(options.clone());
    let sent = numbered("m", 10, &to("", &queue));
    confirm_all(&sink, &sent).await;
    let source = RabbitSource::new(options, &queue).unwrap();
    let mut received = receive(&source, 1).await;
    tokio::task::block_in_place(|| vhost.memory_alarm(true)).expect("the alarm can be raised");
    let blocked = publish(&sink, &numbered("blocked", 1, &to("", &queue))).await;
    assert_eq!(kind(&blocked[0]), Some(ErrorKind::Blocked));
    // Each of them comes only when the verdict on the one before has been read.
    for n in 0..10 {
        assert_eq!(ids(&received), [format!("m{n}")]);
        source
            .settle(vec![(received[0].tag, Verdict::Done)])
            .await
            .unwrap();
        if n < 9 {
            received = receive(&source, 1).await;
        }
    }
    tokio::task::block_in_place(|| vhost.memory_alarm(false)).expect("the alarm can be ended");
    source.close().await;
    sink.close().await;
}

/// Fault D14. Where order is asked for, the second of two listeners gets nothing while the first is there, and goes
/// on where it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_one_consumer_at_a_time_is_served() {
    let vhost = rabbitmq::shared().await;
    let queue = "notification.agency";
    let options = RabbitOptions::new(vhost.url())
        .declare(Topology::notifications(true))
        .prefetch(5);
    let sink = open(options.clone());
    let address = to("notifications.exchange", queue);
    confirm_all(&sink, &numbered("m", 20, &address)).await;
    let first = RabbitSource::new(options.clone(), queue).unwrap();
    let held = gather(&first, 5).await;
    assert_eq!(ids(&held), ["m0", "m1", "m2", "m3", "m4"]);
    let second = RabbitSource::new(options, queue).unwrap();
    // That nothing comes for a while is what is looked at: without the setting, the next five come at once.
    assert!(receive_within(&second, Duration::from_secs(1)).await.is_none());
    let done = held[..2].iter().map(|it| (it.tag, Verdict::Done)).collect();
    first.settle(done).await.unwrap();
    first.close().await;
    let mut seen = Vec::new();
    while seen.len() < 18 {
        let received = receive(&second, 100).await;
        seen.extend(received.iter().map(|it| it.message.event_id.to_string()));
        let done = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
        second.settle(done).await.unwrap();
    }
    let wanted: Vec<_> = (2..20).map(|n| format!("m{n}")).collect();
    assert_eq!(seen, wanted, "in order, and nothing twice");
    second.close().await;
}
