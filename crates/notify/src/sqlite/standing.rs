//! What is not done yet.

use postrider_core::StoreError;
use rusqlite::{Row, Transaction};

use super::failed;
use crate::{Aside, Standing};

const STANDING: &str = "SELECT f.open, f.aside, d.open, d.aside FROM
    (SELECT count(*) AS open, count(problem) AS aside FROM notification_fanout WHERE finished_at IS NULL) f,
    (SELECT count(*) AS open, count(problem) AS aside FROM notification_digest WHERE sent_at IS NULL) d";

const ASIDE: &str = "SELECT * FROM (SELECT event_id, problem FROM notification_fanout
        WHERE finished_at IS NULL AND problem IS NOT NULL ORDER BY created_at LIMIT ?1)
    UNION ALL SELECT * FROM (SELECT 'notification-digest-' || id, problem FROM notification_digest
        WHERE sent_at IS NULL AND problem IS NOT NULL ORDER BY id LIMIT ?1)";

pub(super) fn standing(tx: &Transaction<'_>) -> Result<Standing, StoreError> {
    let found = counts(tx).and_then(|counts| {
        let aside = aside(tx)?;
        Ok(Standing { aside, ..counts })
    });
    found.map_err(|error| failed(error, "looking what is not done yet"))
}

fn aside(tx: &Transaction<'_>) -> rusqlite::Result<Vec<Aside>> {
    let mut statement = tx.prepare_cached(ASIDE)?;
    let read = |row: &Row<'_>| {
        Ok(Aside {
            event_id: row.get(0)?,
            problem: row.get(1)?,
        })
    };
    let most = i64::try_from(Standing::MOST).unwrap_or(i64::MAX);
    statement.query_map([most], read)?.collect()
}

fn counts(tx: &Transaction<'_>) -> rusqlite::Result<Standing> {
    let count = |row: &Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let read = |row: &Row<'_>| {
        Ok(Standing {
            fan_outs: count(row, 0)?,
            fan_outs_aside: count(row, 1)?,
            digests: count(row, 2)?,
            digests_aside: count(row, 3)?,
            aside: Vec::new(),
        })
    };
    tx.query_row(STANDING, [], read)
}
