//! Which parked rows are due: the heads of their lines, found by stepping from line to line.
//!
//! A line is the parked rows of one destination, key and lane, in order. One index seek leads from a line to the
//! next, so a line of 100,000 followers costs as much as a line of one; destinations that are closed are not looked
//! at; and keys that hold nothing but dead rows are not in the index. What remains grows with the number of lines
//! that are waiting for their time, so one read visits a bounded number of them and the next one goes on behind it.
//! Rows that stand alone are in no line; the module `timed` finds them.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use postrider_core::{DestinationName, Read};
use rusqlite::{CachedStatement, OptionalExtension, Transaction, params};

use crate::clock;
use crate::error::Result;
use crate::ident::Tables;
use crate::row::{self, destination_text};
use crate::timed::Timed;

/// Lines that one read visits at most: a few milliseconds.
const VISITS: usize = 2_000;

/// When to look again if there were more lines than one read visits.
const GO_ON_IN: Duration = Duration::from_millis(20);

/// The parked rows of one destination, key and lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line {
    pub(crate) destination: String,
    pub(crate) key: String,
    pub(crate) lane: i64,
}

/// Where a search that was cut short goes on. The only thing that is remembered between reads.
#[derive(Debug, Default)]
pub(crate) struct Round {
    from: Option<Line>,
    /// When the first of the heads comes due that this round has passed.
    next_due: Option<i64>,
}

/// What a search has found.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Heads whose time has come, the oldest first.
    pub(crate) heads: Vec<(i64, Line)>,
    /// When the next one comes due.
    pub(crate) next_in: Option<Duration>,
    /// Every line was visited.
    pub(crate) to_end: bool,
}

/// The search for due heads in one snapshot.
pub(crate) struct Search<'tx, 'a> {
    read: &'a Read,
    now: i64,
    busy: HashSet<Line>,
    next_line: CachedStatement<'tx>,
    next_destination: CachedStatement<'tx>,
    is_held: CachedStatement<'tx>,
    barrier: CachedStatement<'tx>,
    behind: CachedStatement<'tx>,
    timed: Timed<'tx, 'a>,
}

/// The next lane of the key, or else the next key. A comparison of both at once, `(order_key, lane) > (?2, ?3)`, would
/// walk over every row of the line that it starts from.
pub(crate) const NEXT_LINE: &str = "SELECT * FROM (
         SELECT order_key, lane, seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_heads}
         WHERE dead = 0 AND {in_line} AND destination = ?1 AND order_key = ?2 AND lane > ?3 ORDER BY lane, seq LIMIT 1)
     UNION ALL SELECT * FROM (
         SELECT order_key, lane, seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_heads}
         WHERE dead = 0 AND {in_line} AND destination = ?1 AND order_key > ?2 ORDER BY order_key, lane, seq LIMIT 1)
     LIMIT 1";

pub(crate) const NEXT_DESTINATION: &str =
    "SELECT destination FROM {outbox_parked} INDEXED BY {outbox_parked_heads}
     WHERE dead = 0 AND {in_line} AND destination > ?1 ORDER BY destination LIMIT 1";

/// Whether a dead row of the line (unless those are passed over, ?5) or a row without a destination stands before ?4.
pub(crate) const IS_HELD: &str = "SELECT
     (?5 = 0 AND EXISTS (SELECT 1 FROM {outbox_parked} INDEXED BY {outbox_parked_line}
         WHERE order_key = ?1 AND lane = ?2 AND destination = ?3 AND dead = 1 AND seq < ?4))
     OR (?3 <> '' AND EXISTS (SELECT 1 FROM {outbox_parked} INDEXED BY {outbox_parked_line}
         WHERE order_key = ?1 AND lane = ?2 AND destination = '' AND dead IN (0, 1) AND seq < ?4))";

/// The first row behind ?4 that nothing of the line may pass, by the same rule.
pub(crate) const BARRIER: &str = "SELECT min(
     coalesce((SELECT min(seq) FROM {outbox_parked} INDEXED BY {outbox_parked_line}
         WHERE ?5 = 0 AND order_key = ?1 AND lane = ?2 AND destination = ?3 AND dead = 1
         AND seq > ?4), 9223372036854775807),
     coalesce((SELECT min(seq) FROM {outbox_parked} INDEXED BY {outbox_parked_line}
         WHERE ?3 <> '' AND order_key = ?1 AND lane = ?2 AND destination = '' AND dead = 0
         AND seq > ?4), 9223372036854775807),
     coalesce((SELECT min(seq) FROM {outbox_parked} INDEXED BY {outbox_parked_line}
         WHERE ?3 <> '' AND order_key = ?1 AND lane = ?2 AND destination = '' AND dead = 1
         AND seq > ?4), 9223372036854775807))";

pub(crate) const BEHIND: &str =
    "SELECT seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_heads}
     WHERE dead = 0 AND {in_line} AND destination = ?3 AND order_key = ?1 AND lane = ?2 AND seq > ?4
     ORDER BY seq LIMIT ?5";

impl<'tx, 'a> Search<'tx, 'a> {
    pub(crate) fn new(tx: &'tx Transaction<'_>, tables: &Tables, now: i64, read: &'a Read) -> Result<Self> {
        let prepare = |sql: &str| tx.prepare_cached(&tables.sql(sql));
        Ok(Self {
            read,
            now,
            busy: busy_lines(tx, tables, read)?,
            next_line: prepare(NEXT_LINE)?,
            next_destination: prepare(NEXT_DESTINATION)?,
            is_held: prepare(IS_HELD)?,
            barrier: prepare(BARRIER)?,
            behind: prepare(BEHIND)?,
            timed: Timed::new(tx, tables, now, read)?,
        })
    }

    /// What is due: heads of lines, and rows that stand alone.
    pub(crate) fn due(&mut self, round: &Mutex<Round>) -> Result<Due> {
        let mut due = self.due_heads(round)?;
        self.timed.add_to(&mut due, &self.busy)?;
        due.heads.sort_unstable();
        Ok(due)
    }

    /// Walks over all lines, or as far as one read goes. The read that ends a round says when the first of all that
    /// were passed comes due.
    fn due_heads(&mut self, round: &Mutex<Round>) -> Result<Due> {
        // A panic under this lock leaves at worst an odd place to go on from.
        let mut round = round.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Round { from, next_due } = std::mem::take(&mut *round);
        let mut due = Due {
            to_end: from.is_none(),
            next_in: next_due.map(|at| clock::until(self.now, at)),
            ..Due::default()
        };
        let mut at = from;
        for _ in 0..VISITS {
            let Some((line, seq, next_attempt)) = self.line_behind(at.as_ref())? else {
                return Ok(due);
            };
            self.visit(&line, seq, next_attempt, &mut due)?;
            at = Some(line);
        }
        // Where a head is due, the one behind it may be next.
        if !due.heads.is_empty() {
            due.wait_for(GO_ON_IN);
        }
        round.next_due = due
            .next_in
            .map(|wait| self.now.saturating_add(clock::micros(wait)));
        round.from = at;
        due.to_end = false;
        due.wait_for(GO_ON_IN);
        Ok(due)
    }

    /// The rows that may go directly behind a head: those that would be due if they were the head themselves. The first
    /// that would not be holds the rest.
    pub(crate) fn followers(&mut self, head: i64, line: &Line) -> Result<Vec<i64>> {
        if self.read.parked.followers == 0 {
            return Ok(Vec::new());
        }
        let passes_dead = i64::from(self.passes_dead(line));
        let barrier: i64 = self.barrier.query_row(
            params![line.key, line.lane, line.destination, head, passes_dead],
            |row| row.get(0),
        )?;
        let mut rows = self.behind.query(params![
            line.key,
            line.lane,
            line.destination,
            head,
            self.read.parked.followers
        ])?;
        let mut followers = Vec::new();
        while let Some(row) = rows.next()? {
            let (seq, next_attempt): (i64, i64) = (row.get(0)?, row.get(1)?);
            if seq >= barrier || next_attempt > self.now {
                break;
            }
            followers.push(seq);
        }
        Ok(followers)
    }

    /// Decides about the first row of a line that is not dead.
    fn visit(&mut self, line: &Line, seq: i64, next_attempt: i64, due: &mut Due) -> Result<()> {
        let wait = clock::until(self.now, next_attempt);
        let matters = wait.is_zero() || due.next_in.is_none_or(|known| wait < known);
        if !matters || self.busy.contains(line) {
            return Ok(());
        }
        let passes_dead = i64::from(self.passes_dead(line));
        let held: bool = self.is_held.query_row(
            params![line.key, line.lane, line.destination, seq, passes_dead],
            |row| row.get(0),
        )?;
        match held {
            true => {}
            false if wait.is_zero() => due.heads.push((seq, line.clone())),
            false => due.wait_for(wait),
        }
        Ok(())
    }

    /// The first line behind a place, or the very first.
    fn line_behind(&mut self, place: Option<&Line>) -> Result<Option<(Line, i64, i64)>> {
        let mut at = match place {
            Some(line) => line.clone(),
            None => before_all(String::new()),
        };
        loop {
            if !self.is_closed(&at.destination)
                && let Some(found) = self.line_of_destination(&at)?
            {
                return Ok(Some(found));
            }
            let next: Option<String> = self
                .next_destination
                .query_row([&at.destination], |row| row.get(0))
                .optional()?;
            match next {
                Some(destination) => at = before_all(destination),
                None => return Ok(None),
            }
        }
    }

    fn line_of_destination(&mut self, behind: &Line) -> Result<Option<(Line, i64, i64)>> {
        let found = self
            .next_line
            .query_row(params![behind.destination, behind.key, behind.lane], |row| {
                let line = Line {
                    destination: behind.destination.clone(),
                    key: row.get(0)?,
                    lane: row.get(1)?,
                };
                Ok((line, row.get(2)?, row.get(3)?))
            });
        Ok(found.optional()?)
    }

    fn is_closed(&self, destination: &str) -> bool {
        names(&self.read.parked.not_for, destination)
    }

    fn passes_dead(&self, line: &Line) -> bool {
        names(&self.read.skip_dead, &line.destination)
    }
}

impl Due {
    pub(crate) fn wait_for(&mut self, wait: Duration) {
        self.next_in = Some(self.next_in.map_or(wait, |known| known.min(wait)));
    }
}

fn before_all(destination: String) -> Line {
    Line {
        destination,
        key: String::new(),
        lane: i64::from(i8::MIN),
    }
}

pub(crate) fn names(list: &[DestinationName], destination: &str) -> bool {
    list.iter().any(|name| name.as_str() == destination)
}

/// The lines of the rows that the engine holds. A row that has left meanwhile holds nothing.
fn busy_lines(tx: &Transaction<'_>, tables: &Tables, read: &Read) -> Result<HashSet<Line>> {
    let sql = tables.sql("SELECT order_key, lane FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2");
    let mut find = tx.prepare_cached(&sql)?;
    let mut busy = HashSet::new();
    for (seq, destination) in &read.parked.busy {
        let destination = destination_text(destination.as_ref());
        let line = find.query_row(params![row::place(*seq), destination], |row| {
            Ok(Line {
                destination: destination.to_owned(),
                key: row.get(0)?,
                lane: row.get(1)?,
            })
        });
        busy.extend(line.optional()?);
    }
    Ok(busy)
}
