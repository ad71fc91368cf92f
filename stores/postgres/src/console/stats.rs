//! The state in numbers, and failures that look alike. Nothing here touches the history.

use postrider_core::{Group, Stats, Status};

use super::{View, status};
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
                (SELECT o.enqueued_at FROM {outbox} o ORDER BY o.seq LIMIT 1)",
    );
    let row = view.client().query_one(&sql, &[]).await?;
    let mut stats = Stats {
        queued: count(row.try_get(0)?),
        published: count(row.try_get(1)?),
        duplicates: count(row.try_get(2)?),
        discarded: count(row.try_get(3)?),
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
                example: row.try_get::<_, Option<String>>(2)?.unwrap_or_default(),
                count: count(row.try_get(3)?),
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
