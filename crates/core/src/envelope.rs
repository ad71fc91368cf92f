//! The form of a message.

use bytes::Bytes;

use crate::{Address, Event, Failure, Message, OrderKey};

/// The form of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Envelope {
    /// A JSON object with event_id, event_type, aggregate_type, aggregate_id and payload.
    #[default]
    Flat,
    /// The payload only; the rest in headers.
    Raw,
}

/// Encodes an event for a destination.
pub fn encode(
    _envelope: Envelope,
    event: &Event,
    order_key: &OrderKey,
    address: Address,
    message_key: String,
) -> Result<Message, Failure> {
    Ok(Message {
        event_id: event.id.clone(),
        order_key: order_key.clone(),
        message_key,
        address,
        content_type: event.content_type().to_owned(),
        headers: Vec::new(),
        body: Bytes::copy_from_slice(event.payload.as_bytes()),
    })
}
