//! Whole days of the history: dropped at once, which costs nothing however much they hold.

use std::time::Duration;

use postrider_core::{Purge, Purged, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::hold;
use crate::clock::{self, Micros};
use crate::console::View;
use crate::error::Result;
use crate::store::PgStore;

const DOING: &str = "looking after the history";
const LIMIT: Duration = Duration::from_secs(30);

/// Which days may go.
struct Plan {
    /// What is older than so many seconds.
    keep: f64,
    /// How many days that are.
    days: u64,
    /// About how many rows they hold.
    rows: u64,
    /// The replay that keeps the first of the others.
    held: Option<String>,
}

/// From the oldest of the days that are past their term up to the first of which a replay has still to read. History
/// that has to be archived first ($2) is kept for longer where the archive ends before the term. The clock goes on
/// until the days are dropped, but never by the day that lies between the end of one and its removal.
const PLAN: &str = "WITH hold AS ({hold}),
term AS (
    SELECT greatest($1, extract(epoch FROM clock_timestamp() - $2::timestamptz)::double precision) AS kept
),
due AS (
    SELECT d.oid, d.day, d.day::timestamp AT TIME ZONE 'UTC' AS begins
    FROM (SELECT c.oid, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = '{outbox_sent}'::regclass AND c.relname ~ '_[0-9]{8}$') d
    WHERE d.day + 1
        < ((clock_timestamp() - make_interval(secs => (SELECT t.kept FROM term t))) AT TIME ZONE 'UTC')::date
),
held AS (
    SELECT d.day, d.begins, h.id FROM hold h CROSS JOIN due d
    WHERE EXISTS (SELECT 1 FROM {outbox_sent} s WHERE s.seq > h.passed
                  AND s.published_at >= d.begins AND s.published_at < d.begins + interval '24 hours')
    ORDER BY d.day LIMIT 1
)
SELECT coalesce(extract(epoch FROM clock_timestamp() - (SELECT h.begins FROM held h) - interval '24 hours'),
                (SELECT t.kept FROM term t))::double precision,
       count(*), coalesce(sum(greatest(pg_stat_get_live_tuples(d.oid), 0)), 0)::bigint, (SELECT h.id FROM held h)
FROM due d WHERE d.day < coalesce((SELECT h.day FROM held h), 'infinity')";

/// Which days a removal may take.
async fn plan(view: &View, purge: &Purge) -> Result<Plan> {
    let sql = view.sql(&PLAN.replace("{hold}", &hold::sql()));
    let (term, before) = (clock::seconds(purge.older_than), purge.before.map(Micros::from));
    let row = view.client().query_one(&sql, &[&term, &before]).await?;
    read(&row)
}

/// Whether a removal would find anything, a day that a replay keeps included. One statement by itself, which locks
/// nothing: a relay asks every hour, and mostly there is none.
pub(crate) async fn is_any_due(store: &PgStore, purge: &Purge) -> Result<bool, StoreError> {
    let sql = store.tables().sql(&PLAN.replace("{hold}", &hold::sql()));
    let (term, before) = (clock::seconds(purge.older_than), purge.before.map(Micros::from));
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&term, Type::FLOAT8), (&before, Type::TIMESTAMPTZ)];
    let row = store.ask(DOING, LIMIT, &sql, &parameters).await?;
    let plan = read(&row).map_err(|error| error.while_doing(DOING))?;
    Ok(plan.days > 0 || plan.held.is_some())
}

fn read(row: &Row) -> Result<Plan> {
    let number = |index| -> Result<u64> { Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0)) };
    let job: Option<&str> = row.try_get(3)?;
    Ok(Plan {
        keep: row.try_get(0)?,
        days: number(1)?,
        rows: number(2)?,
        held: job.map(Purged::held_by),
    })
}

const MAINTAIN: &str = "SELECT {outbox_maintain}(pg_catalog.make_interval(secs => $1))";

/// Makes the days to come, and drops those whose last moment is older than so many seconds; answers how many. One
/// statement by itself: it locks the history, and a transaction around it would hold that for a round trip.
pub(crate) async fn maintain(store: &PgStore, keep: f64) -> Result<u64, StoreError> {
    let sql = store.tables().sql(MAINTAIN);
    let row = store.ask(DOING, LIMIT, &sql, &[(&keep, Type::FLOAT8)]).await?;
    dropped(&row).map_err(|error| error.while_doing(DOING))
}

fn dropped(row: &Row) -> Result<u64> {
    Ok(u64::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0))
}

/// The same inside of a transaction, which keeps the history locked until it ends. Where this process is frozen or gone
/// before that, the server ends the transaction soon: until then no relay settles anything.
const MAINTAIN_HERE: &str = "SELECT {outbox_maintain}(pg_catalog.make_interval(secs => $1)),
     pg_catalog.set_config('idle_in_transaction_session_timeout', '2s', true)";

/// Drops the days that are past their term; answers how many, and what to say of it. The choice and the removal are one
/// transaction, in which no replay can begin.
pub(crate) async fn drop_old(view: &View, purge: &Purge) -> Result<(u64, Purged)> {
    hold::no_more(view).await?;
    let Plan {
        keep,
        days,
        rows,
        held,
    } = plan(view, purge).await?;
    let dropped = match days {
        0 => 0,
        _ => dropped(
            &view
                .client()
                .query_one(&view.sql(MAINTAIN_HERE), &[&keep])
                .await?,
        )?,
    };
    let more = dropped < days;
    let left = match more {
        true => plan(view, purge).await?.rows,
        false => 0,
    };
    let in_use = || {
        "somebody reads the history, or another process looks after it, and a day can only be dropped when nobody does"
            .to_owned()
    };
    let purged = Purged {
        rows: rows.saturating_sub(left),
        exact: dropped == 0,
        // What can be removed row by row does not wait for who reads one of the days.
        more: more || !purge.in_bulk,
        held: if more { Some(in_use()) } else { held },
        rest: None,
    };
    Ok((dropped, purged))
}
