//! What a person sees, and what they do with it.

use postrider_core::{BoxFuture, StoreError, Timestamp};
use rusqlite::{Params, Row, Transaction, params};

use super::{Lite, SqliteBoard, deliveries, failed, schema};
use crate::board::shown::{self, ENTRY, IN_APP, LATEST, RECENT, WHOLE};
use crate::{Entry, Feed, Mark, Notification, Which};

fn entries(
    tx: &Transaction<'_>,
    lite: &Lite,
    behind: &str,
    values: impl Params,
) -> Result<Vec<Entry>, StoreError> {
    let sql = format!("SELECT {ENTRY} FROM notification n WHERE n.user_id = ?1 AND {IN_APP} {behind}");
    let sql = lite.names.sql(&sql);
    let read = || {
        let mut statement = tx.prepare_cached(&sql)?;
        statement
            .query_map(values, entry)?
            .collect::<rusqlite::Result<_>>()
    };
    read().map_err(|error| failed(error, "reading a feed"))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let time = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Timestamp));
    Ok(Entry {
        id: row.get(0)?,
        event_id: row.get(1)?,
        event_type: row.get(2)?,
        category: row.get(3)?,
        title: row.get(4)?,
        body: row.get(5)?,
        created_at: Timestamp(row.get(6)?),
        seen_at: time(7)?,
        read_at: time(8)?,
        archived_at: time(9)?,
    })
}

/// Notifications with their deliveries.
pub(super) fn notifications(
    tx: &Transaction<'_>,
    lite: &Lite,
    behind: &str,
    values: impl Params,
) -> Result<Vec<Notification>, StoreError> {
    let sql = format!("SELECT {ENTRY}, {WHOLE} FROM notification n {behind}");
    let sql = lite.names.sql(&sql);
    let read = || {
        let mut statement = tx.prepare_cached(&sql)?;
        let found = statement.query_map(values, notification)?;
        found.collect::<rusqlite::Result<Vec<Notification>>>()
    };
    let mut found = read().map_err(|error| failed(error, "reading notifications"))?;
    deliveries::attach(tx, lite, &mut found)?;
    Ok(found)
}

fn notification(row: &Row<'_>) -> rusqlite::Result<Notification> {
    Ok(Notification {
        entry: entry(row)?,
        user_id: row.get(10)?,
        audience: row.get(11)?,
        resource_id: row.get(12)?,
        metadata: shown::metadata(row.get_ref(13)?.as_str()?),
        deliveries: Vec::new(),
    })
}

/// Marks in the transaction; what a mark implies is marked with it, at the same time.
fn mark(
    tx: &Transaction<'_>,
    lite: &Lite,
    (user, which, mark): (&str, Which, Mark),
) -> Result<u64, StoreError> {
    let (compared, id) = shown::compared(which);
    let (set, open) = shown::marking(mark);
    let sql = lite.names.sql(&format!(
        "UPDATE notification AS n SET {set} WHERE n.user_id = ?1 AND n.id {compared} ?2 AND n.{open} AND {IN_APP}"
    ));
    let done = tx
        .prepare_cached(&sql)
        .and_then(|mut marks| marks.execute(params![user, id]));
    Ok(done.map_err(|error| failed(error, "marking notifications"))? as u64)
}

impl Feed for SqliteBoard {
    fn list<'a>(
        &'a self,
        user: &'a str,
        before: Option<i64>,
        limit: usize,
        archived: bool,
    ) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>> {
        let (user, before) = (user.to_owned(), before.unwrap_or(i64::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Box::pin(self.read(move |tx, lite| {
            let behind = "AND n.id < ?2 AND (?4 OR n.archived_at IS NULL) ORDER BY n.id DESC LIMIT ?3";
            entries(tx, lite, behind, params![user, before, limit, archived])
        }))
    }

    fn recent<'a>(&'a self, user: &'a str, within_ms: u64) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>> {
        let user = user.to_owned();
        let within = i64::try_from(within_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Box::pin(self.read(move |tx, lite| {
            let since = schema::now(tx)?.saturating_sub(within);
            let behind = "AND n.archived_at IS NULL AND n.created_at > ?2
                AND n.id IN (SELECT id FROM notification WHERE user_id = ?1 ORDER BY id DESC LIMIT ?3)
                ORDER BY n.id DESC LIMIT ?4";
            let mut found = entries(tx, lite, behind, params![user, since, LATEST, RECENT])?;
            found.reverse();
            Ok(found)
        }))
    }

    fn unread<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        let user = user.to_owned();
        Box::pin(self.read(move |tx, lite| {
            let sql = lite.names.sql(&format!(
                "SELECT count(*) FROM notification n
                 WHERE n.user_id = ?1 AND n.read_at IS NULL AND n.archived_at IS NULL AND {IN_APP}"
            ));
            let count = tx
                .prepare_cached(&sql)
                .and_then(|mut unread| unread.query_row([&user], |row| row.get::<_, i64>(0)));
            Ok(count
                .map_err(|error| failed(error, "counting what is unread"))?
                .unsigned_abs())
        }))
    }

    fn mark<'a>(&'a self, user: &'a str, which: Which, by: Mark) -> BoxFuture<'a, Result<u64, StoreError>> {
        let user = user.to_owned();
        Box::pin(self.transaction(move |tx, lite| mark(tx, lite, (&user, which, by))))
    }

    fn notification(&self, id: i64) -> BoxFuture<'_, Result<Option<Notification>, StoreError>> {
        Box::pin(self.read(move |tx, lite| {
            let found = notifications(tx, lite, "WHERE n.id = ?1", [id]);
            Ok(found?.pop())
        }))
    }

    fn of_event<'a>(
        &'a self,
        event_id: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Notification>, StoreError>> {
        let (event_id, limit) = (event_id.to_owned(), i64::try_from(limit).unwrap_or(i64::MAX));
        Box::pin(self.read(move |tx, lite| {
            let behind = "WHERE n.event_id = ?1 ORDER BY n.id LIMIT ?2";
            notifications(tx, lite, behind, params![event_id, limit])
        }))
    }

    fn of_resource<'a>(
        &'a self,
        user: &'a str,
        category: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<Notification>, StoreError>> {
        let asked = [user, category, resource].map(str::to_owned);
        Box::pin(self.read(move |tx, lite| {
            let behind = "WHERE n.user_id = ?1 AND n.category = ?2 AND n.resource_id = ?3
                ORDER BY n.period DESC, n.id DESC LIMIT 1";
            Ok(notifications(tx, lite, behind, asked.each_ref())?.pop())
        }))
    }
}
