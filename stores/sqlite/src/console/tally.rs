//! Parked rows by the words that people see, counted from indexes alone.
//!
//! The view `outbox_parked_status` asks for each row what stands before it. Here the rows of a line come one after the
//! other, so that only its head has something to ask, and what can stand before a head is known from the dead.

use std::collections::{BTreeMap, HashMap};

use postrider_core::Status;

use super::View;
use crate::error::Result;

/// How many parked rows there are of each kind.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) dead: u64,
    /// Those that move by themselves, by status word.
    pub(super) words: BTreeMap<&'static str, u64>,
    /// The lowest place of those that should have left by now.
    first: Option<(i64, String)>,
}

/// The first place of each line that holds what comes behind it: destination, key and lane.
type Holders = HashMap<(String, String, i64), i64>;

pub(crate) const DEAD: &str = "SELECT seq, destination, order_key, lane FROM {outbox_parked}
     INDEXED BY {outbox_parked_dead} WHERE dead = 1 AND seq > 0";

pub(crate) const MARKERS: &str =
    "SELECT order_key, lane FROM {outbox_parked} INDEXED BY {outbox_parked_place}
     WHERE seq < 0";

/// In the order of the index, so that a line is together and rows without a destination come first.
pub(crate) const IN_LINE: &str =
    "SELECT destination, order_key, lane, seq, next_attempt_at > ?1, error_kind IS NOT NULL
     FROM {outbox_parked} INDEXED BY {outbox_parked_heads} WHERE dead = 0 AND {in_line}
     ORDER BY destination, order_key, lane, seq";

pub(crate) const ALONE: &str =
    "SELECT destination, min(seq), next_attempt_at > ?1 AS later, error_kind IS NOT NULL AS failed,
            count(*)
     FROM {outbox_parked} INDEXED BY {outbox_parked_time} WHERE dead = 0 AND {alone}
     GROUP BY destination, later, failed";

impl Parked {
    pub(super) fn count(view: &View<'_>) -> Result<Self> {
        let mut parked = Parked::default();
        let mut holders = parked.count_dead(view)?;
        parked.count_lines(view, &mut holders)?;
        parked.count_alone(view)?;
        Ok(parked)
    }

    /// When the oldest of those came that should have left by now. Places follow time closely enough.
    pub(super) fn oldest(&self, view: &View<'_>) -> Result<Option<i64>> {
        let Some((place, destination)) = &self.first else {
            return Ok(None);
        };
        let sql = view.sql("SELECT enqueued_at FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2");
        let mut statement = view.tx.prepare_cached(&sql)?;
        Ok(statement.query_row(rusqlite::params![place, destination], |row| row.get(0))?)
    }

    fn count_dead(&mut self, view: &View<'_>) -> Result<Holders> {
        let mut holders = Holders::new();
        let mut statement = view.tx.prepare_cached(&view.sql(DEAD))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.dead += 1;
            // They come by their places, so the first of a line stays.
            let line = (row.get(1)?, row.get(2)?, row.get(3)?);
            holders.entry(line).or_insert(row.get(0)?);
        }
        let mut statement = view.tx.prepare_cached(&view.sql(MARKERS))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            holders.insert((String::new(), row.get(0)?, row.get(1)?), i64::MIN);
        }
        Ok(holders)
    }

    fn count_lines(&mut self, view: &View<'_>, holders: &mut Holders) -> Result<()> {
        let mut statement = view.tx.prepare_cached(&view.sql(IN_LINE))?;
        let mut rows = statement.query([view.standing.now])?;
        let mut line: Option<(String, String, i64)> = None;
        while let Some(row) = rows.next()? {
            let here = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (place, later, failed): (i64, bool, bool) = (row.get(3)?, row.get(4)?, row.get(5)?);
            let is_head = line.as_ref() != Some(&here);
            let everywhere = (String::new(), here.1.clone(), here.2);
            let before_all = holders.get(&everywhere).copied();
            let stands_before = |first: Option<i64>| first.is_some_and(|first| first < place);
            let word = if failed {
                Status::Retrying
            } else if before_all == Some(i64::MIN) {
                Status::Held
            } else if !is_head || stands_before(holders.get(&here).copied()) || stands_before(before_all) {
                Status::Waiting
            } else if later {
                Status::Scheduled
            } else {
                Status::Held
            };
            if is_head && here.0.is_empty() {
                // A row without a destination holds its key everywhere, dead or not.
                let first = holders.entry(everywhere).or_insert(place);
                *first = place.min(*first);
            }
            self.add(word, 1, (place, &here.0));
            line = Some(here);
        }
        Ok(())
    }

    fn count_alone(&mut self, view: &View<'_>) -> Result<()> {
        let mut statement = view.tx.prepare_cached(&view.sql(ALONE))?;
        let mut rows = statement.query([view.standing.now])?;
        while let Some(row) = rows.next()? {
            let destination: String = row.get(0)?;
            let (later, failed): (bool, bool) = (row.get(2)?, row.get(3)?);
            let word = match (failed, later) {
                (true, _) => Status::Retrying,
                (false, true) => Status::Scheduled,
                (false, false) => Status::Held,
            };
            self.add(word, super::count(row.get(4)?), (row.get(1)?, &destination));
        }
        Ok(())
    }

    fn add(&mut self, word: Status, rows: u64, (place, destination): (i64, &str)) {
        *self.words.entry(word.as_str()).or_default() += rows;
        let is_first = self.first.as_ref().is_none_or(|(first, _)| place < *first);
        if word != Status::Scheduled && is_first {
            self.first = Some((place, destination.to_owned()));
        }
    }
}
