//! The suite speaks of bodies of any bytes; a channel carries deliveries. So each body travels as the text of one.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use postrider_core::{Answer, BoxFuture, Capabilities, Message, Sink};
use postrider_notify::{Channel, Dispatch};

/// A channel as the suite sees it.
pub(crate) struct Wrapped<S> {
    pub(crate) sink: S,
    pub(crate) channel: Channel,
    /// Where the suite's recipients are, by name.
    pub(crate) to: fn(&str) -> String,
    pub(crate) base: String,
}

/// Behind every body, so that the half of a text is told from the whole.
const END: char = '.';

/// The body of a text; none of one that is not whole.
pub(crate) fn unwrap(text: &str) -> Option<Bytes> {
    let encoded: String = text.split_whitespace().collect();
    let decoded = STANDARD.decode(encoded.strip_suffix(END)?);
    Some(decoded.expect("what was wrapped").into())
}

impl<S> Wrapped<S> {
    fn wrap(&self, message: &Message) -> Message {
        let recipient = message.address.get("recipient").unwrap_or_default();
        let dispatch = Dispatch {
            notification_id: 1,
            user_id: recipient.to_owned(),
            name: String::new(),
            channel: self.channel,
            to: format!("{}{}", self.base, (self.to)(recipient)),
            title: "Tested".to_owned(),
            body: STANDARD.encode(&message.body) + &END.to_string(),
            html: None,
            category: "suite".to_owned(),
            event_id: "e".to_owned(),
            event_type: "Tested".to_owned(),
        };
        Message {
            body: serde_json::to_vec(&dispatch).unwrap().into(),
            ..message.clone()
        }
    }
}

impl<S: Sink> Sink for Wrapped<S> {
    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    fn connect(&self) -> BoxFuture<'_, ()> {
        self.sink.connect()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        let wrapped: Vec<Message> = batch.iter().map(|message| self.wrap(message)).collect();
        self.sink.publish(wrapped.into())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.sink.close()
    }
}
