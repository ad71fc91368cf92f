//! Addresses that nobody listens at, that do not exist, and that are closed to us (B4, B10, B11).

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::ExchangeDeleteOptions;
use lapin::types::FieldTable;
use postrider_core::{ErrorKind, Sink};
use postrider_rabbitmq::{Binding, Exchange, RabbitOptions, Topology};
use postrider_testkit::servers::rabbitmq;

use crate::support::{Client, confirm_all, kind, message, numbered, open, publish, queues, to, until};

/// A topic exchange with one queue.
pub(crate) fn bound(exchange: &str, queue: &str) -> Topology {
    Topology {
        exchanges: vec![Exchange {
            name: exchange.to_owned(),
            kind: "topic".to_owned(),
        }],
        bindings: vec![Binding {
            exchange: exchange.to_owned(),
            queue: queue.to_owned(),
            routing_key: "here.#".to_owned(),
        }],
        ..queues([queue])
    }
}

/// Fault B4. 10,000 publishes, several batches at a time, one in twenty to nobody: not one of those is counted as
/// sent, and not one of the others is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_one_unroutable_message_is_counted_as_sent() {
    const BATCHES: usize = 100;
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("mixed");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    confirm_all(&sink, &[message("first", &to("", &queue))]).await;
    let mut wrong = Vec::new();
    let mut unroutable = 0;
    for wave in 0..BATCHES / 4 {
        let calls = (0..4).map(|lane| {
            let mut batch = numbered(&format!("{wave}-{lane}-"), 100, &to("", &queue));
            // Not always at the same places of a batch.
            for message in batch.iter_mut().skip((wave + lane) % 20).step_by(20) {
                message.address = to("", "nobody");
            }
            let sink = sink.clone();
            tokio::spawn(async move { (publish(&sink, &batch).await, batch) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (answers, batch) = call.await.expect("a publish does not panic");
            for (answer, message) in answers.iter().zip(batch) {
                let nobody = message.address.get("routing_key") == Some("nobody");
                unroutable += usize::from(nobody);
                let wanted = nobody.then_some(ErrorKind::AddressNotFound);
                if kind(answer) != wanted {
                    wrong.push((message.event_id.to_string(), answer.clone()));
                }
            }
        }
    }
    assert_eq!(unroutable, 500);
    assert_eq!(wrong, [], "answered wrongly");
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    assert_eq!(client.purge(&queue).await, 9_501, "exactly the others arrived");
}

/// Fault B10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_exchange_is_the_fault_of_its_own_messages() {
    let vhost = rabbitmq::shared().await;
    let (queue, exchange) = (vhost.named("here"), vhost.named("nowhere"));
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    let mut batch = numbered("m", 40, &to("", &queue));
    for message in batch.iter_mut().skip(5).step_by(10) {
        message.address = to(&exchange, "x");
    }
    for (message, answer) in batch.iter().zip(publish(&sink, &batch).await) {
        let missing = message.address.get("exchange").is_some();
        match kind(&answer) {
            Some(ErrorKind::AddressNotFound) => assert!(missing, "{} is blamed", message.event_id),
            Some(ErrorKind::ConnectionLost) => assert!(!missing, "{answer:?}"),
            None => assert!(!missing, "{} reached nobody", message.event_id),
            other => panic!("{other:?}: {answer:?}"),
        }
    }
    // The channel died; the sink did not.
    confirm_all(&sink, &numbered("after", 20, &to("", &queue))).await;
    let alone = publish(&sink, &[message("alone", &to(&exchange, "x"))]).await;
    assert_eq!(kind(&alone[0]), Some(ErrorKind::AddressNotFound));
}

/// Fault B11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_binding_and_exchange_are_noticed_and_come_back() {
    let vhost = rabbitmq::shared().await;
    let (queue, exchange) = (vhost.named("bound"), vhost.named("topic"));
    let topology = bound(&exchange, &queue);
    let sink = open(RabbitOptions::new(vhost.url()).declare(topology.clone()));
    let address = to(&exchange, "here.now");
    confirm_all(&sink, &numbered("before", 5, &address)).await;
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    let unbound = client.channel.queue_unbind(
        queue.as_str().into(),
        exchange.as_str().into(),
        "here.#".into(),
        FieldTable::default(),
    );
    unbound.await.expect("the binding can be removed");
    for answer in publish(&sink, &numbered("unbound", 5, &address)).await {
        assert_eq!(kind(&answer), Some(ErrorKind::AddressNotFound), "{answer:?}");
    }
    let deleted = client
        .channel
        .exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default());
    deleted.await.expect("the exchange can be deleted");
    let answers = publish(&sink, &numbered("deleted", 5, &address)).await;
    for answer in &answers {
        assert_eq!(kind(answer), Some(ErrorKind::AddressNotFound), "{answer:?}");
    }
    // Somebody puts it back; here it is another sink that declares.
    let other = open(RabbitOptions::new(vhost.url()).declare(topology));
    confirm_all(&other, &[message("other", &address)]).await;
    confirm_all(&sink, &numbered("again", 5, &address)).await;
    let ids: BTreeSet<String> = client.take_ids(&queue).await.into_iter().collect();
    assert_eq!(ids.len(), 11, "{ids:?}");
}

/// Consumers may be there before the first event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_be_declared_is_there_before_the_first_event() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("early");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    sink.connect().await;
    let other = open(RabbitOptions::new(vhost.url()));
    confirm_all(&other, &[message("first", &to("", &queue))]).await;
    other.close().await;
    sink.close().await;
}

/// Fault B27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_permission_is_the_fault_of_the_address() {
    let vhost = rabbitmq::private().await;
    let queue = vhost.named("closed");
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([queue.as_str()])));
    let address = to("amq.topic", "x");
    let answers = publish(&sink, &[message("first", &address)]).await;
    assert_eq!(kind(&answers[0]), Some(ErrorKind::AddressNotFound));
    vhost.may_publish(false).expect("permissions can be changed");
    // A channel remembers for a while what it was allowed; a new connection does not.
    let fresh = open(RabbitOptions::new(vhost.url()));
    let limit = Duration::from_secs(10);
    until(
        &fresh,
        &message("second", &address),
        Some(ErrorKind::AddressRefused),
        limit,
    )
    .await;
    vhost.may_publish(true).expect("permissions can be changed");
    until(
        &fresh,
        &message("third", &address),
        Some(ErrorKind::AddressNotFound),
        limit,
    )
    .await;
    fresh.close().await;
}
