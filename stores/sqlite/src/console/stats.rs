//! The state in numbers. Nothing here touches the history.

use std::time::Duration;

use postrider_core::{LiveRelay, RelayId, Shard, Stats, Timestamp};

use super::tally::Parked;
use super::{View, count};
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
    let parked = Parked::count(view)?;
    stats.dead = parked.dead;
    oldest = [oldest, parked.oldest(view)?].into_iter().flatten().min();
    stats.parked = parked.words;
    stats.relays = relays(view)?;
    stats.oldest_at = oldest.map(Timestamp);
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
