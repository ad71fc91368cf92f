//! What is old goes, in pieces that others hardly notice.

use std::time::Duration;

use rusqlite::Transaction;

use super::{Lite, failed, micros, schema};
use crate::{BoardError, Purged};

/// The oldest first, found by their time. What still has an event in the outbox is to be delivered or looked after, and
/// stays.
const OLD: &str = "CREATE TEMP TABLE IF NOT EXISTS notification_old (id INTEGER PRIMARY KEY);
    DELETE FROM temp.notification_old;";

const FIND: &str = "INSERT INTO temp.notification_old
    SELECT n.id FROM notification n
    WHERE n.created_at < ?1 AND NOT EXISTS (
        SELECT 1 FROM notification_delivery d WHERE d.notification_id = n.id AND d.event_id IS NOT NULL AND (
            EXISTS (SELECT 1 FROM {outbox} q WHERE q.event_id = d.event_id)
            OR EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.event_id = d.event_id)))
    ORDER BY n.created_at LIMIT ?2";

const DELIVERIES: &str =
    "DELETE FROM notification_delivery WHERE notification_id IN (SELECT id FROM temp.notification_old)";

const NOTIFICATIONS: &str = "DELETE FROM notification WHERE id IN (SELECT id FROM temp.notification_old)";

/// Fan-outs that are over.
const FANOUTS: &str = "DELETE FROM notification_fanout WHERE event_id IN (
        SELECT event_id FROM notification_fanout WHERE finished_at < ?1 ORDER BY finished_at LIMIT ?2)";

/// What digests were made of that were told.
const ITEMS: &str = "DELETE FROM notification_digest_item WHERE digest_id IN (
        SELECT id FROM notification_digest WHERE sent_at < ?1 ORDER BY sent_at, id LIMIT ?2)";

const DIGESTS: &str = "DELETE FROM notification_digest WHERE id IN (
        SELECT id FROM notification_digest WHERE sent_at < ?1 ORDER BY sent_at, id LIMIT ?2)";

/// Keys of requests.
const REQUESTS: &str = "DELETE FROM notification_request WHERE event_id IN (
        SELECT event_id FROM notification_request WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)";

/// Removes at most so many of each.
pub(super) fn purge(
    tx: &Transaction<'_>,
    lite: &Lite,
    older_than: Duration,
    limit: u32,
) -> Result<Purged, BoardError> {
    let before = schema::now(tx)?.saturating_sub(micros(older_than));
    let gone = remove(tx, lite, (before, i64::from(limit)));
    Ok(gone.map_err(|error| failed(error, "purging notifications"))?)
}

fn remove(tx: &Transaction<'_>, lite: &Lite, (before, limit): (i64, i64)) -> rusqlite::Result<Purged> {
    tx.execute_batch(OLD)?;
    tx.execute(&lite.names.sql(FIND), [before, limit])?;
    tx.execute(DELIVERIES, [])?;
    let notifications = tx.execute(NOTIFICATIONS, [])?;
    let fan_outs = tx.execute(FANOUTS, [before, limit])?;
    tx.execute(ITEMS, [before, limit])?;
    let digests = tx.execute(DIGESTS, [before, limit])?;
    let requests = tx.execute(REQUESTS, [before, limit])?;
    Ok(Purged {
        notifications: notifications as u64,
        fan_outs: fan_outs as u64,
        digests: digests as u64,
        requests: requests as u64,
    })
}
