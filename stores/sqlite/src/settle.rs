//! The one write that says what became of a batch.

use std::time::Duration;

use postrider_core::{
    DestinationName, Leaves, Park, Receipt, Settle, SettleParked, SettleQueued, Settled, Shard, Then, crash,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::error::Result;
use crate::ident::Tables;
use crate::row::{self, CARRIED};
use crate::schema::{self, Standing};
use crate::{clock, lease};

/// Writes what became of a batch in one transaction, fenced; answers one result an entry, queued entries first.
pub(crate) fn settle(
    connection: &mut Connection,
    tables: &Tables,
    history: Option<Duration>,
    settle: &Settle,
) -> Result<Vec<Settled>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let standing = schema::check(&tx, tables)?;
    let now = standing.now;
    let fence = Fence::read(&tx, tables, settle)?;
    let mut pen = Pen::new(&tx, tables, standing, history.is_some())?;
    let answers = pen.write(&fence, settle)?;
    let counts = pen.close();
    if answers.contains(&Settled::Done) {
        fence.reset(&tx, tables)?;
        counts.add(&tx, tables)?;
        // Twice what comes goes, so that the history shrinks to its term however fast it grew.
        trim(&tx, tables, history, now, 2 * answers.len())?;
    }
    crash::point("settle.inside");
    tx.commit()?;
    Ok(answers)
}

/// Removes history that is older than it is kept, at most so many rows. Without any it costs one look at an index.
pub(crate) fn trim(
    connection: &Connection,
    tables: &Tables,
    history: Option<Duration>,
    now: i64,
    limit: usize,
) -> Result<usize> {
    match history {
        Some(kept) => purge(connection, tables, schema::since(now, kept), limit),
        None => Ok(0),
    }
}

/// Removes what left before `before`, the oldest first.
pub(crate) fn purge(connection: &Connection, tables: &Tables, before: i64, limit: usize) -> Result<usize> {
    let sql = tables.sql(
        "DELETE FROM {outbox_sent} WHERE id IN (
             SELECT id FROM {outbox_sent} INDEXED BY {outbox_sent_time} WHERE published_at < ?1
             ORDER BY published_at LIMIT ?2)",
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(&sql)?.execute(params![before, limit])?)
}

/// The shards that this settle may write.
struct Fence {
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
    fn admits(&self, shard: Shard) -> bool {
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
struct Counts {
    published: i64,
    duplicates: i64,
    dropped: i64,
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

/// The statements of one settle.
struct Pen<'tx> {
    standing: Standing,
    history: bool,
    counts: Counts,
    find_queued: CachedStatement<'tx>,
    remove_queued: CachedStatement<'tx>,
    record_queued: CachedStatement<'tx>,
    park_queued: CachedStatement<'tx>,
    find_parked: CachedStatement<'tx>,
    remove_parked: CachedStatement<'tx>,
    record_parked: CachedStatement<'tx>,
    park_parked: CachedStatement<'tx>,
    change_parked: CachedStatement<'tx>,
}

impl<'tx> Pen<'tx> {
    fn new(tx: &'tx Transaction<'_>, tables: &Tables, standing: Standing, history: bool) -> Result<Self> {
        let prepare = |sql: &str| tx.prepare_cached(&tables.sql(sql));
        Ok(Self {
            standing,
            history,
            counts: Counts::default(),
            find_queued: prepare("SELECT 1 FROM {outbox} WHERE seq = ?1 AND (event_id = ?2 OR ?2 = ?3)")?,
            remove_queued: prepare("DELETE FROM {outbox} WHERE seq = ?1")?,
            record_queued: prepare(&format!(
                "INSERT INTO {{outbox_sent}} (seq, event_id, destination, outcome, receipt, published_at, {CARRIED})
                 SELECT seq, coalesce(event_id, ?2), ?3, 'published', ?4, ?5, {CARRIED} FROM {{outbox}} WHERE seq = ?1"
            ))?,
            park_queued: prepare(&park_sql("{outbox}", "seq = ?1", "?11", "?12"))?,
            find_parked: prepare("SELECT version FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2")?,
            remove_parked: prepare("DELETE FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2")?,
            record_parked: prepare(&record_parked_sql("'published'"))?,
            park_parked: prepare(&park_sql(
                "{outbox_parked}",
                "seq = ?1 AND destination = ?11",
                "order_key",
                "version + 1",
            ))?,
            change_parked: prepare(
                "UPDATE {outbox_parked} SET version = version + 1, dead = ?3, next_attempt_at = ?4, attempts = ?5,
                        failures = ?6, maybe_sent = ?7, error_kind = ?8, error_text = ?9, redriven = 0, updated_at = ?10,
                        first_failed_at = CASE WHEN ?6 = 0 THEN NULL WHEN ?8 IS NULL THEN first_failed_at
                            ELSE coalesce(first_failed_at, ?10) END,
                        last_failed_at = CASE WHEN ?6 = 0 THEN NULL WHEN ?8 IS NULL THEN last_failed_at ELSE ?10 END
                 WHERE seq = ?1 AND destination = ?2",
            )?,
        })
    }

    fn write(&mut self, fence: &Fence, settle: &Settle) -> Result<Vec<Settled>> {
        let mut answers = Vec::with_capacity(settle.queued.len() + settle.parked.len());
        for entry in &settle.queued {
            answers.push(match fence.admits(entry.shard) {
                true => self.queued(entry)?,
                false => Settled::Fenced,
            });
        }
        for entry in &settle.parked {
            answers.push(match fence.admits(entry.shard) {
                true => self.parked(entry)?,
                false => Settled::Fenced,
            });
        }
        Ok(answers)
    }

    /// Gives the statements back, so that the transaction may commit.
    fn close(self) -> Counts {
        self.counts
    }

    fn queued(&mut self, entry: &SettleQueued) -> Result<Settled> {
        let place = row::place(entry.seq);
        // A row without a usable id goes by the one derived from its place, and so is named by it.
        let derived = row::derived_id(&self.standing.outbox_id, place);
        let named = params![place, entry.event_id.as_str(), derived.as_str()];
        if !self.find_queued.exists(named)? {
            return Ok(Settled::Gone);
        }
        match &entry.leaves {
            Leaves::Decided { sent, parked } => {
                for (destination, receipt) in sent {
                    self.publish_queued(place, derived.as_str(), destination, receipt)?;
                }
                for park in parked {
                    self.park_queued(entry, park)?;
                }
            }
            Leaves::Duplicate => self.counts.duplicates += 1,
            Leaves::Dropped => self.counts.dropped += 1,
        }
        self.remove_queued.execute([place])?;
        Ok(Settled::Done)
    }

    fn publish_queued(
        &mut self,
        place: i64,
        derived: &str,
        destination: &DestinationName,
        receipt: &Receipt,
    ) -> Result<()> {
        self.counts.published += 1;
        if self.history {
            let now = self.standing.now;
            self.record_queued
                .execute(params![place, derived, destination.as_str(), receipt.0, now])?;
        }
        Ok(())
    }

    fn park_queued(&mut self, entry: &SettleQueued, park: &Park) -> Result<()> {
        let written = Written::of(park, self.standing.now);
        self.park_queued.execute(params![
            row::place(entry.seq),
            written.destination,
            park.dead,
            written.next_attempt_at,
            park.attempts,
            park.failures,
            park.maybe_sent,
            written.error_kind,
            written.error_text,
            self.standing.now,
            entry.key.as_str(),
            1,
        ])?;
        Ok(())
    }

    fn parked(&mut self, entry: &SettleParked) -> Result<Settled> {
        let place = row::place(entry.seq);
        let destination = destination_text(entry.destination.as_ref());
        let found: Option<i64> = self
            .find_parked
            .query_row(params![place, destination], |row| row.get(0))
            .optional()?;
        let Some(version) = found else {
            return Ok(Settled::Gone);
        };
        let current = u64::try_from(version).ok() == Some(entry.version);
        match &entry.then {
            // Confirmed wins, whatever an operator did meanwhile.
            Then::Sent(receipt) => {
                self.counts.published += 1;
                if self.history {
                    self.publish_parked(place, destination, receipt)?;
                }
            }
            Then::Duplicate => self.counts.duplicates += 1,
            Then::Again(_) | Then::Split(_) if !current => return Ok(Settled::Gone),
            Then::Again(park) => {
                self.change_parked(place, destination, park)?;
                return Ok(Settled::Done);
            }
            Then::Split(parks) => {
                for park in parks {
                    self.split(place, destination, park)?;
                }
                self.counts.dropped += i64::from(parks.is_empty());
                if parks
                    .iter()
                    .any(|park| destination_text(park.destination.as_ref()) == destination)
                {
                    return Ok(Settled::Done);
                }
            }
        }
        self.remove_parked.execute(params![place, destination])?;
        Ok(Settled::Done)
    }

    fn publish_parked(&mut self, place: i64, destination: &str, receipt: &Receipt) -> Result<()> {
        let derived = row::derived_id(&self.standing.outbox_id, place);
        self.record_parked.execute(params![
            place,
            destination,
            derived.as_str(),
            self.standing.now,
            receipt.0,
            None::<&str>
        ])?;
        Ok(())
    }

    fn change_parked(&mut self, place: i64, destination: &str, park: &Park) -> Result<()> {
        let written = Written::of(park, self.standing.now);
        self.change_parked.execute(params![
            place,
            destination,
            park.dead,
            written.next_attempt_at,
            park.attempts,
            park.failures,
            park.maybe_sent,
            written.error_kind,
            written.error_text,
            self.standing.now,
        ])?;
        Ok(())
    }

    /// Puts one of the rows that replace a row in place. Where the event is parked for that destination already, that
    /// row stays as it is: it has attempts behind it, and the event is owed there once.
    fn split(&mut self, place: i64, from: &str, park: &Park) -> Result<()> {
        let written = Written::of(park, self.standing.now);
        if written.destination == from {
            return self.change_parked(place, from, park);
        }
        self.park_parked.execute(params![
            place,
            written.destination,
            park.dead,
            written.next_attempt_at,
            park.attempts,
            park.failures,
            park.maybe_sent,
            written.error_kind,
            written.error_text,
            self.standing.now,
            from,
        ])?;
        Ok(())
    }
}

/// The parts of a park that columns hold in another form.
struct Written<'a> {
    destination: &'a str,
    next_attempt_at: i64,
    error_kind: Option<&'static str>,
    error_text: Option<&'a str>,
}

impl<'a> Written<'a> {
    fn of(park: &'a Park, now: i64) -> Self {
        let failure = park.failure.as_ref();
        Self {
            destination: destination_text(park.destination.as_ref()),
            next_attempt_at: now.saturating_add(clock::micros(park.next_attempt_in)),
            error_kind: failure.map(|failure| failure.kind.as_str()),
            error_text: failure.map(|failure| &*failure.text),
        }
    }
}

/// The column's form of a destination: empty for a row that could not be routed, because null is equal to nothing.
pub(crate) fn destination_text(destination: Option<&DestinationName>) -> &str {
    destination.map_or("", DestinationName::as_str)
}

/// A row of one table as a new row of `outbox_parked`. Nothing is written where the place is taken.
fn park_sql(from: &str, named: &str, key: &str, version: &str) -> String {
    format!(
        "INSERT INTO {{outbox_parked}} (seq, destination, lane, order_key, event_id, {CARRIED}, version, dead,
                next_attempt_at, attempts, failures, maybe_sent, error_kind, error_text, first_failed_at,
                last_failed_at, updated_at)
         SELECT seq, ?2, lane, {key}, event_id, {CARRIED}, {version}, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
                iif(?8 IS NULL OR ?6 = 0, NULL, ?10), iif(?8 IS NULL OR ?6 = 0, NULL, ?10), ?10
         FROM {from} WHERE {named}
         ON CONFLICT (seq, destination) DO NOTHING"
    )
}

/// A parked row as a row of the history.
pub(crate) fn record_parked_sql(outcome: &str) -> String {
    format!(
        "INSERT INTO {{outbox_sent}} (seq, destination, event_id, outcome, published_at, receipt, reason, attempts,
                failures, error_kind, error_text, last_failed_at, {CARRIED})
         SELECT seq, nullif(destination, ''), coalesce(event_id, ?3), {outcome}, ?4, ?5, ?6, attempts,
                failures, error_kind, error_text, last_failed_at, {CARRIED}
         FROM {{outbox_parked}} WHERE seq = ?1 AND destination = ?2"
    )
}
