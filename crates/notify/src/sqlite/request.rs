//! Requests with a key: the first that says something with it counts.

use rusqlite::{OptionalExtension, Transaction};

use super::{Lite, accept, failed};
use crate::people::Page;
use crate::{Accepted, BoardError, Occasion};

/// Accepts in the caller's transaction. There is one writer to a file, so nobody comes with the same key meanwhile.
pub(super) fn accept(
    tx: &Transaction<'_>,
    lite: &Lite,
    occasion: &Occasion,
    asked: Option<&Page>,
) -> Result<Accepted, BoardError> {
    let said = |error| failed(error, "looking what a key was used for");
    let (event_id, fingerprint) = (&occasion.event_id, occasion.fingerprint());
    let sql = "SELECT fingerprint FROM notification_request WHERE event_id = ?1";
    let known: Option<String> = tx
        .query_row(sql, [event_id], |row| row.get(0))
        .optional()
        .map_err(said)?;
    if known.as_ref().is_some_and(|known| *known != fingerprint) {
        return Err(BoardError::Reused);
    }
    let accepted = accept::accept(tx, lite, occasion, asked)?;
    if known.is_none() && !accepted.is_nothing() {
        let sql = "INSERT INTO notification_request (event_id, fingerprint) VALUES (?1, ?2)";
        tx.execute(sql, [event_id, &fingerprint]).map_err(said)?;
    }
    Ok(accepted)
}
