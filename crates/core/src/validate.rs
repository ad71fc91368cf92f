//! Every limit of an event, in one place.

use crate::Event;

/// The limits themselves.
pub mod limits {
    /// Characters of an id.
    pub const ID: usize = 255;
}

/// Why an event is refused: a field and the limit it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidEvent {
    /// The field.
    pub field: &'static str,
    /// The limit.
    pub reason: String,
}

impl InvalidEvent {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

pub(crate) fn event(_event: &Event) -> Result<(), InvalidEvent> {
    Ok(())
}
