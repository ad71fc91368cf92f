//! Occasions that are kept as text until everybody was told of them.

use crate::{BoardError, Occasion};

/// The text of an occasion.
pub(crate) fn keep(occasion: &Occasion) -> Result<String, BoardError> {
    serde_json::to_string(occasion).map_err(|error| {
        let id = &occasion.event_id;
        BoardError::Occasion(format!("the event {id:?} cannot be kept: {error}"))
    })
}

/// The occasion of a text, and who keeps it.
pub(crate) fn kept(text: &str, by: &str) -> Result<Occasion, BoardError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        BoardError::Occasion(format!(
            "{by} keeps an occasion that cannot be read (line {line}, column {column}): was it written by a later \
             version?"
        ))
    })
}
