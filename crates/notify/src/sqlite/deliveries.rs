//! How deliveries stand: derived from where their events are, and kept nowhere, so nothing can leave a stale word.

use postrider_core::{StoreError, Timestamp};
use rusqlite::{OptionalExtension, Row, Transaction};

use super::{Lite, failed};
use crate::board::shown::standing;
use crate::{Channel, Delivery, DeliveryState, Notification};

const DELIVERIES: &str =
    "SELECT channel, event_id, problem FROM notification_delivery WHERE notification_id = ?1";

/// The view of the outbox knows an event by its place; its tables find the place by the id. A replay leaves a copy
/// behind, at a place below zero; what counts is the event itself.
const STATE: &str = "SELECT e.status, e.published_at, e.last_error FROM {outbox_events} e
    WHERE e.event_id = ?1 AND e.seq IN (
        SELECT seq FROM {outbox} WHERE event_id = ?1
        UNION ALL SELECT seq FROM {outbox_parked} WHERE event_id = ?1
        UNION ALL SELECT seq FROM {outbox_sent} WHERE event_id = ?1)
    ORDER BY e.seq DESC LIMIT 1";

/// Puts the deliveries to their notifications.
pub(super) fn attach(
    tx: &Transaction<'_>,
    lite: &Lite,
    notifications: &mut [Notification],
) -> Result<(), StoreError> {
    for notification in notifications {
        let found = of(tx, lite, notification.entry.id);
        notification.deliveries = found.map_err(|error| failed(error, "reading deliveries"))?;
        notification.deliveries.sort_by_key(|one| one.channel);
    }
    Ok(())
}

fn of(tx: &Transaction<'_>, lite: &Lite, id: i64) -> rusqlite::Result<Vec<Delivery>> {
    let mut statement = tx.prepare_cached(DELIVERIES)?;
    let mut rows = statement.query([id])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        // A channel of a later version is none that this one could name.
        if let Some(channel) = Channel::parse(&row.get::<_, String>(0)?) {
            found.push(delivery(tx, lite, (channel, row))?);
        }
    }
    Ok(found)
}

fn delivery(
    tx: &Transaction<'_>,
    lite: &Lite,
    (channel, row): (Channel, &Row<'_>),
) -> rusqlite::Result<Delivery> {
    let event_id: Option<String> = row.get(1)?;
    let state = match (&event_id, row.get::<_, Option<String>>(2)?) {
        (_, Some(reason)) => DeliveryState::Impossible { reason },
        (None, None) => DeliveryState::Stored,
        (Some(event_id), None) => {
            let mut statement = tx.prepare_cached(&lite.names.sql(STATE))?;
            let state = statement.query_row([event_id], state).optional()?;
            state.unwrap_or(DeliveryState::Settled)
        }
    };
    Ok(Delivery {
        channel,
        event_id,
        state,
    })
}

fn state(row: &Row<'_>) -> rusqlite::Result<DeliveryState> {
    let (status, at): (String, Option<String>) = (row.get(0)?, row.get(1)?);
    Ok(standing(Some(&status), at.as_deref().and_then(time), row.get(2)?))
}

/// A time as the view has it: UTC, without saying so.
fn time(text: &str) -> Option<Timestamp> {
    crate::moment::parse(&format!("{text}Z"))
}
