//! The statements of a settle, and what each kind of entry does with them.

pub(crate) mod anew;

use postrider_core::{
    DestinationName, Leaves, Park, Receipt, Settle, SettleParked, SettleQueued, Settled, StoreErrorKind, Then,
};
use rusqlite::{CachedStatement, OptionalExtension, Transaction, params};

use crate::clock;
use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::row::{self, destination_text};
use crate::schema::Standing;
use crate::settle::{Counts, Fence, RECORD_AS_READ, SEND_EDITED};

/// A row without a usable id is named by the one derived from its place, ?3.
pub(crate) const FIND_QUEUED: &str = "SELECT 1 FROM {outbox} WHERE seq = ?1 AND (event_id = ?2 OR ?2 = ?3)";

pub(crate) const REMOVE_QUEUED: &str = "DELETE FROM {outbox} WHERE seq = ?1";

pub(crate) const RECORD_QUEUED: &str =
    "INSERT INTO {outbox_sent} (seq, event_id, destination, outcome, receipt, published_at, {carried})
     SELECT seq, coalesce(event_id, ?2), ?3, 'published', ?4, ?5, {carried} FROM {outbox} WHERE seq = ?1";

pub(crate) const PARK_QUEUED: &str =
    "INSERT INTO {outbox_parked} (seq, destination, lane, order_key, event_id, version, dead, next_attempt_at, attempts,
            failures, maybe_sent, error_kind, error_text, first_failed_at, last_failed_at, updated_at, error_group,
            {carried})
     SELECT seq, ?2, lane, ?11, event_id, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
            iif(?8 IS NULL, NULL, ?10), iif(?8 IS NULL, NULL, ?10), ?10, ?12, {carried}
     FROM {outbox} WHERE seq = ?1";

pub(crate) const FIND_PARKED: &str = "SELECT version, replay_id IS NOT NULL, edited, sent_as
     FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2";

pub(crate) const REMOVE_PARKED: &str = "DELETE FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2";

/// ?6 is the outcome, ?7 the reason for it.
pub(crate) const RECORD_PARKED: &str =
    "INSERT INTO {outbox_sent} (seq, destination, event_id, outcome, published_at, receipt, reason, attempts, failures,
            error_kind, error_text, last_failed_at, {carried})
     SELECT seq, nullif(destination, ''), coalesce(event_id, ?3), ?6, ?4, ?5, ?7, attempts, failures,
            error_kind, error_text, last_failed_at, {carried}
     FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2";

/// Counts are absolute. A change without a failure says nothing about the last one, so the error and its times stay as
/// they are. That an operator sent the row again is true until it needs one again.
pub(crate) const CHANGE_PARKED: &str =
    "UPDATE {outbox_parked} SET version = version + 1, dead = ?3, next_attempt_at = ?4, attempts = ?5, failures = ?6,
            maybe_sent = ?7, error_kind = coalesce(?8, error_kind), error_text = iif(?8 IS NULL, error_text, ?9),
            error_group = iif(?8 IS NULL, error_group, ?11), redriven = iif(?3 AND ?8 NOT NULL, 0, redriven),
            updated_at = ?10,
            first_failed_at = iif(?8 IS NULL, first_failed_at, coalesce(first_failed_at, ?10)),
            last_failed_at = iif(?8 IS NULL, last_failed_at, ?10)
     WHERE seq = ?1 AND destination = ?2";

/// The statements of one settle.
pub(crate) struct Writer<'tx> {
    standing: Standing,
    history: bool,
    counts: Counts,
    find_queued: CachedStatement<'tx>,
    remove_queued: CachedStatement<'tx>,
    record_queued: CachedStatement<'tx>,
    park_queued: CachedStatement<'tx>,
    find_parked: CachedStatement<'tx>,
    find_other: CachedStatement<'tx>,
    refuse_parked: CachedStatement<'tx>,
    remove_parked: CachedStatement<'tx>,
    record_parked: CachedStatement<'tx>,
    park_parked: CachedStatement<'tx>,
    keep_original: CachedStatement<'tx>,
    lead_next: CachedStatement<'tx>,
    change_parked: CachedStatement<'tx>,
    record_as_read: CachedStatement<'tx>,
    send_edited: CachedStatement<'tx>,
}

impl<'tx> Writer<'tx> {
    pub(crate) fn new(
        tx: &'tx Transaction<'_>,
        tables: &Tables,
        standing: Standing,
        history: bool,
    ) -> Result<Self> {
        let prepare = |sql: &str| tx.prepare_cached(&tables.sql(sql));
        Ok(Self {
            standing,
            history,
            counts: Counts::default(),
            find_queued: prepare(FIND_QUEUED)?,
            remove_queued: prepare(REMOVE_QUEUED)?,
            record_queued: prepare(RECORD_QUEUED)?,
            park_queued: prepare(PARK_QUEUED)?,
            find_parked: prepare(FIND_PARKED)?,
            find_other: prepare(anew::FIND_OTHER)?,
            refuse_parked: prepare(anew::REFUSE_PARKED)?,
            remove_parked: prepare(REMOVE_PARKED)?,
            record_parked: prepare(RECORD_PARKED)?,
            park_parked: prepare(anew::PARK_PARKED)?,
            keep_original: prepare(anew::KEEP_ORIGINAL)?,
            lead_next: prepare(anew::LEAD_NEXT)?,
            change_parked: prepare(CHANGE_PARKED)?,
            record_as_read: prepare(RECORD_AS_READ)?,
            send_edited: prepare(SEND_EDITED)?,
        })
    }

    pub(crate) fn write(&mut self, fence: &Fence, settle: &Settle) -> Result<Vec<Settled>> {
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
    pub(crate) fn close(self) -> Counts {
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
        if self.is_taken(place, &entry.leaves)? {
            return Ok(Settled::Kept);
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
        removed(self.remove_queued.execute([place])?)?;
        Ok(Settled::Done)
    }

    /// Whether another event is parked at the place that this one would take. That happens only to a database whose
    /// sequence was reset by hand; the row then stays queued, where it can be seen, because removing it would lose it.
    fn is_taken(&mut self, place: i64, leaves: &Leaves) -> Result<bool> {
        let Leaves::Decided { parked, .. } = leaves else {
            return Ok(false);
        };
        for park in parked {
            if self
                .find_parked
                .exists(params![place, destination_text(park.destination.as_ref())])?
            {
                return Ok(true);
            }
        }
        Ok(false)
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
        let (place, now) = (row::place(entry.seq), self.standing.now);
        insert(&mut self.park_queued, place, park, now, entry.key.as_str())
    }

    fn parked(&mut self, entry: &SettleParked) -> Result<Settled> {
        let place = row::place(entry.seq);
        let destination = destination_text(entry.destination.as_ref());
        let found = self
            .find_parked
            .query_row(params![place, destination], |row| {
                Ok(Found {
                    version: row.get(0)?,
                    is_copy: row.get(1)?,
                    edited: row.get(2)?,
                    sent_as: row.get(3)?,
                })
            })
            .optional()?;
        let Some(found) = found else {
            return Ok(Settled::Gone);
        };
        let read = i64::try_from(entry.version).unwrap_or(i64::MAX);
        let current = found.version == read;
        let is_edited = found.edited.is_some_and(|edited| edited > read);
        match &entry.then {
            // The row stayed for what was edited since, so only this tells that the settle was written before.
            Then::Sent(_) if is_edited && found.sent_as.is_some_and(|sent| sent >= read) => {
                return Ok(Settled::Gone);
            }
            // Confirmed wins, whatever an operator did meanwhile.
            Then::Sent(receipt) => {
                self.counts.published += i64::from(!found.is_copy);
                if self.history {
                    let id = self.publish_parked(place, destination, receipt)?;
                    if is_edited {
                        self.record_as_read
                            .execute(params![place, destination, read, id])?;
                    }
                }
                if is_edited {
                    self.send_edited
                        .execute(params![place, destination, self.standing.now, read])?;
                    return Ok(Settled::Done);
                }
            }
            // It was another payload that was published before.
            Then::Duplicate if is_edited => return Ok(Settled::Gone),
            Then::Duplicate => self.counts.duplicates += 1,
            Then::Again(_) | Then::Split(_) if !current => return Ok(Settled::Gone),
            Then::Again(park) => {
                self.change_parked(place, destination, park)?;
                return Ok(Settled::Done);
            }
            Then::Split(parks) if self.route_anew(place, destination, parks)? => {}
            Then::Split(_) => return Ok(Settled::Done),
        }
        removed(self.remove_parked.execute(params![place, destination])?)?;
        Ok(Settled::Done)
    }

    /// Answers the id of the row of the history.
    fn publish_parked(&mut self, place: i64, destination: &str, receipt: &Receipt) -> Result<i64> {
        let derived = row::derived_id(&self.standing.outbox_id, place);
        let id = self.record_parked.insert(params![
            place,
            destination,
            derived.as_str(),
            self.standing.now,
            receipt.0,
            "published",
            None::<&str>,
        ])?;
        Ok(id)
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
            written.error_group,
        ])?;
        Ok(())
    }
}

/// Makes a parked row of another row at its place: of a queued one with its key, of a parked one by its destination.
fn insert(statement: &mut CachedStatement<'_>, place: i64, park: &Park, now: i64, of: &str) -> Result<()> {
    let written = Written::of(park, now);
    statement.execute(params![
        place,
        written.destination,
        park.dead,
        written.next_attempt_at,
        park.attempts,
        park.failures,
        park.maybe_sent,
        written.error_kind,
        written.error_text,
        now,
        of,
        written.error_group,
    ])?;
    Ok(())
}

/// A row that stays although it was deleted would be published again and again, so nothing of the settle is written.
fn removed(rows: usize) -> Result<()> {
    match rows {
        0 => Err(Error::new(
            StoreErrorKind::Other,
            "a trigger keeps rows from being deleted: drop it, because what was published must leave the outbox",
        )),
        _ => Ok(()),
    }
}

/// What a settle has to know of a parked row.
struct Found {
    version: i64,
    is_copy: bool,
    edited: Option<i64>,
    sent_as: Option<i64>,
}

/// The parts of a park that columns hold in another form.
struct Written<'a> {
    destination: &'a str,
    next_attempt_at: i64,
    error_kind: Option<&'static str>,
    error_text: Option<&'a str>,
    error_group: Option<String>,
}

impl<'a> Written<'a> {
    fn of(park: &'a Park, now: i64) -> Self {
        let failure = park.failure.as_ref();
        Self {
            destination: destination_text(park.destination.as_ref()),
            next_attempt_at: match park.available_at {
                Some(at) => at.0,
                None => now.saturating_add(clock::micros(park.next_attempt_in)),
            },
            error_kind: failure.map(|failure| failure.kind.as_str()),
            error_text: failure.map(|failure| &*failure.text),
            error_group: failure.map(|failure| failure.group(park.destination.as_ref())),
        }
    }
}
