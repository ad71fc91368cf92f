//! Whole days of the history: dropped at once, which costs nothing however much they hold.

use postrider_core::{Purge, Purged};

use super::hold::{self, Hold};
use crate::clock;
use crate::console::View;
use crate::error::Result;

/// A day in seconds.
const DAY: f64 = 86_400.0;

/// What was dropped.
pub(crate) struct Dropped {
    pub(crate) days: u64,
    pub(crate) purged: Purged,
}

/// The days that are past their term, the oldest first: how old the beginning of each is in seconds, and about how many
/// rows it holds.
const DUE: &str =
    "SELECT extract(epoch FROM clock_timestamp() - d.day::timestamp AT TIME ZONE 'UTC')::double precision,
         greatest(pg_stat_get_live_tuples(d.oid), 0)
     FROM (SELECT c.oid, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = '{outbox_sent}'::regclass AND c.relname ~ '_[0-9]{8}$') d
     WHERE d.day + 1 < ((clock_timestamp() - make_interval(secs => $1)) AT TIME ZONE 'UTC')::date
     ORDER BY d.day";

/// Drops the days that are past their term, up to the first that a replay has still to read.
pub(crate) async fn drop_old(view: &View, purge: &Purge) -> Result<Dropped> {
    let mut keep = clock::seconds(purge.older_than);
    let hold = hold::find(view).await?;
    let mut held = None;
    let (mut days, mut rows) = (0, 0);
    for row in view.client().query(&view.sql(DUE), &[&keep]).await? {
        let age: f64 = row.try_get(0)?;
        if let Some(hold) = &hold
            && holds(view, hold, purge, age).await?
        {
            // Up to this day, and not the day itself.
            keep = age - DAY;
            held = Some(hold.to_string());
            break;
        }
        days += 1;
        rows += u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or(0);
    }
    let mut purged = Purged {
        held,
        ..Purged::default()
    };
    let mut dropped = 0;
    if days > 0 {
        let sql = view.sql("SELECT {outbox_maintain}(make_interval(secs => $1))");
        let answer: i32 = view.client().query_one(&sql, &[&keep]).await?.try_get(0)?;
        dropped = u64::try_from(answer).unwrap_or(0);
        purged.rows = if dropped > 0 { rows } else { 0 };
        purged.more = dropped < days;
    }
    purged.exact = dropped == 0;
    if purged.more {
        purged.held =
            Some("somebody reads the history, and a day can only be dropped when nobody does".to_owned());
    }
    Ok(Dropped {
        days: dropped,
        purged,
    })
}

/// Whether a replay has still to read of a day that begins this many seconds ago.
async fn holds(view: &View, hold: &Hold, purge: &Purge, age: f64) -> Result<bool> {
    if age - DAY > clock::seconds(purge.longest()) {
        return Ok(false);
    }
    let sql = view.sql(
        "SELECT EXISTS (SELECT 1 FROM {outbox_sent} s WHERE s.seq > $1
             AND s.published_at >= now() - make_interval(secs => $2::double precision + 1)
             AND s.published_at < now() - make_interval(secs => $2::double precision - 86400))",
    );
    let row = view.client().query_one(&sql, &[&hold.passed, &age]).await?;
    Ok(row.try_get(0)?)
}
