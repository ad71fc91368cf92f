//! Removal by age. Queued and parked rows are nobody's to remove here.
//!
//! What is old is found by the connection that only reads, however long that takes: a replay may hold a million rows
//! that are past their term. Only the removing needs the lock, and asks of every row once more whether it is old: a
//! replay that begins in between keeps what it has still to read.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use postrider_core::{JobId, Kept, Purge, Purged, StoreErrorKind};
use rusqlite::types::Value;
use rusqlite::{ParamsFromIter, params_from_iter};

use crate::console::{Entry, View, count as count_of, write_down};
use crate::errand::Company;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::ident::Tables;
use crate::schema;

/// How many rows a step of the cleanup looks for: more than it comes to remove.
const ROWS: u32 = 200;
/// For how long a step removes along with a settle. Whoever meets a lock is let sleep by SQLite for a millisecond, and
/// for two more if it is not free then. With 150 µs one insert in 500 more had to sleep twice, and the slow end of the
/// inserts of 4 producers stayed where it was (1.4 ms); with 1 ms it was that of those who sleep twice (3.4 ms).
const ALONG: Duration = Duration::from_micros(150);
/// The same where no settle came: there is little to disturb.
const ALONE: Duration = Duration::from_millis(1);
/// How many rows a step comes to in any case: a machine that is busy just then must not keep it from coming to its end.
const LEAST: usize = 10;
/// How many times as long as a step took the settles behind it go without one.
const REST: u32 = 40;
/// And no longer than this: on a slow disk a step of the least rows takes long, and a hundred rows a second go even so.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Whether it has time. A person who purges by hand waits for it.
pub(super) fn is_errand(purge: &Purge) -> bool {
    purge.actor.is_none()
}

/// For how long producers should have the database for themselves behind a step that took so long. Where no settle came
/// the next step waits for one anyway.
pub(super) fn rest(company: Company, took: Duration) -> Duration {
    match company {
        Company::Settle => took.saturating_mul(REST).min(LONGEST_REST),
        Company::Nobody => Duration::ZERO,
    }
}

/// What was found to be old, by the names of the rows.
pub(super) struct Found {
    rows: Vec<Value>,
    /// There may be more than was looked for.
    full: bool,
    held: Option<String>,
}

impl Found {
    /// Nothing is to be removed, and no lock to be taken for it.
    pub(super) fn nothing(&mut self) -> Option<Purged> {
        self.rows.is_empty().then(|| Purged {
            held: self.held.take(),
            ..nothing()
        })
    }
}

/// Looks for what is old, the oldest first.
pub(super) fn find(view: &View<'_>, purge: &Purge) -> Result<Found> {
    let limit = match is_errand(purge) {
        true => purge.limit.min(ROWS),
        false => purge.limit,
    };
    let mut found = Found {
        rows: Vec::new(),
        full: false,
        held: None,
    };
    if let Some(old) = Old::of(view, purge)? {
        let mut statement = view.tx.prepare_cached(&old.find)?;
        let rows = statement.query_map(old.parameters(i64::from(limit).into()), |row| row.get(0))?;
        found.rows = rows.collect::<rusqlite::Result<_>>()?;
        found.full = found.rows.len() as u64 >= u64::from(limit);
        found.held = if found.full { None } else { old.held(view)? };
    }
    Ok(found)
}

/// Removes what was found, and in a cleanup, which has company, no more than producers should wait for.
pub(super) fn remove(
    view: &View<'_>,
    purge: &Purge,
    found: Found,
    company: Option<Company>,
) -> Result<Purged> {
    let began = Instant::now();
    let hold = match company {
        None => Duration::MAX,
        Some(Company::Settle) => ALONG,
        Some(Company::Nobody) => ALONE,
    };
    let Some(old) = Old::of(view, purge)? else {
        return Ok(nothing());
    };
    let mut statement = view.tx.prepare_cached(&old.remove)?;
    let (all, mut rows, mut left) = (found.rows.len(), 0, found.rows.into_iter());
    while let Some(row) = left.next() {
        rows += statement.execute(old.parameters(row))? as u64;
        let comes_further = all - left.len() >= LEAST;
        if comes_further && began.elapsed() >= hold {
            break;
        }
    }
    if let Some(actor) = purge.actor.as_deref().filter(|_| rows > 0) {
        let detail = purge.detail(true);
        let entry = Entry {
            touched: rows,
            ..Entry::new(actor, Purge::WORD, &detail)
        };
        write_down(view, &entry)?;
    }
    let more = found.full || left.len() > 0;
    Ok(Purged {
        rows,
        exact: true,
        more,
        held: found.held.filter(|_| !more),
        rest: None,
    })
}

/// How many would go, whatever the limit of a step is.
pub(super) fn count(view: &View<'_>, purge: &Purge) -> Result<Purged> {
    let Some(old) = Old::of(view, purge)? else {
        return Ok(nothing());
    };
    let sql = format!("SELECT count(*) FROM ({})", old.find);
    let rows: i64 = view
        .tx
        .query_row(&sql, old.parameters(i64::MAX.into()), |row| row.get(0))?;
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

/// What is older than its term, as rows of one table.
struct Old {
    /// The select of their names: ?1 is the time, ?2 how many.
    find: String,
    /// How one of them is removed: ?2 is its name.
    remove: String,
    before: i64,
    /// The last place that every replay has passed, where the history asks for it as ?3.
    passed: Option<i64>,
    hold: Option<Hold>,
}

impl Old {
    fn of(view: &View<'_>, purge: &Purge) -> Result<Option<Old>> {
        // Rows of that time or an earlier one go, and what the archive has is earlier than its end.
        let archived = purge.before.map_or(i64::MAX, |before| before.0.saturating_sub(1));
        let before = match purge.what {
            Kept::History => schema::since(view.standing.now, purge.older_than).min(archived),
            _ => schema::since(view.standing.now, purge.older_than),
        };
        let old = |kind: &Kind| Old {
            find: view.sql(&kind.find()),
            remove: view.sql(&kind.remove()),
            before,
            passed: None,
            hold: None,
        };
        Ok(Some(match &purge.what {
            Kept::History => history(view, old(&HISTORY))?,
            Kept::Audit => old(&AUDIT),
            Kept::Jobs => old(&JOBS),
            Kept::Originals => old(&ORIGINALS),
            Kept::Restored => old(&RESTORED),
            Kept::Inbox(name) => return inbox(view, name, before),
        }))
    }

    /// The second is how many, or which.
    fn parameters(&self, second: Value) -> ParamsFromIter<Vec<Value>> {
        let passed = self.passed.map(Value::from);
        params_from_iter([self.before.into(), second].into_iter().chain(passed).collect())
    }

    /// Whether a replay keeps something that is old enough, in words.
    fn held(&self, view: &View<'_>) -> Result<Option<String>> {
        let Some(hold) = &self.hold else {
            return Ok(None);
        };
        let keeps = hold.keeps(view, self.before)?;
        Ok(keeps.then(|| Purged::held_by(&hold.job)))
    }
}

/// What is old in a table whose rows have numbers.
pub(crate) struct Kind {
    table: &'static str,
    /// The way to its oldest rows.
    by: &'static str,
    /// Of a row `t`; ?1 is the time.
    is_old: &'static str,
    oldest_first: &'static str,
}

impl Kind {
    /// Two statements and not one `DELETE … WHERE id IN (SELECT …)`, which may walk the whole table when the statistics
    /// are those of a time when it was small.
    pub(crate) fn find(&self) -> String {
        let Kind {
            table,
            by,
            is_old,
            oldest_first,
        } = self;
        format!("SELECT t.rowid FROM {table} AS t {by} WHERE {is_old} {oldest_first} LIMIT ?2")
    }

    pub(crate) fn remove(&self) -> String {
        let Kind { table, is_old, .. } = self;
        format!("DELETE FROM {table} AS t WHERE t.rowid = ?2 AND {is_old}")
    }
}

const HISTORY: Kind = Kind {
    table: "{outbox_sent}",
    by: "INDEXED BY {outbox_sent_time}",
    is_old: "t.published_at <= ?1 AND t.seq <= ?3",
    oldest_first: "ORDER BY t.published_at",
};

const IS_HELD: &str = "SELECT 1 FROM {outbox_sent} INDEXED BY {outbox_sent_time}
     WHERE published_at <= ?1 AND seq > ?2 LIMIT 1";

const AUDIT: Kind = Kind {
    table: "{outbox_audit}",
    by: "INDEXED BY {outbox_audit_time}",
    is_old: "t.at <= {iso ?1}",
    oldest_first: "ORDER BY t.at",
};

const JOBS: Kind = Kind {
    table: "{outbox_job}",
    by: "",
    is_old: "t.ended_at <= ?1",
    oldest_first: "",
};

/// Not while anything of its event is parked (a row without a destination is edited, and split over some since) or in
/// the history, where it is shown with what the producer wrote.
const ORIGINALS: Kind = Kind {
    table: "{outbox_original}",
    by: "",
    is_old: "t.edited_at <= ?1 AND NOT EXISTS (SELECT 1 FROM {outbox_parked} p WHERE p.seq = t.seq)
         AND NOT EXISTS (SELECT 1 FROM {outbox_sent} s INDEXED BY {outbox_sent_place} WHERE s.seq = t.seq)",
    oldest_first: "",
};

/// Not while they are being read back, or copied.
const RESTORED: Kind = Kind {
    table: "{outbox_restored}",
    by: "INDEXED BY {outbox_restored_time}",
    is_old: "t.restored_at <= ?1 AND NOT EXISTS (
         SELECT 1 FROM {outbox_job} j WHERE j.state IN ('running', 'paused')
           AND (j.id = t.job_id OR (j.kind = 'replay' AND CAST(coalesce(j.cursor, '0') AS INTEGER) <= j.bound
                                    AND json_valid(j.spec) AND json_extract(j.spec, '$.restored') = t.job_id)))",
    oldest_first: "ORDER BY t.restored_at",
};

/// Those with many rows, and the index by which the oldest of them are found.
#[cfg(test)]
pub(crate) const OLD: [(Kind, &str); 3] = [
    (HISTORY, "INDEX outbox_sent_time (published_at<?)"),
    (AUDIT, "COVERING INDEX outbox_audit_time (at<?)"),
    (RESTORED, "INDEX outbox_restored_time (restored_at<?)"),
];

/// What a replay has still to read stays.
fn history(view: &View<'_>, old: Old) -> Result<Old> {
    let hold = Hold::find(view.tx, view.tables)?;
    let passed = hold.as_ref().map_or(i64::MAX, |hold| hold.passed);
    Ok(Old {
        passed: Some(passed),
        hold,
        ..old
    })
}

/// The replay that keeps what is older than this.
pub(super) fn forgotten(view: &View<'_>, older_than: Duration) -> Result<Option<JobId>> {
    let before = schema::since(view.standing.now, older_than);
    let hold = match Hold::find(view.tx, view.tables)? {
        Some(hold) if hold.keeps(view, before)? => Some(hold),
        _ => None,
    };
    Ok(hold.map(|hold| JobId::from(hold.job.as_str())))
}

impl Hold {
    /// Whether it has still to read something of that time or an earlier one.
    fn keeps(&self, view: &View<'_>, before: i64) -> Result<bool> {
        let sql = view.sql(IS_HELD);
        Ok(view.tx.prepare_cached(&sql)?.exists([before, self.passed])?)
    }
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
        find: tables.sql(
            "SELECT json_array(consumer, event_id) FROM {outbox} INDEXED BY {outbox_time}
             WHERE processed_at <= ?1 ORDER BY processed_at LIMIT ?2",
        ),
        remove: tables.sql(
            "DELETE FROM {outbox} WHERE consumer = json_extract(?2, '$[0]') AND event_id = json_extract(?2, '$[1]')
               AND processed_at <= ?1",
        ),
        before,
        passed: None,
        hold: None,
    }))
}
