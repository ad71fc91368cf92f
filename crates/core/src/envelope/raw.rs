//! The stored payload and nothing else.

use bytes::Bytes;

use crate::{Event, Payload};

/// The payload as stored. Bytes are shared, not copied.
pub(super) fn body(event: &Event) -> Bytes {
    match &event.payload {
        Payload::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
        Payload::Bytes(bytes) => bytes.clone(),
        Payload::Tombstone => Bytes::new(),
    }
}
