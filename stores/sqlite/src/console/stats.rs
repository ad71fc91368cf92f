//! The state in numbers, and failures that look alike. Nothing here touches the history.

use std::time::Duration;

use postrider_core::{DestinationName, Group, LiveRelay, RelayId, Shard, Stats, Timestamp};

use super::{View, status};
use crate::clock;
use crate::error::Result;

/// The state in numbers.
pub(super) fn stats(view: &View<'_>) -> Result<Stats> {
    let sql = view.sql(
        "SELECT (SELECT count(*) FROM {outbox}), published, duplicates, discarded,
                (SELECT enqueued_at FROM {outbox} ORDER BY seq LIMIT 1), (SELECT count(*) FROM {outbox_shard})
         FROM {outbox_meta}",
    );
    let (mut stats, mut oldest) = view.tx.query_row(&sql, [], |row| {
        let stats = Stats {
            queued: count(row.get(0)?),
            published: count(row.get(1)?),
            duplicates: count(row.get(2)?),
            discarded: count(row.get(3)?),
            shards: row.get(5)?,
            ..Stats::default()
        };
        Ok((stats, row.get::<_, Option<i64>>(4)?))
    })?;
    let sql =
        view.sql("SELECT status, count(*), min(enqueued_at) FROM {outbox_parked_status} GROUP BY status");
    let mut statement = view.tx.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let status = status(&row.get::<_, String>(0)?);
        let rows = count(row.get(1)?);
        match status.as_str() {
            "DEAD_LETTER" => {
                stats.dead = rows;
                continue;
            }
            word => stats.parked.insert(word, rows),
        };
        if status != postrider_core::Status::Scheduled {
            oldest = [oldest, row.get(2)?].into_iter().flatten().min();
        }
    }
    stats.relays = relays(view)?;
    stats.oldest = oldest.map(|at| -> Duration { clock::until(at, view.standing.now) });
    Ok(stats)
}

/// Who is alive, with what he owns.
fn relays(view: &View<'_>) -> Result<Vec<LiveRelay>> {
    let sql = view.sql(
        "SELECT r.relay, r.expires_at, s.shard FROM {outbox_relay} r LEFT JOIN {outbox_shard} s ON s.owner = r.relay
         WHERE r.expires_at > ?1 ORDER BY r.relay, s.shard",
    );
    let now = view.standing.now;
    let mut relays: Vec<LiveRelay> = Vec::new();
    let mut statement = view.tx.prepare(&sql)?;
    let mut rows = statement.query([now])?;
    while let Some(row) = rows.next()? {
        let relay = RelayId(row.get::<_, String>(0)?.into());
        if relays.last().is_none_or(|last| last.relay != relay) {
            relays.push(LiveRelay {
                relay,
                expires_in: clock::until(now, row.get(1)?),
                shards: Vec::new(),
            });
        }
        if let (Some(shard), Some(last)) = (row.get::<_, Option<u16>>(2)?, relays.last_mut()) {
            last.shards.push(Shard(shard));
        }
    }
    Ok(relays)
}

/// Failures by destination and kind, the most frequent first.
pub(super) fn groups(view: &View<'_>) -> Result<Vec<Group>> {
    let sql = view.sql(
        "SELECT destination, error_kind, max(error_text), count(*),
                min(coalesce(first_failed_at, updated_at)), max(coalesce(last_failed_at, updated_at))
         FROM {outbox_parked} WHERE error_kind IS NOT NULL
         GROUP BY destination, error_kind ORDER BY count(*) DESC, destination, error_kind",
    );
    let mut statement = view.tx.prepare(&sql)?;
    let groups = statement.query_map([], |row| {
        let destination: String = row.get(0)?;
        Ok(Group {
            destination: (!destination.is_empty()).then(|| DestinationName::from(destination)),
            error_kind: row.get(1)?,
            fingerprint: String::new(),
            example: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
            count: count(row.get(3)?),
            dead: 0,
            seen: (Timestamp(row.get(4)?), Timestamp(row.get(5)?)),
        })
    })?;
    Ok(groups.collect::<rusqlite::Result<_>>()?)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
