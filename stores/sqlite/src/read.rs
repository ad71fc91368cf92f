//! Reading in one snapshot: queued rows above the floors, and parked rows that are due.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use postrider_core::{Page, QueuedRow, Range, Read, Seq, Shard};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::decode::Decoder;
use crate::error::Result;
use crate::heads::{Round, Search};
use crate::ident::Tables;
use crate::{row, schema};

/// Reads a page. The snapshot ends with the call: no cursor outlives it, so a slow broker never keeps the log from
/// being truncated.
pub(crate) fn read(
    connection: &mut Connection,
    tables: &Tables,
    dedup: Option<Duration>,
    round: &Mutex<Round>,
    read: &Read,
) -> Result<Page> {
    let tx = connection.transaction()?;
    let standing = schema::check(&tx, tables)?;
    let mut page = Page {
        // One connection writes at a time, so what this snapshot does not show was given no place at or below.
        horizon: horizon(&tx, tables)?,
        ..Page::default()
    };
    let mut decoder = Decoder::new(&tx, tables, standing, dedup, &read.skip_dead)?;
    let mut budget = Budget {
        left: read.max_bytes,
        empty: true,
    };
    // Parked rows come first: what is returned is busy at the next read, so they cannot starve the queue, whereas a
    // steady backlog would starve them.
    if read.parked.shards.contains(&Shard(0)) && read.parked.heads > 0 {
        let mut search = Search::new(&tx, tables, decoder.now(), read)?;
        parked(&mut search, &mut decoder, round, read, &mut budget, &mut page)?;
    }
    queued(&tx, tables, &mut decoder, read, &mut budget, &mut page)?;
    Ok(page)
}

fn horizon(tx: &Transaction<'_>, tables: &Tables) -> Result<Seq> {
    let highest: Option<i64> = tx
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = ?1 COLLATE NOCASE")?
        .query_row([tables.prefix()], |row| row.get(0))
        .optional()?;
    Ok(row::seq(highest.unwrap_or(0)))
}

fn parked(
    search: &mut Search<'_, '_>,
    decoder: &mut Decoder<'_>,
    round: &Mutex<Round>,
    read: &Read,
    budget: &mut Budget,
    page: &mut Page,
) -> Result<()> {
    let due = search.due(round)?;
    page.next_due_in = due.next_in;
    page.parked_to_end = due.to_end && due.heads.len() <= read.parked.heads as usize;
    for (head, line) in due.heads.iter().take(read.parked.heads as usize) {
        let followers = search.followers(*head, line)?;
        for place in std::iter::once(*head).chain(followers) {
            let Some((row, size)) = decoder.parked(place, line)? else {
                continue;
            };
            if !budget.take(size) {
                page.parked_to_end = false;
                return Ok(());
            }
            page.parked.push(row);
        }
    }
    Ok(())
}

fn queued(
    tx: &Transaction<'_>,
    tables: &Tables,
    decoder: &mut Decoder<'_>,
    read: &Read,
    budget: &mut Budget,
    page: &mut Page,
) -> Result<()> {
    let mut cursors = Vec::with_capacity(read.ranges.len());
    for range in &read.ranges {
        cursors.push(Cursor::new(tx, tables, range)?);
    }
    // One row of each range in turn, so that a bound on bytes is shared by all of them.
    'full: loop {
        let mut moved = false;
        for cursor in &mut cursors {
            let Some(place) = cursor.next() else { continue };
            let (row, size) = decoder.queued(place)?;
            if !budget.take(size) {
                break 'full;
            }
            cursor.take(row);
            moved = true;
        }
        if !moved {
            break;
        }
    }
    for cursor in cursors {
        page.read_to.push(cursor.read_to());
        page.queued.extend(cursor.taken);
    }
    Ok(())
}

pub(crate) const RANGE: &str =
    "SELECT seq FROM {outbox} INDEXED BY {outbox_lane} WHERE lane = ?1 AND seq > ?2 ORDER BY seq";

/// The places of one range that are to be read, from the index alone: rows that the engine holds cost no look at their
/// payloads.
struct Cursor {
    places: VecDeque<i64>,
    limit: usize,
    taken: Vec<QueuedRow>,
}

impl Cursor {
    fn new(tx: &Transaction<'_>, tables: &Tables, range: &Range) -> Result<Self> {
        let limit = range.limit as usize;
        let mut places = VecDeque::new();
        // There is one shard; nothing is in the others.
        if range.shard == Shard(0) {
            let mut skip: Vec<i64> = range.skip.iter().map(|seq| row::place(*seq)).collect();
            skip.sort_unstable();
            let mut skip = skip.into_iter().peekable();
            let mut statement = tx.prepare_cached(&tables.sql(RANGE))?;
            let mut rows = statement.query(params![range.lane.sign(), row::place(range.floor)])?;
            // One more than wanted tells whether the range is exhausted.
            while places.len() <= limit
                && let Some(row) = rows.next()?
            {
                let place: i64 = row.get(0)?;
                while skip.next_if(|held| *held < place).is_some() {}
                if skip.peek() != Some(&place) {
                    places.push_back(place);
                }
            }
        }
        Ok(Self {
            places,
            limit,
            taken: Vec::new(),
        })
    }

    fn next(&self) -> Option<i64> {
        let first = self.places.front().copied();
        first.filter(|_| self.taken.len() < self.limit)
    }

    fn take(&mut self, row: QueuedRow) {
        self.places.pop_front();
        self.taken.push(row);
    }

    fn read_to(&self) -> Seq {
        let left_out = self.places.front().copied();
        left_out.map_or(Seq::MAX, |place| row::seq(place).before())
    }
}

/// What is left of the bound on bytes.
struct Budget {
    left: usize,
    empty: bool,
}

impl Budget {
    /// Whether a row of this size still fits. The first always does, or nothing would move.
    fn take(&mut self, size: usize) -> bool {
        if !self.empty && size > self.left {
            return false;
        }
        self.empty = false;
        self.left = self.left.saturating_sub(size);
        true
    }
}
