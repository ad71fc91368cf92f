//! What users' tests rely on.

mod conformance;
mod conformance_source;
mod consume;
mod publish;

use std::sync::Arc;

use postrider_core::{Address, Message};

fn message(key: &str, n: usize) -> Message {
    Message {
        event_id: format!("{key}-{n}").into(),
        order_key: key.into(),
        message_key: key.to_owned(),
        address: Address::default(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: n.to_string().into(),
    }
}

fn batch(messages: impl IntoIterator<Item = Message>) -> Arc<[Message]> {
    messages.into_iter().collect()
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.event_id.as_str()).collect()
}
