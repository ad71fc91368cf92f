//! The state in numbers, and failures that look alike. Nothing here touches the history.

use postrider_core::{Group, LiveRelay, RelayId, Shard, Stats, Status, Timestamp};
use tokio_postgres::Row;

use super::{View, writers};
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
    let oldest: Option<Micros> = row.try_get(4)?;
    let parked = parked(view, &mut stats).await?;
    let oldest = [oldest, parked].into_iter().flatten().min();
    stats.oldest = oldest.map(|at| clock::until(at.0, view.now));
    stats.oldest_at = oldest.map(Timestamp::from);
    Ok(stats)
}

/// Rows by what an index alone tells of them: how many are dead, were refused, stand in lines, and stand alone and have
/// not failed, before and after their time.
pub(crate) const COUNTED: &str = "SELECT
     (SELECT count(*) FROM {outbox_parked} WHERE dead AND seq > 0),
     (SELECT count(*) FROM {outbox_parked} WHERE error_kind IS NOT NULL AND seq > 0 AND NOT dead),
     (SELECT count(*) FROM {outbox_parked} WHERE NOT dead AND {in_line}),
     t.later, t.due, t.failed, t.first FROM (
         SELECT count(*) FILTER (WHERE error_kind IS NULL AND next_attempt_at > clock_timestamp()) AS later,
                count(*) FILTER (WHERE error_kind IS NULL AND next_attempt_at <= clock_timestamp()) AS due,
                count(*) FILTER (WHERE error_kind IS NOT NULL) AS failed,
                (SELECT min(p.enqueued_at) FROM {outbox_parked} p WHERE NOT p.dead AND {alone p}
                   AND (p.next_attempt_at <= clock_timestamp() OR p.error_kind IS NOT NULL)) AS first
         FROM {outbox_parked} WHERE NOT dead AND {alone}) t";

/// The first row of each line: only those can be held or scheduled, unless their key is paused. All others wait.
pub(crate) const HEADS: &str = "WITH heads AS MATERIALIZED (
         SELECT DISTINCT ON (p.shard, p.destination, p.line, p.lane) p.destination, p.line, p.lane, p.seq
         FROM {outbox_parked} p WHERE NOT p.dead AND {in_line p}
         ORDER BY p.shard, p.destination, p.line, p.lane, p.seq),
     paused AS MATERIALIZED (
         SELECT p.seq FROM {outbox_parked} m JOIN {outbox_parked} p ON p.line = m.line AND p.lane = m.lane
         WHERE m.seq < 0 AND p.seq > 0 AND NOT p.dead AND p.error_kind IS NULL)
     SELECT count(*) FILTER (WHERE h.free AND h.later), count(*) FILTER (WHERE h.free AND NOT h.later),
         (SELECT count(*) FROM paused), min(h.enqueued_at) FILTER (WHERE NOT (h.free AND h.later))
     FROM (
         SELECT r.enqueued_at, r.next_attempt_at > clock_timestamp() AS later, r.error_kind IS NULL AND (
             SELECT true FROM {outbox_parked} b
             WHERE b.line = h.line AND b.lane = h.lane AND b.destination = h.destination AND b.dead
               AND b.seq + 0 < h.seq
             LIMIT 1) IS NULL AND (
             SELECT true FROM {outbox_parked} b
             WHERE b.line = h.line AND b.lane = h.lane AND b.destination = '' AND b.seq + 0 < h.seq
             LIMIT 1) IS NULL AS free
         FROM heads h CROSS JOIN LATERAL (
             SELECT p.enqueued_at, p.next_attempt_at, p.error_kind FROM {outbox_parked} p
             WHERE p.seq = h.seq AND p.destination = h.destination LIMIT 1) r
     ) h";

/// Counts parked rows by their words; answers when the oldest of those was written that should have been published.
async fn parked(view: &View, stats: &mut Stats) -> Result<Option<Micros>> {
    let row = view.client().query_one(&view.sql(COUNTED), &[]).await?;
    let number = |index| -> Result<u64> { Ok(count(row.try_get(index)?)) };
    let (retrying, in_line, later, due, failed_alone) =
        (number(1)?, number(2)?, number(3)?, number(4)?, number(5)?);
    let first: Option<Micros> = row.try_get(6)?;
    stats.dead = number(0)?;
    let row = view.client().query_one(&view.sql(HEADS), &[]).await?;
    let number = |index| -> Result<u64> { Ok(count(row.try_get(index)?)) };
    let (scheduled, held, paused) = (number(0)?, number(1)?, number(2)?);
    let calm = in_line.saturating_sub(retrying.saturating_sub(failed_alone));
    for (status, rows) in [
        (Status::Retrying, retrying),
        (Status::Scheduled, scheduled + later),
        (Status::Held, held + paused + due),
        (Status::Waiting, calm.saturating_sub(scheduled + held + paused)),
    ] {
        if rows > 0 {
            stats.parked.insert(status.as_str(), rows);
        }
    }
    Ok([first, row.try_get(3)?].into_iter().flatten().min())
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

/// By an index alone; only the text of the first of each group is looked up.
pub(crate) const GROUPS: &str =
    "SELECT g.destination, g.error_kind, coalesce(g.error_group, ''), e.error_text, g.rows,
         g.dead, coalesce(g.first, e.updated_at), coalesce(g.last, e.updated_at)
     FROM (
         SELECT destination, error_kind, error_group, count(*) AS rows, count(*) FILTER (WHERE dead) AS dead,
             min(first_failed_at) AS first, max(last_failed_at) AS last, min(seq) AS seq
         FROM {outbox_parked} WHERE error_kind IS NOT NULL AND seq > 0
         GROUP BY destination, error_kind, error_group
     ) g CROSS JOIN LATERAL (
         SELECT p.error_text, p.updated_at FROM {outbox_parked} p
         WHERE p.seq = g.seq AND p.destination = g.destination LIMIT 1
     ) e ORDER BY g.rows DESC, g.destination, g.error_kind, g.error_group";

/// Failures by destination, kind and fingerprint, the most frequent first.
pub(super) async fn groups(view: &View) -> Result<Vec<Group>> {
    let rows = view.client().query(&view.sql(GROUPS), &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Group {
                destination: destination(row.try_get(0)?),
                error_kind: row.try_get(1)?,
                name: row.try_get(2)?,
                example: row.try_get::<_, Option<String>>(3)?.unwrap_or_default(),
                count: count(row.try_get(4)?),
                dead: count(row.try_get(5)?),
                seen: (
                    row.try_get::<_, Micros>(6)?.into(),
                    row.try_get::<_, Micros>(7)?.into(),
                ),
            })
        })
        .collect()
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
