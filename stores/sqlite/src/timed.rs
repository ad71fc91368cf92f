//! Which parked rows are due that stand alone: found by their time, whatever lies ahead of it.
//!
//! Each of them would be a line of its own, and a walk from line to line would visit 100,000 that are scheduled for
//! tomorrow to find the one that is due now.

use std::collections::HashSet;

use postrider_core::Read;
use rusqlite::{CachedStatement, OptionalExtension, Transaction, params};

use crate::clock;
use crate::error::Result;
use crate::heads::{Due, Line, names};
use crate::ident::Tables;

pub(crate) const NEXT_DESTINATION: &str =
    "SELECT destination FROM {outbox_parked} INDEXED BY {outbox_parked_time}
     WHERE dead = 0 AND {alone} AND destination > ?1 ORDER BY destination LIMIT 1";

pub(crate) const DUE: &str =
    "SELECT seq, order_key, lane FROM {outbox_parked} INDEXED BY {outbox_parked_time}
     WHERE dead = 0 AND {alone} AND destination = ?1 AND next_attempt_at <= ?2 ORDER BY next_attempt_at, seq LIMIT ?3";

pub(crate) const NEXT_DUE: &str =
    "SELECT next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_time}
     WHERE dead = 0 AND {alone} AND destination = ?1 AND next_attempt_at > ?2 ORDER BY next_attempt_at LIMIT 1";

/// The search for rows that stand alone, in one snapshot.
pub(crate) struct Timed<'tx, 'a> {
    read: &'a Read,
    now: i64,
    next_destination: CachedStatement<'tx>,
    due: CachedStatement<'tx>,
    next_due: CachedStatement<'tx>,
}

impl<'tx, 'a> Timed<'tx, 'a> {
    pub(crate) fn new(tx: &'tx Transaction<'_>, tables: &Tables, now: i64, read: &'a Read) -> Result<Self> {
        let prepare = |sql: &str| tx.prepare_cached(&tables.sql(sql));
        Ok(Self {
            read,
            now,
            next_destination: prepare(NEXT_DESTINATION)?,
            due: prepare(DUE)?,
            next_due: prepare(NEXT_DUE)?,
        })
    }

    /// Adds those that are due, and when the next one is, to what was found among the lines.
    pub(crate) fn add_to(&mut self, due: &mut Due, busy: &HashSet<Line>) -> Result<()> {
        // Rows without a destination come first, as the empty one.
        let mut destination = String::new();
        loop {
            if !names(&self.read.parked.not_for, &destination) {
                self.of_destination(&destination, due, busy)?;
            }
            let next = self
                .next_destination
                .query_row([&destination], |row| row.get(0))
                .optional()?;
            match next {
                Some(next) => destination = next,
                None => return Ok(()),
            }
        }
    }

    fn of_destination(&mut self, destination: &str, due: &mut Due, busy: &HashSet<Line>) -> Result<()> {
        // One more than is asked for shows that there are more; those in memory must not take the others' places.
        let limit = self.read.parked.heads as usize + 1;
        let visits = i64::try_from(limit + busy.len()).unwrap_or(i64::MAX);
        let mut rows = self.due.query(params![destination, self.now, visits])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            let line = Line {
                destination: destination.to_owned(),
                key: row.get(1)?,
                lane: row.get(2)?,
            };
            if !busy.contains(&line) && found < limit {
                found += 1;
                due.heads.push((row.get(0)?, line));
            }
        }
        let next: Option<i64> = self
            .next_due
            .query_row(params![destination, self.now], |row| row.get(0))
            .optional()?;
        if let Some(next) = next {
            due.wait_for(clock::until(self.now, next));
        }
        Ok(())
    }
}
