//! What is old goes, in pieces that others hardly notice.

use std::time::Duration;

use postrider_core::StoreError;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::{Pg, failed};
use crate::{BoardError, Purged};

/// The oldest first, found by their time. What still has an event in the outbox is to be delivered or looked after, and
/// stays; whoever is being marked or purged by another right now is passed over.
const NOTIFICATIONS: &str = "WITH old AS (
        SELECT n.id FROM {notification} n
        WHERE n.created_at < clock_timestamp() - make_interval(secs => $1) AND NOT EXISTS (
            SELECT 1 FROM {notification_delivery} d WHERE d.notification_id = n.id AND d.event_id IS NOT NULL AND (
                EXISTS (SELECT 1 FROM {outbox} q WHERE q.event_id = d.event_id)
                OR EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.event_id = d.event_id)))
        ORDER BY n.created_at LIMIT $2 FOR UPDATE OF n SKIP LOCKED
    ), deliveries AS (
        DELETE FROM {notification_delivery} WHERE notification_id IN (SELECT id FROM old)
    )
    DELETE FROM {notification} WHERE id IN (SELECT id FROM old)";

/// Fan-outs that are over.
const FANOUTS: &str = "DELETE FROM {notification_fanout} WHERE event_id IN (
        SELECT event_id FROM {notification_fanout}
        WHERE finished_at < clock_timestamp() - make_interval(secs => $1)
        ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// Digests that were told, with what they were made of.
const DIGESTS: &str = "WITH old AS (
        SELECT id FROM {notification_digest} WHERE sent_at < clock_timestamp() - make_interval(secs => $1)
        ORDER BY sent_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), items AS (
        DELETE FROM {notification_digest_item} WHERE digest_id IN (SELECT id FROM old)
    )
    DELETE FROM {notification_digest} WHERE id IN (SELECT id FROM old)";

/// Keys of requests.
const REQUESTS: &str = "DELETE FROM {notification_request} WHERE event_id IN (
        SELECT event_id FROM {notification_request}
        WHERE created_at < clock_timestamp() - make_interval(secs => $1)
        ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// Removes at most so many of each.
pub(super) async fn purge(
    tx: &Transaction<'_>,
    pg: &Pg,
    older_than: Duration,
    limit: u32,
) -> Result<Purged, BoardError> {
    // A thousand years: an interval of PostgreSQL has an end.
    let seconds = older_than.as_secs_f64().min(31_622_400_000.0);
    let old = (seconds, i64::from(limit));
    Ok(Purged {
        notifications: remove(tx, pg, NOTIFICATIONS, old).await?,
        fan_outs: remove(tx, pg, FANOUTS, old).await?,
        digests: remove(tx, pg, DIGESTS, old).await?,
        requests: remove(tx, pg, REQUESTS, old).await?,
    })
}

async fn remove(
    tx: &Transaction<'_>,
    pg: &Pg,
    template: &str,
    (seconds, limit): (f64, i64),
) -> Result<u64, StoreError> {
    let values = [(&seconds as _, Type::FLOAT8), (&limit as _, Type::INT8)];
    let gone = tx.execute_typed(&pg.names.sql(template), &values).await;
    gone.map_err(|error| failed(error, "purging notifications"))
}
