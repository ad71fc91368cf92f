//! What an event carries, byte-exact.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The payload as the producer wrote it. It is never re-encoded: signatures and hashes made by the producer hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Text, JSON by default.
    Text(String),
    /// Anything else.
    Bytes(Bytes),
    /// No payload at all: the event says that something is gone.
    Tombstone,
}

impl Payload {
    /// The stored bytes; empty for a tombstone.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Payload::Text(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
            Payload::Tombstone => &[],
        }
    }

    /// The number of stored bytes.
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The content type that holds when the producer named none.
    pub fn default_content_type(&self) -> &'static str {
        match self {
            Payload::Bytes(_) => "application/octet-stream",
            Payload::Text(_) | Payload::Tombstone => "application/json",
        }
    }

    /// SHA-256 over the stored bytes, in hexadecimal. Consumers compare it to tell a repeated event from a reused id.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.as_bytes());
        let mut hex = String::with_capacity(64);
        for byte in digest {
            hex.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            hex.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        hex
    }
}
