//! Messages as they lie in a queue, for scenarios that look at every field of them.

use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;

use super::Pair;
use crate::failure::Result;

/// A message with a JSON body.
pub(in crate::scenario) struct Message {
    pub(in crate::scenario) queue: String,
    pub(in crate::scenario) id: String,
    pub(in crate::scenario) body: Value,
}

impl Pair<'_> {
    /// Takes everything that is in a queue now.
    pub(in crate::scenario) fn messages(&self, queue: &str) -> Result<Vec<Message>> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = BasicGetOptions { no_ack: true };
            let mut messages = Vec::new();
            while let Some(got) = channel.basic_get(queue.into(), options).await? {
                let id = got.delivery.properties.message_id();
                messages.push(Message {
                    queue: queue.to_owned(),
                    id: id.as_ref().map(ToString::to_string).unwrap_or_default(),
                    body: serde_json::from_slice(&got.delivery.data)?,
                });
            }
            connection.close(200, "done".into()).await?;
            Ok(messages)
        })
    }

    /// How many messages are in a queue that nobody holds.
    pub(in crate::scenario) fn ready(&self, queue: &str) -> Result<u64> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::default()
            };
            let declared = channel
                .queue_declare(queue.into(), options, FieldTable::default())
                .await?;
            let count = declared.message_count();
            connection.close(200, "done".into()).await?;
            Ok(u64::from(count))
        })
    }

    /// Takes everything that is in a queue now; gives one header of each message.
    pub(in crate::scenario) fn headers(&self, queue: &str, name: &str) -> Result<Vec<String>> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let mut found = Vec::new();
            while let Some(got) = channel
                .basic_get(queue.into(), BasicGetOptions { no_ack: true })
                .await?
            {
                let headers = got.delivery.properties.headers().as_ref();
                let value = headers.and_then(|headers| headers.inner().get(name));
                found.push(match value {
                    Some(AMQPValue::LongString(text)) => text.to_string(),
                    _ => String::new(),
                });
            }
            connection.close(200, "done".into()).await?;
            Ok(found)
        })
    }

    /// Makes an exchange that gives everything to a queue.
    pub(in crate::scenario) fn lead_to(&self, exchange: &str, queue: &str) -> Result<()> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = ExchangeDeclareOptions {
                durable: true,
                ..ExchangeDeclareOptions::default()
            };
            let nothing = FieldTable::default;
            channel
                .exchange_declare(exchange.into(), ExchangeKind::Fanout, options, nothing())
                .await?;
            let (options, key) = (QueueBindOptions::default(), "".into());
            channel
                .queue_bind(queue.into(), exchange.into(), key, options, nothing())
                .await?;
            Ok(connection.close(200, "done".into()).await?)
        })
    }

    /// How many consume a queue.
    pub(in crate::scenario) fn consumers(&self, queue: &str) -> Result<u64> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::default()
            };
            let declared = channel
                .queue_declare(queue.into(), options, FieldTable::default())
                .await?;
            let count = declared.consumer_count();
            connection.close(200, "done".into()).await?;
            Ok(u64::from(count))
        })
    }

    /// Makes a queue that gets a copy of everything that goes through a topic exchange.
    pub(in crate::scenario) fn tap(&self, exchange: &str, queue: &str) -> Result<()> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let (options, nothing) = (QueueDeclareOptions::default(), FieldTable::default);
            channel.queue_declare(queue.into(), options, nothing()).await?;
            let (options, key) = (QueueBindOptions::default(), "#".into());
            channel
                .queue_bind(queue.into(), exchange.into(), key, options, nothing())
                .await?;
            Ok(connection.close(200, "done".into()).await?)
        })
    }

    /// Takes everything that is in a queue and publishes each message so often into another, byte for byte and with its
    /// properties as they were; gives how many were taken.
    pub(in crate::scenario) fn carry(&self, from: &str, to: &str, times: usize) -> Result<u64> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.rabbit_url(), ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let mut carried = 0;
            while let Some(got) = channel
                .basic_get(from.into(), BasicGetOptions { no_ack: true })
                .await?
            {
                for _ in 0..times {
                    let (options, properties) =
                        (BasicPublishOptions::default(), got.delivery.properties.clone());
                    channel
                        .basic_publish("".into(), to.into(), options, &got.delivery.data, properties)
                        .await?
                        .await?;
                }
                carried += 1;
            }
            connection.close(200, "done".into()).await?;
            Ok(carried)
        })
    }
}
