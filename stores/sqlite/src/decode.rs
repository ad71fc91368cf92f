//! One row as a read answers it: the event, what stands in its way, and where its id was published before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Blocked, DestinationName, ErrorKind, Event, Failure, ParkedRow, QueuedRow, SentBefore, Shard,
};
use rusqlite::{CachedStatement, OptionalExtension, Transaction, params};

use crate::clock;
use crate::error::Result;
use crate::heads::Line;
use crate::ident::Tables;
use crate::row::{BEHIND, Stored, destination_text};
use crate::schema::{self, Standing};

/// The columns behind a row: whether anything of its key and lane is parked, and whether its id is in the history. Each
/// is one probe of an index; the details are asked for only when it hits.
pub(crate) const QUEUED: &str = "SELECT {columns},
            EXISTS (SELECT 1 FROM {outbox_parked} p INDEXED BY {outbox_parked_line}
                    WHERE p.order_key = o.order_key AND p.lane = o.lane),
            ?2 AND EXISTS (SELECT 1 FROM {outbox_sent} s INDEXED BY {outbox_sent_event} WHERE s.event_id = o.event_id)
     FROM {outbox} o WHERE seq = ?1";

pub(crate) const PARKED: &str =
    "SELECT {columns}, version, attempts, failures, maybe_sent, redriven, first_failed_at, last_failed_at,
            edited IS NULL,
            ?3 AND EXISTS (SELECT 1 FROM {outbox_sent} s INDEXED BY {outbox_sent_event} WHERE s.event_id = p.event_id)
     FROM {outbox_parked} p WHERE seq = ?1 AND destination = ?2";

/// Copies of a replay say nothing about the event itself: one that a person sent elsewhere is still owed.
pub(crate) const SENT: &str =
    "SELECT {sent_columns}, destination FROM {outbox_sent} INDEXED BY {outbox_sent_event}
     WHERE event_id = ?1 AND published_at > ?2 AND outcome = 'published' AND destination IS NOT NULL
       AND replay_id IS NULL";

/// The destinations of a key and lane, one seek each.
pub(crate) const NEXT_BLOCK: &str = "SELECT destination FROM {outbox_parked} INDEXED BY {outbox_parked_line}
     WHERE order_key = ?1 AND lane = ?2 AND destination > ?3 ORDER BY destination LIMIT 1";

pub(crate) const ANY_BLOCK: &str = "SELECT 1 FROM {outbox_parked} INDEXED BY {outbox_parked_line}
     WHERE order_key = ?1 AND lane = ?2 AND destination = ?3 AND dead <= ?4 LIMIT 1";

/// The statements of one read, and what it needs to know.
pub(crate) struct Decoder<'tx> {
    standing: Standing,
    /// Publications before this do not count as duplicates; none: there is no such check.
    known_since: Option<i64>,
    skip_dead: &'tx [DestinationName],
    queued: CachedStatement<'tx>,
    parked: CachedStatement<'tx>,
    next_block: CachedStatement<'tx>,
    any_block: CachedStatement<'tx>,
    sent: CachedStatement<'tx>,
}

impl<'tx> Decoder<'tx> {
    pub(crate) fn new(
        tx: &'tx Transaction<'_>,
        tables: &Tables,
        standing: Standing,
        dedup: Option<Duration>,
        skip_dead: &'tx [DestinationName],
    ) -> Result<Self> {
        let prepare = |sql: &str| tx.prepare_cached(&tables.sql(sql));
        Ok(Self {
            known_since: dedup.map(|window| schema::since(standing.now, window)),
            skip_dead,
            queued: prepare(QUEUED)?,
            parked: prepare(PARKED)?,
            next_block: prepare(NEXT_BLOCK)?,
            any_block: prepare(ANY_BLOCK)?,
            sent: prepare(SENT)?,
            standing,
        })
    }

    pub(crate) fn now(&self) -> i64 {
        self.standing.now
    }

    /// A row of `outbox` and the bytes of its payload.
    pub(crate) fn queued(&mut self, place: i64) -> Result<(QueuedRow, usize)> {
        let (outbox_id, now) = (&self.standing.outbox_id, self.standing.now);
        let (stored, is_blocked, is_known) =
            self.queued
                .query_row(params![place, self.known_since.is_some()], |row| {
                    let stored = Stored::read(row, outbox_id, now)?;
                    Ok((
                        stored,
                        row.get::<_, bool>(BEHIND)?,
                        row.get::<_, bool>(BEHIND + 1)?,
                    ))
                })?;
        let size = stored.size;
        let mut row = self.answer(stored, is_known, false)?;
        if is_blocked {
            row.blocked = self.blocked(&row)?;
        }
        Ok((row, size))
    }

    /// A parked row and the bytes of its payload.
    pub(crate) fn parked(&mut self, place: i64, line: &Line) -> Result<Option<(ParkedRow, usize)>> {
        let (outbox_id, now) = (&self.standing.outbox_id, self.standing.now);
        let found = self.parked.query_row(
            params![place, line.destination, self.known_since.is_some()],
            |row| {
                let ago = |index: usize| -> rusqlite::Result<Option<Duration>> {
                    let at: Option<i64> = row.get(index)?;
                    Ok(at.map(|at| clock::until(at, now)))
                };
                let parked = Standings {
                    version: row.get(BEHIND)?,
                    attempts: row.get(BEHIND + 1)?,
                    failures: row.get(BEHIND + 2)?,
                    maybe_sent: row.get(BEHIND + 3)?,
                    redriven: row.get(BEHIND + 4)?,
                    failing_for: ago(BEHIND + 5)?,
                    failed_ago: ago(BEHIND + 6)?,
                    is_unedited: row.get(BEHIND + 7)?,
                    is_known: row.get(BEHIND + 8)?,
                };
                Ok((Stored::read(row, outbox_id, now)?, parked))
            },
        );
        let Some((stored, parked)) = found.optional()? else {
            return Ok(None);
        };
        let size = stored.size;
        let row = ParkedRow {
            row: self.answer(stored, parked.is_known, parked.is_unedited)?,
            destination: (!line.destination.is_empty())
                .then(|| DestinationName::from(line.destination.as_str())),
            version: u64::try_from(parked.version).unwrap_or(0),
            attempts: parked.attempts,
            failures: parked.failures,
            // What failed only before it was routed anew has not failed where it goes now.
            failed_ago: parked.failing_for.and(parked.failed_ago),
            failing_for: parked.failing_for,
            maybe_sent: parked.maybe_sent,
            redriven: parked.redriven,
        };
        Ok(Some((row, size)))
    }

    fn answer(&mut self, stored: Stored, is_known: bool, is_unedited: bool) -> Result<QueuedRow> {
        let due_in = match stored.available_at {
            Some(at) => clock::until(self.standing.now, at.0),
            None => Duration::ZERO,
        };
        let sent_before = match &stored.event {
            Ok(event) if is_known && stored.replay.is_none() => {
                self.sent_before(&stored, event, is_unedited)?
            }
            _ => Vec::new(),
        };
        Ok(QueuedRow {
            seq: stored.seq,
            shard: Shard(0),
            lane: stored.lane,
            key: stored.key,
            event_id: stored.event_id,
            event: match stored.event {
                Ok(event) => Ok(Arc::new(event)),
                Err(reason) => Err(Failure::new(ErrorKind::BadRow, reason)),
            },
            due_in,
            blocked: Blocked::Nowhere,
            sent_before,
            replay: stored.replay,
        })
    }

    fn blocked(&mut self, row: &QueuedRow) -> Result<Blocked> {
        let (key, lane) = (row.key.as_str(), row.lane.sign());
        if self
            .any_block
            .exists(params![key, lane, destination_text(None), 1])?
        {
            return Ok(Blocked::Everywhere);
        }
        let mut at = Vec::new();
        let mut behind = String::new();
        while let Some(destination) = self
            .next_block
            .query_row(params![key, lane, behind], |row| row.get::<_, String>(0))
            .optional()?
        {
            let passes_dead = self.skip_dead.iter().any(|name| name.as_str() == destination);
            if !passes_dead || self.any_block.exists(params![key, lane, destination, 0])? {
                at.push(DestinationName::from(destination.as_str()));
            }
            behind = destination;
        }
        Ok(if at.is_empty() {
            Blocked::Nowhere
        } else {
            Blocked::At(at)
        })
    }

    /// One entry a destination, even if the id was published there several times: the same content once is enough.
    /// Other content that was sent from the row's own place is what a person has edited since, or, where this row is
    /// parked and nobody has edited it, what a person has edited of another one.
    fn sent_before(&mut self, stored: &Stored, event: &Event, is_unedited: bool) -> Result<Vec<SentBefore>> {
        let Some(since) = self.known_since else {
            return Ok(Vec::new());
        };
        let (outbox_id, now) = (&self.standing.outbox_id, self.standing.now);
        let mut rows = self.sent.query(params![event.id.as_str(), since])?;
        let mut known: BTreeMap<DestinationName, bool> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let sent = Stored::read(row, outbox_id, now)?;
            let destination: String = row.get(BEHIND)?;
            let is_own = sent.seq == stored.seq;
            let is_this = is_own && sent.enqueued_at == stored.enqueued_at;
            let same = sent.event.is_ok_and(|sent| sent.same_content(event)) || is_unedited && is_this;
            if !same && is_own {
                continue;
            }
            *known.entry(destination.into()).or_default() |= same;
        }
        let entry = |(destination, same_content)| SentBefore {
            destination,
            same_content,
        };
        Ok(known.into_iter().map(entry).collect())
    }
}

/// The columns that only a parked row has.
struct Standings {
    version: i64,
    attempts: u32,
    failures: u32,
    maybe_sent: bool,
    redriven: bool,
    failing_for: Option<Duration>,
    failed_ago: Option<Duration>,
    is_unedited: bool,
    is_known: bool,
}
