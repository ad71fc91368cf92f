//! Removal by age. Queued and parked rows are nobody's to remove here.

use std::time::{Duration, Instant};

use postrider_core::{Kept, Purge, Purged, StoreErrorKind};
use rusqlite::{ParamsFromIter, params_from_iter};

use crate::console::{Entry, View, count as count_of, write_down};
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::ident::Tables;
use crate::schema;

/// How many rows a step of the cleanup removes, and for how long: producers wait behind the settle that it goes along
/// with.
const ROWS: u32 = 200;
/// Where no settle came that it could go along with.
pub(super) const ALONE: Duration = Duration::from_millis(1);
/// Along with one. What counts is for how much of the time the lock is held: with 1 ms of each settle the slow end of
/// the inserts was 2.5 times that without a cleanup.
pub(super) const BESIDE: Duration = Duration::from_micros(500);
/// How long settles go without one behind it.
pub(super) const REST: Duration = Duration::from_millis(30);

/// Whether it has time. A person who purges by hand waits for it.
pub(super) fn is_errand(purge: &Purge) -> bool {
    purge.actor.is_none()
}

/// What is older than its term, as rows of one table.
struct Old {
    /// The select of their row numbers: ?1 is the time, ?2 how many.
    ids: String,
    /// How one of them is removed.
    remove: String,
    before: i64,
    /// What the history asks beside, from ?3 on.
    beside: Vec<i64>,
    hold: Option<Hold>,
}

/// Removes up to the limit, and no longer than producers should wait, if that is said.
pub(super) fn purge(view: &View<'_>, purge: &Purge, hold: Option<Duration>) -> Result<Purged> {
    let Some(old) = Old::of(view, purge)? else {
        return Ok(nothing());
    };
    // Two statements, because one `DELETE … WHERE id IN (SELECT …)` may walk the whole table when the statistics are
    // those of a time when it was small.
    let mut find = view.tx.prepare_cached(&old.ids)?;
    let limit = match hold.is_some() {
        true => purge.limit.min(ROWS),
        false => purge.limit,
    };
    let ids = find.query_map(old.parameters(limit.into()), |row| row.get(0))?;
    let ids: Vec<rusqlite::types::Value> = ids.collect::<rusqlite::Result<_>>()?;
    let mut remove = view.tx.prepare_cached(&old.remove)?;
    let (began, mut gone) = (Instant::now(), 0);
    for id in &ids {
        remove.execute([id])?;
        gone += 1;
        if hold.is_some_and(|hold| began.elapsed() >= hold) {
            break;
        }
    }
    if let Some(actor) = purge.actor.as_deref().filter(|_| gone > 0) {
        write_down(
            view,
            &Entry {
                touched: gone,
                ..Entry::new(actor, Purge::WORD, &purge.detail(true))
            },
        )?;
    }
    let more = gone < ids.len() as u64 || gone >= u64::from(limit);
    Ok(Purged {
        rows: gone,
        exact: true,
        more,
        held: if more { None } else { old.held(view)? },
        rest: None,
    })
}

/// How many would go, whatever the limit of a step is.
pub(super) fn count(view: &View<'_>, purge: &Purge) -> Result<Purged> {
    let Some(old) = Old::of(view, purge)? else {
        return Ok(nothing());
    };
    let sql = format!("SELECT count(*) FROM ({})", old.ids);
    let rows: i64 = view
        .tx
        .query_row(&sql, old.parameters(i64::MAX), |row| row.get(0))?;
    Ok(Purged {
        rows: count_of(rows),
        exact: true,
        more: false,
        held: old.held(view)?,
        rest: None,
    })
}

fn nothing() -> Purged {
    Purged {
        exact: true,
        ..Purged::default()
    }
}

impl Old {
    fn of(view: &View<'_>, purge: &Purge) -> Result<Option<Old>> {
        // Rows of that time or an earlier one go, and what the archive has is earlier than its end.
        let archived = purge.before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
        let before = match purge.what {
            Kept::History => schema::since(view.standing.now, purge.older_than).min(archived),
            _ => schema::since(view.standing.now, purge.older_than),
        };
        let old = |ids: &str, table: &str| Old {
            ids: view.sql(ids),
            remove: view.sql(&format!("DELETE FROM {table} WHERE rowid = ?1")),
            before,
            beside: Vec::new(),
            hold: None,
        };
        Ok(Some(match &purge.what {
            Kept::History => history(view, purge, old(HISTORY, "{outbox_sent}"))?,
            Kept::Audit => old(AUDIT, "{outbox_audit}"),
            Kept::Jobs => old(JOBS, "{outbox_job}"),
            Kept::Originals => old(ORIGINALS, "{outbox_original}"),
            Kept::Restored => old(RESTORED, "{outbox_restored}"),
            Kept::Inbox(name) => return inbox(view, name, before),
        }))
    }

    fn parameters(&self, limit: i64) -> ParamsFromIter<Vec<i64>> {
        params_from_iter([&[self.before, limit], self.beside.as_slice()].concat())
    }

    /// Whether a replay keeps something that is old enough, in words.
    fn held(&self, view: &View<'_>) -> Result<Option<String>> {
        let Some(Hold { job, passed }) = &self.hold else {
            return Ok(None);
        };
        let sql = view.sql(IS_HELD);
        let held = view.tx.prepare_cached(&sql)?.exists([self.before, *passed])?;
        Ok(held.then(|| Purged::held_by(job)))
    }
}

pub(crate) const HISTORY: &str = "SELECT id FROM {outbox_sent} INDEXED BY {outbox_sent_time}
     WHERE published_at <= ?1 AND (seq <= ?3 OR published_at <= ?4) ORDER BY published_at LIMIT ?2";

const IS_HELD: &str = "SELECT 1 FROM {outbox_sent} INDEXED BY {outbox_sent_time}
     WHERE published_at <= ?1 AND seq > ?2 LIMIT 1";

const AUDIT: &str = "SELECT id FROM {outbox_audit} INDEXED BY {outbox_audit_time}
     WHERE at <= {iso ?1} ORDER BY at LIMIT ?2";

const JOBS: &str = "SELECT rowid FROM {outbox_job} WHERE ended_at <= ?1 LIMIT ?2";

/// Not while anything of its event is parked: a row without a destination is edited, and split over some since.
const ORIGINALS: &str = "SELECT o.rowid FROM {outbox_original} o WHERE o.edited_at <= ?1
       AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = o.seq)
     LIMIT ?2";

/// Not while they are being read back, or copied.
const RESTORED: &str = "SELECT id FROM {outbox_restored} r INDEXED BY {outbox_restored_time}
     WHERE restored_at <= ?1 AND NOT EXISTS (
         SELECT 1 FROM {outbox_job} j WHERE j.state IN ('running', 'paused')
           AND (j.id = r.job_id OR (j.kind = 'replay' AND CAST(coalesce(j.cursor, '0') AS INTEGER) <= j.bound
                                    AND json_extract(j.spec, '$.restored') = r.job_id)))
     ORDER BY restored_at LIMIT ?2";

/// What a replay has still to read stays, unless it is far past its term.
fn history(view: &View<'_>, purge: &Purge, old: Old) -> Result<Old> {
    let hold = Hold::find(view.tx, view.tables)?;
    let passed = hold.as_ref().map_or(i64::MAX, |hold| hold.passed);
    let longest = schema::since(view.standing.now, purge.longest());
    Ok(Old {
        beside: vec![passed, longest],
        hold,
        ..old
    })
}

/// The inbox with this name, where there is one.
fn inbox(view: &View<'_>, name: &str, before: i64) -> Result<Option<Old>> {
    let tables = Tables::new(name).map_err(|error| Error::new(StoreErrorKind::Other, error.to_string()))?;
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    if !view.tx.prepare_cached(exists)?.exists([name])? {
        return Ok(None);
    }
    // Such a table has no row numbers: its key is consumer and id.
    Ok(Some(Old {
        ids: tables.sql(
            "SELECT json_array(consumer, event_id) FROM {outbox} INDEXED BY {outbox_time}
             WHERE processed_at <= ?1 ORDER BY processed_at LIMIT ?2",
        ),
        remove: tables.sql(
            "DELETE FROM {outbox} WHERE consumer = json_extract(?1, '$[0]') AND event_id = json_extract(?1, '$[1]')",
        ),
        before,
        beside: Vec::new(),
        hold: None,
    }))
}
