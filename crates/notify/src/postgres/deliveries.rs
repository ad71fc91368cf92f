//! How deliveries stand: derived from where their events are, and kept nowhere, so nothing can leave a stale word.

use std::collections::HashMap;

use postrider_core::{StoreError, Timestamp};
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Transaction};

use super::{Pg, failed};
use crate::board::shown::standing;
use crate::{Channel, Delivery, DeliveryState, Notification};

/// Where an event is: parked counts before queued, and both before the history, as in the view `outbox_events`. That
/// view itself is not asked, because it compares the parked rows of an event by reading all of them; here each table
/// finds the event by an index. A replay leaves a copy behind; what counts is the event itself.
const DELIVERIES: &str = "SELECT d.notification_id, d.channel, d.event_id, d.problem, e.status, {micros e.at}, e.error
    FROM {notification_delivery} d LEFT JOIN LATERAL (
        SELECT * FROM (
            SELECT p.replay_id, 0 AS place, p.severity, p.status, NULL::timestamptz AS at, p.error_text AS error
            FROM {outbox_parked_status} p WHERE p.event_id = d.event_id
            UNION ALL
            SELECT q.replay_id, 1, 0, 'PENDING', NULL, NULL FROM {outbox} q WHERE q.event_id = d.event_id
            UNION ALL
            SELECT h.replay_id, CASE h.outcome WHEN 'discarded' THEN 2 ELSE 3 END, 0, upper(h.outcome), h.published_at,
                NULL
            FROM {outbox_sent} h WHERE h.event_id = d.event_id AND h.outcome IN ('published', 'discarded')
        ) found ORDER BY replay_id IS NOT NULL, place, severity, at DESC LIMIT 1
    ) e ON d.event_id IS NOT NULL
    WHERE d.notification_id = ANY($1)";

/// Puts the deliveries to their notifications.
pub(super) async fn attach(
    tx: &Transaction<'_>,
    pg: &Pg,
    notifications: &mut [Notification],
) -> Result<(), StoreError> {
    let said = |error| failed(error, "reading deliveries");
    let ids: Vec<i64> = notifications.iter().map(|one| one.entry.id).collect();
    let sql = pg.names.sql(DELIVERIES);
    let rows = tx
        .query_typed(&sql, &[(&ids, Type::INT8_ARRAY)])
        .await
        .map_err(said)?;
    let mut found: HashMap<i64, Vec<Delivery>> = HashMap::new();
    for row in &rows {
        // A channel of a later version is none that this one could name.
        if let Some(delivery) = delivery(row).map_err(said)? {
            let id = row.try_get(0).map_err(said)?;
            found.entry(id).or_default().push(delivery);
        }
    }
    for notification in notifications {
        notification.deliveries = found.remove(&notification.entry.id).unwrap_or_default();
        notification.deliveries.sort_by_key(|one| one.channel);
    }
    Ok(())
}

fn delivery(row: &Row) -> Result<Option<Delivery>, tokio_postgres::Error> {
    let Some(channel) = Channel::parse(row.try_get(1)?) else {
        return Ok(None);
    };
    let event_id: Option<String> = row.try_get(2)?;
    let state = match (&event_id, row.try_get::<_, Option<String>>(3)?) {
        (_, Some(reason)) => DeliveryState::Impossible { reason },
        (None, None) => DeliveryState::Stored,
        (Some(_), None) => state(row)?,
    };
    Ok(Some(Delivery {
        channel,
        event_id,
        state,
    }))
}

fn state(row: &Row) -> Result<DeliveryState, tokio_postgres::Error> {
    let at = row.try_get::<_, Option<i64>>(5)?.map(Timestamp);
    Ok(standing(row.try_get(4)?, at, row.try_get(6)?))
}
