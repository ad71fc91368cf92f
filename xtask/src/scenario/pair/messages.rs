//! Messages as they lie in a queue, for scenarios that look at every field of them.

use lapin::options::BasicGetOptions;
use lapin::{Connection, ConnectionProperties};
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
}
