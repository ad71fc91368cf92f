//! Messages, queues, and a reader that shares nothing with the sink but the broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicQosOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, Consumer};
use postrider_core::{Address, Answer, ErrorKind, Message, OrderKey, Sink, header};
use postrider_rabbitmq::{Queue, RabbitOptions, RabbitSink, Topology};
use postrider_testkit::wait;

/// An address.
pub(crate) fn to(exchange: &str, routing_key: &str) -> Address {
    let mut parts = vec![("routing_key".to_owned(), routing_key.to_owned())];
    if !exchange.is_empty() {
        parts.insert(0, ("exchange".to_owned(), exchange.to_owned()));
    }
    Address(parts)
}

/// A message whose key is its id.
pub(crate) fn message(id: &str, address: &Address) -> Message {
    Message {
        event_id: id.into(),
        order_key: OrderKey::new(id),
        message_key: id.to_owned(),
        address: address.clone(),
        content_type: "application/json".to_owned(),
        headers: vec![(header::EVENT_TYPE.to_owned(), "Tested".to_owned())],
        body: Bytes::from(format!("{{\"id\":{id:?}}}")),
    }
}

/// Messages `prefix0` upwards.
pub(crate) fn numbered(prefix: &str, count: usize, address: &Address) -> Vec<Message> {
    (0..count)
        .map(|n| message(&format!("{prefix}{n}"), address))
        .collect()
}

/// Queues without dead letters.
pub(crate) fn queues<'a>(names: impl IntoIterator<Item = &'a str>) -> Topology {
    let queue = |name: &str| Queue {
        name: name.to_owned(),
        ..Queue::default()
    };
    Topology {
        queues: names.into_iter().map(queue).collect(),
        ..Topology::default()
    }
}

pub(crate) fn open(options: RabbitOptions) -> Arc<RabbitSink> {
    Arc::new(RabbitSink::new(options).expect("good options"))
}

pub(crate) async fn publish(sink: &RabbitSink, batch: &[Message]) -> Vec<Answer> {
    let answers = sink.publish(batch.into()).await;
    assert_eq!(answers.len(), batch.len());
    answers
}

/// The kind of a failure; none: confirmed.
pub(crate) fn kind(answer: &Answer) -> Option<ErrorKind> {
    match answer {
        Answer::Confirmed(_) => None,
        Answer::Failed(failure) => Some(failure.kind),
    }
}

pub(crate) async fn confirm_all(sink: &RabbitSink, batch: &[Message]) {
    for (message, answer) in batch.iter().zip(publish(sink, batch).await) {
        assert_eq!(kind(&answer), None, "{}: {answer:?}", message.event_id);
    }
}

/// Publishes one message again and again until the answer is the wanted one.
pub(crate) async fn until(sink: &RabbitSink, message: &Message, wanted: Option<ErrorKind>, limit: Duration) {
    let what = format!("{} is answered with {wanted:?}", message.event_id);
    wait::within(limit, &what, async || {
        let answers = publish(sink, std::slice::from_ref(message)).await;
        (kind(&answers[0]) == wanted).then_some(())
    })
    .await;
}

/// Whether all were answered with this failure.
pub(crate) fn assert_all(answers: &[Answer], wanted: ErrorKind) {
    for answer in answers {
        assert_eq!(kind(answer), Some(wanted), "{answer:?}");
    }
}

/// RabbitMQ 3.10 keeps its list of quorum queues in a file that it writes now and then, and nothing tells when:
/// killed right after a declaration, it never finds the queue again.
pub(crate) async fn queues_are_on_disk() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A client of its own.
pub(crate) struct Client {
    _connection: Connection,
    pub(crate) channel: Channel,
}

impl Client {
    pub(crate) async fn connect(url: &str) -> lapin::Result<Client> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok(Client {
            _connection: connection,
            channel,
        })
    }

    pub(crate) async fn declare(&self, queue: &str) {
        self.declare_with(queue, &[]).await;
    }

    /// A quorum queue with further arguments.
    pub(crate) async fn declare_with(&self, queue: &str, more: &[(&str, AMQPValue)]) {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        for (name, value) in more {
            arguments.insert((*name).into(), value.clone());
        }
        let declared = self.channel.queue_declare(queue.into(), options, arguments).await;
        declared.expect("a queue can be declared");
    }

    /// Consumes; what is not acknowledged is the queue's again in the end.
    pub(crate) async fn consume(&self, queue: &str) -> lapin::Result<Consumer> {
        self.channel.basic_qos(500, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        self.channel
            .basic_consume(queue.into(), "".into(), options, FieldTable::default())
            .await
    }

    /// Takes one message for good.
    pub(crate) async fn take(&self, queue: &str) -> lapin::Result<Option<BasicGetMessage>> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await
    }

    /// Takes everything, and gives the ids in their order.
    pub(crate) async fn take_ids(&self, queue: &str) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(message) = self.take(queue).await.expect("the queue can be read") {
            let id = message.delivery.properties.message_id().as_ref();
            ids.push(id.expect("every message has its id").to_string());
        }
        ids
    }

    pub(crate) async fn purge(&self, queue: &str) -> u32 {
        let purged = self
            .channel
            .queue_purge(queue.into(), QueuePurgeOptions::default());
        purged.await.expect("the queue can be emptied")
    }
}
