//! One exchange of several that is missing or closed to us, and the neighbours of its messages (B10).

use std::time::{Duration, Instant};

use lapin::options::ExchangeDeleteOptions;
use postrider_core::{Answer, ErrorKind, Message, Sink};
use postrider_rabbitmq::{RabbitOptions, RabbitSink};
use postrider_testkit::servers::rabbitmq;

use crate::addresses::bound;
use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

/// Twenty messages, every second one to the second address.
fn mixed(prefix: &str, addresses: [&str; 2]) -> Vec<Message> {
    let mut batch = numbered(prefix, 20, &to(addresses[0], "here.now"));
    for message in batch.iter_mut().skip(1).step_by(2) {
        message.address = to(addresses[1], "here.now");
    }
    batch
}

/// Publishes to a good and a barred exchange, and checks that the good one notices nothing.
async fn apart(sink: &RabbitSink, batch: &[Message], barred: &str, wanted: ErrorKind) {
    for (message, answer) in batch.iter().zip(publish(sink, batch).await) {
        let to_barred = message.address.get("exchange") == Some(barred);
        assert_eq!(
            kind(&answer),
            to_barred.then_some(wanted),
            "{}: {answer:?}",
            message.event_id
        );
        if let Answer::Failed(failure) = answer {
            assert!(!failure.maybe_sent, "{failure:?}");
        }
    }
}

/// Fault B10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_exchange_hits_its_neighbours_once() {
    let vhost = rabbitmq::shared().await;
    let (good, lost) = (vhost.named("good"), vhost.named("lost"));
    let topology = bound(&lost, &lost);
    let mut both = bound(&good, &good);
    both.exchanges.extend(topology.exchanges.clone());
    both.queues.extend(topology.queues.clone());
    both.bindings.extend(topology.bindings.clone());
    let sink = open(RabbitOptions::new(vhost.url()).declare(both));
    confirm_all(&sink, &mixed("before", [&good, &lost])).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let name = lost.as_str().into();
    let deleted = client
        .channel
        .exchange_delete(name, ExchangeDeleteOptions::default());
    deleted.await.expect("the exchange can be deleted");

    // This one finds out, at the cost of whoever was in it.
    publish(&sink, &mixed("hit", [&good, &lost])).await;
    // Longer than a message waits for its try, so that several are made.
    let began = Instant::now();
    let mut calls = 0;
    while calls < 10 || began.elapsed() < Duration::from_millis(1_200) {
        let batch = mixed(&format!("{calls}-"), [&good, &lost]);
        apart(&sink, &batch, &lost, ErrorKind::AddressNotFound).await;
        calls += 1;
    }

    let other = open(RabbitOptions::new(vhost.url()).declare(topology));
    confirm_all(&other, &[message("other", &to(&lost, "here.now"))]).await;
    let limit = Duration::from_secs(2);
    until(&sink, &message("back", &to(&lost, "here.now")), None, limit).await;
    confirm_all(&sink, &mixed("again", [&good, &lost])).await;
    let ids = client.take_ids(&lost).await;
    let unwanted = |id: &&String| {
        !["before", "other", "back", "again"]
            .iter()
            .any(|good| id.starts_with(good))
    };
    assert_eq!(ids.iter().filter(unwanted).count(), 0, "{ids:?}");
    assert_eq!(ids.len(), 22, "{ids:?}");
    sink.close().await;
}

/// Fault B11. The message that tries is not sent a second time, and those behind it go in the same call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_back_takes_the_whole_call() {
    let vhost = rabbitmq::shared().await;
    let name = vhost.named("late");
    let sink = open(RabbitOptions::new(vhost.url()));
    let address = to(&name, "here.now");
    for answer in publish(&sink, &numbered("early", 5, &address)).await {
        assert_eq!(kind(&answer), Some(ErrorKind::AddressNotFound), "{answer:?}");
    }
    let other = open(RabbitOptions::new(vhost.url()).declare(bound(&name, &name)));
    confirm_all(&other, &[message("other", &address)]).await;
    let batch = numbered("m", 50, &address);
    confirm_all(&sink, &batch).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let ids = client.take_ids(&name).await;
    let wanted = std::iter::once("other").chain(batch.iter().map(|message| message.event_id.as_str()));
    assert_eq!(ids, wanted.collect::<Vec<_>>());
    sink.close().await;
}

/// Fault B10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_exchange_hits_its_neighbours_once() {
    let vhost = rabbitmq::private().await;
    let queue = vhost.named("open");
    let declaring = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    confirm_all(&declaring, &[message("first", &to("", &queue))]).await;
    // Nobody may publish to an internal exchange, and the default one stays open: a permission would close both.
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let options = lapin::options::ExchangeDeclareOptions {
        internal: true,
        ..Default::default()
    };
    let declared = client.channel.exchange_declare(
        "internal".into(),
        lapin::ExchangeKind::Topic,
        options,
        Default::default(),
    );
    declared.await.expect("an exchange can be declared");
    let batch = |prefix: &str| {
        let mut batch = numbered(prefix, 20, &to("", &queue));
        for message in batch.iter_mut().skip(1).step_by(2) {
            message.address = to("internal", "x");
        }
        batch
    };
    let sink = open(RabbitOptions::new(vhost.url()));
    publish(&sink, &batch("hit")).await;
    let began = Instant::now();
    let mut calls = 0;
    while calls < 10 || began.elapsed() < Duration::from_millis(1_200) {
        let batch = batch(&format!("{calls}-"));
        apart(&sink, &batch, "internal", ErrorKind::AddressRefused).await;
        calls += 1;
    }
    sink.close().await;
}
