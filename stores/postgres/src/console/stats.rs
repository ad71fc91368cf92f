//! The state in numbers, and failures that look alike. Nothing here touches the history.

use postrider_core::{Group, LiveRelay, RelayId, Shard, Stats, Status};
use tokio_postgres::Row;

use super::{View, status, writers};
use crate::clock::{self, Micros};
use crate::error::Result;
use crate::row::destination;

/// The state in numbers.
pub(super) async fn stats(view: &View) -> Result<Stats> {
    let sql = view.sql(
        "SELECT (SELECT count(*) FROM {outbox}),
                (SELECT coalesce(sum(published), 0)::bigint FROM {outbox_counter}),
                (SELECT coalesce(sum(duplicates), 0)::bigint FROM {outbox_counter}),
                (SELECT coalesce(sum(discarded), 0)::bigint FROM {outbox_counter}),
                (SELECT o.enqueued_at FROM {outbox} o ORDER BY o.seq LIMIT 1),
                (SELECT count(*) FROM {outbox_shard})",
    );
    let row = view.client().query_one(&sql, &[]).await?;
    let mut stats = Stats {
        queued: count(row.try_get(0)?),
        published: count(row.try_get(1)?),
        duplicates: count(row.try_get(2)?),
        discarded: count(row.try_get(3)?),
        shards: u16::try_from(row.try_get::<_, i64>(5)?).unwrap_or(u16::MAX),
        relays: relays(view).await?,
        writer_open_for: writers::open_for(view).await?,
        ..Stats::default()
    };
    let mut oldest: Option<Micros> = row.try_get(4)?;
    let sql =
        view.sql("SELECT status, count(*), min(enqueued_at) FROM {outbox_parked_status} GROUP BY status");
    for row in view.client().query(&sql, &[]).await? {
        let status = status(row.try_get(0)?);
        let rows = count(row.try_get(1)?);
        if status == Status::DeadLetter {
            stats.dead = rows;
            continue;
        }
        stats.parked.insert(status.as_str(), rows);
        if status != Status::Scheduled {
            let first: Option<Micros> = row.try_get(2)?;
            oldest = [oldest, first].into_iter().flatten().min();
        }
    }
    stats.oldest = oldest.map(|at| clock::until(at.0, view.now));
    Ok(stats)
}

/// Who is alive, with what he owns.
async fn relays(view: &View) -> Result<Vec<LiveRelay>> {
    let sql = view.sql(
        "SELECT r.relay, r.expires_at, array(SELECT s.shard FROM {outbox_shard} s WHERE s.owner = r.relay
         ORDER BY s.shard)
         FROM {outbox_relay} r WHERE r.expires_at > $1 ORDER BY r.relay",
    );
    let rows = view.client().query(&sql, &[&Micros(view.now)]).await?;
    let relay = |row: &Row| {
        let shards: Vec<i16> = row.try_get(2)?;
        Ok(LiveRelay {
            relay: RelayId(row.try_get::<_, &str>(0)?.into()),
            expires_in: clock::until(view.now, row.try_get::<_, Micros>(1)?.0),
            shards: shards
                .into_iter()
                .filter_map(|shard| u16::try_from(shard).ok().map(Shard))
                .collect(),
        })
    };
    rows.iter().map(relay).collect()
}

/// Failures by destination and kind, the most frequent first.
pub(super) async fn groups(view: &View) -> Result<Vec<Group>> {
    let sql = view.sql(
        "SELECT destination, error_kind, max(error_text), count(*),
                min(coalesce(first_failed_at, updated_at)), max(coalesce(last_failed_at, updated_at))
         FROM {outbox_parked} WHERE error_kind IS NOT NULL
         GROUP BY destination, error_kind ORDER BY count(*) DESC, destination, error_kind",
    );
    let rows = view.client().query(&sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Group {
                destination: destination(row.try_get(0)?),
                error_kind: row.try_get(1)?,
                fingerprint: String::new(),
                example: row.try_get::<_, Option<String>>(2)?.unwrap_or_default(),
                count: count(row.try_get(3)?),
                dead: 0,
                seen: (
                    row.try_get::<_, Micros>(4)?.into(),
                    row.try_get::<_, Micros>(5)?.into(),
                ),
            })
        })
        .collect()
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
