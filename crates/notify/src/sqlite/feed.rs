//! What a person sees, and what they do with it.

use postrider_core::{BoxFuture, StoreError, Timestamp};
use rusqlite::{Params, Row, Transaction, params};

use super::{Lite, SqliteBoard, deliveries, failed, schema};
use crate::{Entry, Feed, Mark, Notification, Which};

/// What is read of a notification, as it is in a feed.
const ENTRY: &str =
    "n.id, n.event_id, n.event_type, n.category, n.title, n.body, n.created_at, n.seen_at, n.read_at,
    n.archived_at";

/// What is read of it besides, as somebody sees it who asks for all.
const WHOLE: &str = "n.user_id, n.audience, n.resource_id, n.metadata";

/// Who wants it by mail only has a notification, and nothing in the feed.
const IN_APP: &str = "EXISTS (
    SELECT 1 FROM notification_delivery d WHERE d.notification_id = n.id AND d.channel = 'in_app')";

/// How many entries a live feed is shown at once.
const RECENT: usize = 100;

/// How many of the latest of a person are looked at for those: whoever has thousands must not have all of them read
/// every second.
const LATEST: usize = 1_000;

fn entries(tx: &Transaction<'_>, behind: &str, values: impl Params) -> Result<Vec<Entry>, StoreError> {
    let sql = format!("SELECT {ENTRY} FROM notification n WHERE n.user_id = ?1 AND {IN_APP} {behind}");
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
    let metadata: String = row.get(13)?;
    Ok(Notification {
        entry: entry(row)?,
        user_id: row.get(10)?,
        audience: row.get(11)?,
        resource_id: row.get(12)?,
        // A text that another tool has written and that is no JSON is shown as it is.
        metadata: serde_json::from_str(&metadata).unwrap_or(metadata.into()),
        deliveries: Vec::new(),
    })
}

/// Marks in the transaction; what a mark implies is marked with it, at the same time.
fn mark(tx: &Transaction<'_>, (user, which, mark): (&str, Which, Mark)) -> Result<u64, StoreError> {
    let (compared, id) = match which {
        Which::One(id) => ("=", id),
        Which::UpTo(id) => ("<=", id),
    };
    let (set, open) = match mark {
        Mark::Seen => ("seen_at = ?3", "seen_at IS NULL"),
        Mark::Read => ("seen_at = coalesce(seen_at, ?3), read_at = ?3", "read_at IS NULL"),
        Mark::Archived => (
            "seen_at = coalesce(seen_at, ?3), read_at = coalesce(read_at, ?3), archived_at = ?3",
            "archived_at IS NULL",
        ),
    };
    let sql = format!(
        "UPDATE notification AS n SET {set} WHERE n.user_id = ?1 AND n.id {compared} ?2 AND n.{open} AND {IN_APP}"
    );
    let now = schema::now(tx)?;
    let done = tx
        .prepare_cached(&sql)
        .and_then(|mut marks| marks.execute(params![user, id, now]));
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
        Box::pin(self.read(move |tx, _| {
            let behind = "AND n.id < ?2 AND (?4 OR n.archived_at IS NULL) ORDER BY n.id DESC LIMIT ?3";
            entries(tx, behind, params![user, before, limit, archived])
        }))
    }

    fn recent<'a>(&'a self, user: &'a str, within_ms: u64) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>> {
        let user = user.to_owned();
        let within = i64::try_from(within_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Box::pin(self.read(move |tx, _| {
            let since = schema::now(tx)?.saturating_sub(within);
            let behind = "ORDER BY n.id DESC LIMIT ?2";
            let mut latest = entries(tx, behind, params![user, LATEST as i64])?;
            latest.retain(|entry| entry.created_at.0 >= since);
            latest.truncate(RECENT);
            latest.reverse();
            Ok(latest)
        }))
    }

    fn unread<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<u64, StoreError>> {
        let user = user.to_owned();
        Box::pin(self.read(move |tx, _| {
            let sql = format!(
                "SELECT count(*) FROM notification n
                 WHERE n.user_id = ?1 AND n.read_at IS NULL AND n.archived_at IS NULL AND {IN_APP}"
            );
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
        Box::pin(self.transaction(move |tx, _| mark(tx, (&user, which, by))))
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
