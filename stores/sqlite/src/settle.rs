//! The one write that says what became of a batch.

use std::time::Duration;

use postrider_core::{JobId, JobState, JobVerb, Purge, Settle, Settled, Shard, crash};
use rusqlite::{Transaction, TransactionBehavior, params};

use crate::connect::Session;
use crate::console::{View, steer};
use crate::errand;
use crate::error::Result;
use crate::hold::Hold;
use crate::ident::Tables;
use crate::write::Writer;
use crate::{lease, schema};

/// What a settle leaves behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// What was published is written down.
    pub(crate) history: bool,
    /// What is older than this goes on the way.
    pub(crate) trimmed: Option<Duration>,
}

/// Writes what became of a batch in one transaction, fenced; answers one result an entry, queued entries first.
pub(crate) fn settle(
    session: &mut Session,
    tables: &Tables,
    keeping: Keeping,
    settle: &Settle,
) -> Result<Vec<Settled>> {
    let tx = session
        .connection
        .transaction_with_behavior(TransactionBehavior::Immediate)?;
    let standing = schema::check(&tx, tables)?;
    let now = standing.now;
    let fence = Fence::read(&tx, tables, settle)?;
    let mut writer = Writer::new(&tx, tables, standing, keeping.history)?;
    let answers = writer.write(&fence, settle)?;
    let counts = writer.close();
    if answers.contains(&Settled::Done) {
        fence.reset(&tx, tables)?;
        counts.add(&tx, tables)?;
        // Twice what comes goes, so that the history shrinks to its term however fast it grew.
        trim(&tx, tables, keeping.trimmed, now, 2 * answers.len())?;
    }
    let told = session.errands.go_along(&tx);
    crash::point("settle.inside");
    tx.commit()?;
    if let Some(told) = told {
        told();
    }
    Ok(answers)
}

/// Removes history that is older than it is kept: of the oldest so many rows all but what a replay has still to read.
/// Without any it costs one look at an index.
///
/// Two statements, because one `DELETE … WHERE id IN (SELECT …)` may walk the whole history when the statistics are
/// those of a time when it was small.
pub(crate) fn trim(
    tx: &Transaction<'_>,
    tables: &Tables,
    history: Option<Duration>,
    now: i64,
    limit: usize,
) -> Result<usize> {
    let Some(kept) = history else {
        return Ok(0);
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut oldest = tx.prepare_cached(&tables.sql(OLDEST))?;
    let rows = oldest.query_map(params![schema::since(now, kept), limit], |row| {
        Ok([row.get(0)?, row.get(1)?, row.get(2)?])
    })?;
    let mut old: Vec<[i64; 3]> = rows.collect::<rusqlite::Result<_>>()?;
    if old.is_empty() {
        return Ok(0);
    }
    let longest = schema::since(now, Purge::longest(kept));
    let forgets = |hold: &Hold| {
        old.iter()
            .any(|[_, place, at]| *place > hold.passed && *at < longest)
    };
    let passed = loop {
        match Hold::find(tx, tables)? {
            None => break i64::MAX,
            Some(hold) if forgets(&hold) && cancel(tx, tables, &hold) => {}
            Some(hold) => break hold.passed,
        }
    };
    old.retain(|[_, place, _]| *place <= passed);
    let mut remove = tx.prepare_cached(&tables.sql(REMOVE_SENT))?;
    for [id, ..] in &old {
        remove.execute([id])?;
    }
    Ok(old.len())
}

/// Cancels a replay that keeps the history for too long, so that it does not end as if it had read what goes. One that
/// only another version can read stays, with its history: a settle must not fail for it.
fn cancel(tx: &Transaction<'_>, tables: &Tables, hold: &Hold) -> bool {
    let job = JobId::from(hold.job.as_str());
    let cancelled = errand::apart(tx, || {
        steer(&View::begin(tx, tables)?, &job, JobVerb::Cancel, "relay")
    });
    let is_over = cancelled.is_ok_and(|job| job.state == JobState::Cancelled);
    if is_over {
        tracing::warn!(%job, "{}", Purge::FORGOTTEN);
    }
    is_over
}

/// The row ?4 of the history as it was read, at the version ?3: before the first edit since. Where that was not kept
/// (somebody has removed it by hand) the row stays as it is: without this it would become a tombstone.
pub(crate) const RECORD_AS_READ: &str = "UPDATE {outbox_sent} SET (payload, payload_bytes, content_type) = (
         SELECT payload, payload_bytes, content_type FROM {outbox_original}
         WHERE seq = ?1 AND destination = ?2 AND version > ?3 ORDER BY version LIMIT 1)
     WHERE id = ?4 AND EXISTS (SELECT 1 FROM {outbox_original} WHERE seq = ?1 AND destination = ?2 AND version > ?3)";

/// A row that was sent with the payload that was read, and is to be sent with the one that it has by now.
pub(crate) const SEND_EDITED: &str =
    "UPDATE {outbox_parked} SET version = version + 1, maybe_sent = 1, updated_at = ?3, next_attempt_at = ?3,
            sent_as = ?4
     WHERE seq = ?1 AND destination = ?2";

pub(crate) const OLDEST: &str =
    "SELECT id, seq, published_at FROM {outbox_sent} INDEXED BY {outbox_sent_time}
     WHERE published_at < ?1 ORDER BY published_at LIMIT ?2";

pub(crate) const REMOVE_SENT: &str = "DELETE FROM {outbox_sent} WHERE id = ?1";

/// The shards that this settle may write.
pub(crate) struct Fence {
    admitted: Vec<Shard>,
}

impl Fence {
    fn read(tx: &Transaction<'_>, tables: &Tables, settle: &Settle) -> Result<Self> {
        let sql = tables.sql("SELECT 1 FROM {outbox_shard} WHERE shard = ?1 AND token = ?2");
        let mut holds = tx.prepare_cached(&sql)?;
        let mut admitted = Vec::new();
        for (shard, token) in &settle.fence {
            if holds.exists(params![shard.0, lease::number(*token)])? {
                admitted.push(*shard);
            }
        }
        Ok(Self { admitted })
    }

    /// A shard that the fence does not name has no right to be written.
    pub(crate) fn admits(&self, shard: Shard) -> bool {
        self.admitted.contains(&shard)
    }

    /// The owner got something done, so it is not one of those that die over a row.
    fn reset(&self, tx: &Transaction<'_>, tables: &Tables) -> Result<()> {
        let sql = tables.sql(
            "UPDATE {outbox_shard} SET unclean = 0, suspect = NULL
             WHERE shard = ?1 AND (unclean <> 0 OR suspect IS NOT NULL)",
        );
        let mut update = tx.prepare_cached(&sql)?;
        for shard in &self.admitted {
            update.execute([shard.0])?;
        }
        Ok(())
    }
}

/// What a settle adds to the counts that survive the clean-up of the history.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) published: i64,
    pub(crate) duplicates: i64,
    pub(crate) dropped: i64,
}

impl Counts {
    fn add(&self, tx: &Transaction<'_>, tables: &Tables) -> Result<()> {
        if self.published + self.duplicates + self.dropped == 0 {
            return Ok(());
        }
        let sql = tables.sql(
            "UPDATE {outbox_meta} SET published = published + ?1, duplicates = duplicates + ?2, dropped = dropped + ?3",
        );
        tx.prepare_cached(&sql)?
            .execute([self.published, self.duplicates, self.dropped])?;
        Ok(())
    }
}
