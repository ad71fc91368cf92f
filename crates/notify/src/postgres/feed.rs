//! What a person sees, and what they do with it.

use postrider_core::{BoxFuture, StoreError, Timestamp};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Transaction};

use super::{Pg, PgBoard, deliveries, failed};
use crate::board::shown::{self, ENTRY, IN_APP, LATEST, RECENT, WHOLE};
use crate::{Entry, Feed, Mark, Notification, Which};

type Value<'a> = (&'a (dyn ToSql + Sync), Type);

async fn entries(
    tx: &Transaction<'_>,
    pg: &Pg,
    behind: &str,
    values: &[Value<'_>],
) -> Result<Vec<Entry>, StoreError> {
    let said = |error| failed(error, "reading a feed");
    let sql = format!("SELECT {ENTRY} FROM {{notification}} n WHERE n.user_id = $1 AND {IN_APP} {behind}");
    let sql = pg.names.sql(&sql);
    let rows = tx.query_typed(&sql, values).await.map_err(said)?;
    rows.iter().map(|row| entry(row).map_err(said)).collect()
}

fn entry(row: &Row) -> Result<Entry, tokio_postgres::Error> {
    let time = |at| Ok(row.try_get::<_, Option<i64>>(at)?.map(Timestamp));
    Ok(Entry {
        id: row.try_get(0)?,
        event_id: row.try_get(1)?,
        event_type: row.try_get(2)?,
        category: row.try_get(3)?,
        title: row.try_get(4)?,
        body: row.try_get(5)?,
        created_at: Timestamp(row.try_get(6)?),
        seen_at: time(7)?,
        read_at: time(8)?,
        archived_at: time(9)?,
    })
}

/// Notifications with their deliveries.
pub(super) async fn notifications(
    tx: &Transaction<'_>,
    pg: &Pg,
    behind: &str,
    values: &[Value<'_>],
) -> Result<Vec<Notification>, StoreError> {
    let said = |error| failed(error, "reading notifications");
    let sql = format!("SELECT {ENTRY}, {WHOLE} FROM {{notification}} n {behind}");
    let rows = tx.query_typed(&pg.names.sql(&sql), values).await.map_err(said)?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        found.push(notification(row).map_err(said)?);
    }
    deliveries::attach(tx, pg, &mut found).await?;
    Ok(found)
}

fn notification(row: &Row) -> Result<Notification, tokio_postgres::Error> {
    Ok(Notification {
        entry: entry(row)?,
        user_id: row.try_get(10)?,
        audience: row.try_get(11)?,
        resource_id: row.try_get(12)?,
        metadata: shown::metadata(row.try_get(13)?),
        deliveries: Vec::new(),
    })
}

/// Marks in the transaction; what a mark implies is marked with it, at the same time.
async fn mark(
    tx: &Transaction<'_>,
    pg: &Pg,
    (user, which, mark): (&str, Which, Mark),
) -> Result<u64, StoreError> {
    let (compared, id) = shown::compared(which);
    let (set, open) = shown::marking(mark);
    // In one order, so that two calls of one person do not wait for each other.
    let sql = pg.names.sql(&format!(
        "UPDATE {{notification}} SET {set} WHERE id IN (
             SELECT n.id FROM {{notification}} n
             WHERE n.user_id = $1 AND n.id {compared} $2 AND n.{open} AND {IN_APP} ORDER BY n.id FOR UPDATE)"
    ));
    let values = [(&user as _, Type::TEXT), (&id as _, Type::INT8)];
    let done = tx.execute_typed(&sql, &values).await;
    done.map_err(|error| failed(error, "marking notifications"))
}

impl Feed for PgBoard {
    fn list<'a>(
        &'a self,
        user: &'a str,
        before: Option<i64>,
        limit: usize,
        archived: bool,
    ) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>> {
        Box::pin(async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let given = (&self.pg, user, before.unwrap_or(i64::MAX), limit, archived);
            self.transaction(&given, |tx, (pg, user, before, limit, archived)| {
                let behind = match archived {
                    true => "AND n.id < $2 ORDER BY n.id DESC LIMIT $3",
                    false => "AND n.id < $2 AND n.archived_at IS NULL ORDER BY n.id DESC LIMIT $3",
                };
                Box::pin(async move {
                    let values: [Value<'_>; 3] =
                        [(user, Type::TEXT), (before, Type::INT8), (limit, Type::INT8)];
                    entries(tx, pg, behind, &values).await
                })
            })
            .await
        })
    }

    fn recent<'a>(&'a self, user: &'a str, within_ms: u64) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>> {
        Box::pin(async move {
            let within = i64::try_from(within_ms).unwrap_or(i64::MAX);
            // Ten years: an interval of PostgreSQL has an end.
            let given = (&self.pg, user, within.min(315_360_000_000) as f64 / 1_000.0);
            let newest_first = self.transaction(&given, |tx, (pg, user, seconds)| {
                Box::pin(async move {
                    let behind = "AND n.archived_at IS NULL
                        AND n.created_at > clock_timestamp() - make_interval(secs => $2)
                        AND n.id IN (SELECT id FROM {notification} WHERE user_id = $1 ORDER BY id DESC LIMIT $3)
                        ORDER BY n.id DESC LIMIT $4";
                    let values: [Value<'_>; 4] = [
                        (user, Type::TEXT),
                        (seconds, Type::FLOAT8),
                        (&LATEST, Type::INT8),
                        (&RECENT, Type::INT8),
                    ];
                    entries(tx, pg, behind, &values).await
                })
            });
            let mut found = newest_first.await?;
            found.reverse();
            Ok(found)
        })
    }

    fn unread<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, user);
            self.transaction(&given, |tx, (pg, user)| {
                Box::pin(async move {
                    let said = |error| failed(error, "counting what is unread");
                    let sql = pg.names.sql(&format!(
                        "SELECT count(*) FROM {{notification}} n
                         WHERE n.user_id = $1 AND n.read_at IS NULL AND n.archived_at IS NULL AND {IN_APP}"
                    ));
                    let rows = tx
                        .query_typed(&sql, &[(user as _, Type::TEXT)])
                        .await
                        .map_err(said)?;
                    let count = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
                    Ok(count.map_err(said)?.unwrap_or(0).unsigned_abs())
                })
            })
            .await
        })
    }

    fn mark<'a>(&'a self, user: &'a str, which: Which, with: Mark) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, user, which, with);
            self.transaction(&given, |tx, (pg, user, which, with)| {
                Box::pin(mark(tx, pg, (user, *which, *with)))
            })
            .await
        })
    }

    fn notification(&self, id: i64) -> BoxFuture<'_, Result<Option<Notification>, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, id);
            let found = self.transaction(&given, |tx, (pg, id)| {
                Box::pin(async move { notifications(tx, pg, "WHERE n.id = $1", &[(id, Type::INT8)]).await })
            });
            Ok(found.await?.pop())
        })
    }

    fn of_event<'a>(
        &'a self,
        event_id: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Notification>, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, event_id, i64::try_from(limit).unwrap_or(i64::MAX));
            self.transaction(&given, |tx, (pg, event_id, limit)| {
                Box::pin(async move {
                    let behind = "WHERE n.event_id = $1 ORDER BY n.id LIMIT $2";
                    let values: [Value<'_>; 2] = [(event_id, Type::TEXT), (limit, Type::INT8)];
                    notifications(tx, pg, behind, &values).await
                })
            })
            .await
        })
    }

    fn of_resource<'a>(
        &'a self,
        user: &'a str,
        category: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<Notification>, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, user, category, resource);
            let found = self.transaction(&given, |tx, (pg, user, category, resource)| {
                Box::pin(async move {
                    let behind = "WHERE n.user_id = $1 AND n.category = $2 AND n.resource_id = $3
                        ORDER BY n.period DESC, n.id DESC LIMIT 1";
                    let values: [Value<'_>; 3] =
                        [(user, Type::TEXT), (category, Type::TEXT), (resource, Type::TEXT)];
                    notifications(tx, pg, behind, &values).await
                })
            });
            Ok(found.await?.pop())
        })
    }
}
