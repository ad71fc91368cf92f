//! Removal by age.

use std::time::Duration;

use postrider_core::{JobId, Kept, Purge, Purged, StoreError, StoreErrorKind};
use tokio_postgres::types::ToSql;

use super::hold;
use crate::clock::{self, Micros};
use crate::console::{Deed, View, note};
use crate::error::Result;
use crate::ident::Tables;

/// One step of a removal, row by row. Queued and parked rows are in none of these tables.
pub(super) async fn purge(view: &View, purge: &Purge) -> Result<Purged> {
    if matches!(purge.what, Kept::History | Kept::Restored) && !purge.dry_run {
        hold::no_more(view).await?;
    }
    let purged = match &purge.what {
        Kept::History => history(view, purge).await?,
        Kept::Audit if !purge.dry_run => audit(view, purge).await?,
        what => {
            if !is_there(view, what).await? {
                return Ok(nothing());
            }
            let old = old(view, what)?;
            let sql = match purge.dry_run {
                true => format!("SELECT count(*) FROM (SELECT 1 {old} LIMIT $2) o"),
                false => format!(
                    "WITH gone AS (DELETE FROM {} WHERE ctid = ANY (ARRAY(SELECT ctid {old} LIMIT $2)) RETURNING 1)
                     SELECT count(*) FROM gone",
                    table(view, what)?
                ),
            };
            counted(view, purge, &sql).await?
        }
    };
    written_down(view, purge, purged).await
}

/// Notes what somebody removed, if it was anything.
pub(super) async fn written_down(view: &View, purge: &Purge, purged: Purged) -> Result<Purged> {
    let is_anything = purged.rows > 0 || !purged.exact;
    let Some(actor) = purge.actor.as_deref().filter(|_| !purge.dry_run && is_anything) else {
        return Ok(purged);
    };
    let deed = Deed {
        actor,
        action: Purge::WORD,
        detail: &purge.detail(purged.exact),
        touched: purged.rows,
        ..Deed::default()
    };
    note(view, deed).await?;
    Ok(purged)
}

/// The bound is the same for the whole statement, and on both sides of the join: partitions that are younger are not
/// opened. Without an archive `$3` is null, which `least` passes over. The difference leads to no index: the first rows
/// that are old are as good as any, and an index would be gone through from end to end for each step.
pub(crate) const PURGE: &str = "DELETE FROM {outbox_sent} s USING (
         SELECT o.tableoid AS part, o.ctid AS place FROM {outbox_sent} o
         WHERE o.published_at < least(now() - make_interval(secs => $1), $3::timestamptz)
           AND o.seq - 0 <= $4 LIMIT $2
     ) o WHERE s.tableoid = o.part AND s.ctid = o.place
       AND s.published_at < least(now() - make_interval(secs => $1), $3::timestamptz)";

const COUNT: &str = "SELECT count(*) FROM {outbox_sent} o
     WHERE o.published_at < least(now() - make_interval(secs => $1), $2::timestamptz)
       AND o.seq - 0 <= $3";

const IS_HELD: &str = "SELECT EXISTS (SELECT 1 FROM {outbox_sent} o
     WHERE o.published_at < least(now() - make_interval(secs => $1), $3::timestamptz) AND o.seq > $2)";

/// The replay that keeps what is older than this.
pub(super) async fn forgotten(view: &View, older_than: Duration) -> Result<Option<JobId>> {
    let Some(hold) = hold::find(view).await? else {
        return Ok(None);
    };
    let (age, unarchived) = (clock::seconds(older_than), None::<Micros>);
    let row = view
        .client()
        .query_one(&view.sql(IS_HELD), &[&age, &hold.passed, &unarchived])
        .await?;
    Ok(row.try_get::<_, bool>(0)?.then(|| JobId::from(hold.job.as_str())))
}

/// Removes history, but for what is not archived yet and what a replay has still to read.
async fn history(view: &View, purge: &Purge) -> Result<Purged> {
    let hold = hold::find(view).await?;
    let before = purge.before.map(Micros::from);
    let passed = hold.as_ref().map_or(i64::MAX, |hold| hold.passed);
    let (term, limit) = (clock::seconds(purge.older_than), i64::from(purge.limit));
    let client = view.client();
    let rows = match purge.dry_run {
        true => {
            let parameters: [&(dyn ToSql + Sync); 3] = [&term, &before, &passed];
            let row = client.query_one(&view.sql(COUNT), &parameters).await?;
            u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0)
        }
        false => {
            let parameters: [&(dyn ToSql + Sync); 4] = [&term, &limit, &before, &passed];
            client.execute(&view.sql(PURGE), &parameters).await?
        }
    };
    let more = !purge.dry_run && rows >= u64::from(purge.limit);
    let held = match hold {
        Some(hold) if !more => {
            let row = client
                .query_one(&view.sql(IS_HELD), &[&term, &passed, &before])
                .await?;
            row.try_get::<_, bool>(0)?.then(|| Purged::held_by(&hold.job))
        }
        _ => None,
    };
    Ok(Purged {
        rows,
        exact: true,
        more,
        held,
        rest: None,
    })
}

/// The audit can only be added to; what removes the old of it is a function of the owner of the tables.
async fn audit(view: &View, purge: &Purge) -> Result<Purged> {
    let sql = "SELECT {outbox_forget_audit}(make_interval(secs => $1), $2::bigint::integer)";
    counted(view, purge, &view.sql(sql)).await
}

/// A statement that answers how many rows it removed, or would: then all of them, whatever the limit of a step is.
async fn counted(view: &View, purge: &Purge, sql: &str) -> Result<Purged> {
    let limit = match purge.dry_run {
        true => i64::MAX,
        false => i64::from(purge.limit.min(i32::MAX.unsigned_abs())),
    };
    let row = view
        .client()
        .query_one(sql, &[&clock::seconds(purge.older_than), &limit])
        .await?;
    let rows = u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
    Ok(Purged {
        rows,
        exact: true,
        more: !purge.dry_run && rows >= u64::from(purge.limit),
        held: None,
        rest: None,
    })
}

fn nothing() -> Purged {
    Purged {
        exact: true,
        ..Purged::default()
    }
}

/// Inboxes are named for all outboxes at once, and their databases need not have all of them.
async fn is_there(view: &View, what: &Kept) -> Result<bool> {
    if !matches!(what, Kept::Inbox(_)) {
        return Ok(true);
    }
    let row = view
        .client()
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&table(view, what)?])
        .await?;
    Ok(row.try_get(0)?)
}

fn table(view: &View, what: &Kept) -> Result<String> {
    Ok(match what {
        Kept::History => view.sql("{outbox_sent}"),
        Kept::Audit => view.sql("{outbox_audit}"),
        Kept::Jobs => view.sql("{outbox_job}"),
        Kept::Originals => view.sql("{outbox_original}"),
        Kept::Restored => view.sql("{outbox_restored}"),
        Kept::Inbox(name) => {
            let inbox = Tables::new(view.work.tables.schema(), name);
            inbox
                .map_err(|error| StoreError::new(StoreErrorKind::Other, error.to_string()))?
                .sql("{outbox}")
        }
    })
}

/// Whether nothing of an original's event is parked (a row without a destination is edited, and split over some since)
/// or in the history, where it is shown with what the producer wrote. The history is counted and not asked for a first
/// row: that is never joined, and so each place is looked up in the index of places of every day.
pub(crate) const IS_GONE: &str = "NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = t.seq)
     AND 0 = (SELECT count(*) FROM {outbox_sent} s WHERE s.seq = t.seq) AND ";

/// From where, and which rows are old.
fn old(view: &View, what: &Kept) -> Result<String> {
    let (column, only) = match what {
        Kept::History => ("published_at", ""),
        Kept::Audit => ("at", ""),
        Kept::Jobs => ("updated_at", "state IN ('done', 'cancelled') AND "),
        Kept::Originals => ("edited_at", IS_GONE),
        // Not while it is being read back, or copied.
        Kept::Restored => (
            "restored_at",
            "NOT EXISTS (SELECT 1 FROM {outbox_job} j WHERE j.state IN ('running', 'paused')
                 AND (j.id = t.job_id OR ({READS} AND j.spec::jsonb ->> 'restored' = t.job_id))) AND ",
        ),
        Kept::Inbox(_) => ("processed_at", ""),
    };
    let only = view.sql(&only.replace("{READS}", hold::READS));
    Ok(format!(
        "FROM {} t WHERE {only}t.{column} < now() - make_interval(secs => $1)",
        table(view, what)?
    ))
}
