//! An archive that is read back, into the database it came from and into another one, and sent again.

use std::path::Path;

use postrider_testkit::ledger::{Ledger, Report};

use super::arrival::each;
use super::compared::Compared;
use super::hostile::Hostile;
use super::{PATIENCE, last};
use crate::failure::{Failure, Result};
use crate::scenario::operated::Operated;

/// What one database got back.
pub(super) struct Restored {
    /// Rows that were back when the restore was killed, and when it had been given again.
    pub(super) killed_at: u64,
    pub(super) rows: u64,
    pub(super) identical: u64,
    pub(super) different: u64,
    pub(super) among_copies: Report,
}

/// Reads an archive back, killed with -9 on the way and given again, and lets a relay send the copies.
pub(super) fn bring_back(outbox: &Operated<'_>, archive: &Path) -> Result<(u64, u64)> {
    let dir = archive.to_string_lossy();
    let restoring = outbox.start(&["archive", "restore", "--dir", &dir])?;
    let killed = outbox.kill_in_job(restoring, 1, PATIENCE)?;
    let job = killed["job"].as_str().unwrap_or_default();
    let killed_at = killed["touched"].as_u64().unwrap_or(0);
    let given_again = last(outbox, &["archive", "restore", "--dir", &dir, "--job", job])?;
    let rows = given_again["rows"].as_u64().unwrap_or(0);
    let there = outbox.number("SELECT count(*) FROM outbox_restored")?;
    if there != rows {
        return Err(Failure::new(format!(
            "the restore counted {rows} rows, and {there} are there"
        )));
    }
    let relay = outbox.start(&["run"])?;
    outbox.ends(&["replay", "--restored", job, "--yes", "--rate", "100000"], 0)?;
    outbox.drained(PATIENCE)?;
    relay.terminate(PATIENCE)?;
    Ok((killed_at, rows))
}

/// Compares the copies that came out of a database with what was written, and with what arrived first, out of the one
/// that was archived.
pub(super) fn compare(
    archived: &Operated<'_>,
    restored: &Operated<'_>,
    (killed_at, rows): (u64, u64),
    events: &[Hostile],
    ledger: &mut Ledger,
) -> Result<Restored> {
    let mut compared = Compared::new(events)?;
    each(
        &archived.directory().join("lines.jsonl"),
        |arrival| match arrival.replay() {
            None => compared.first(arrival, ledger),
            Some(_) => Ok(()),
        },
    )?;
    each(
        &restored.directory().join("lines.jsonl"),
        |arrival| match arrival.replay() {
            None => Ok(()),
            Some(_) => compared.copy(&arrival),
        },
    )?;
    Ok(Restored {
        killed_at,
        rows,
        identical: compared.identical,
        different: compared.different,
        among_copies: compared.copies.report(),
    })
}
