//! The short way of a read: when all floors are near the end, one look at the few rows above the lowest of them.
//!
//! Range by range a read costs as much when there is one new row as when there are a hundred, and a relay that keeps
//! up reads all the time. Whatever is not simple is left to the long way, so that there is one place that knows it
//! all.

use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::{Page, Range, Read};
use tokio_postgres::Row;

use crate::clock::Micros;
use crate::decode::{self, Answer};
use crate::error::Result;
use crate::ident::Tables;
use crate::lease;
use crate::read::Question;
use crate::row::{self, Stored};
use crate::schema;
use crate::session::Session;

/// How far behind the last place given all floors may lie. A relay that keeps up has fewer above its floors; one that
/// does not reads range by range, because the rows of one must not stand in the way of another.
const NEAR: i64 = 1_000;
/// One more than the rows that a look may find, and the bytes that each may have: together no more than the smallest
/// window is allowed to hold. They have come by the time they are found too many.
const ROWS: usize = 256;
pub(crate) const SHORT: usize = 64 * 1024;

const NAME: &str = "read near";

/// The columns of the answer, as `read_near.sql` has them.
mod column {
    use crate::row;

    pub(super) const GIVEN: usize = 0;
    pub(super) const INSTALLED: usize = 1;
    pub(super) const MOMENT: usize = 2;
    pub(super) const FILE: usize = 3;
    pub(super) const PAGES: usize = 4;
    pub(super) const MOVES: usize = 5;
    pub(super) const STORED: usize = 6;
    pub(super) const SEQ: usize = STORED + row::SEQ;
    pub(super) const SHARD: usize = STORED + row::SHARD;
    pub(super) const LANE: usize = STORED + row::LANE;
    pub(super) const SIZE: usize = STORED + row::COUNT;
    pub(super) const BLOCKED: usize = SIZE + 1;
    pub(super) const KNOWN: usize = SIZE + 2;
}

/// The statement, and whether the last reads found that it may do.
#[derive(Debug)]
pub(crate) struct Near {
    sql: String,
    /// Parked rows move: every short look would be in vain.
    parked: AtomicBool,
}

impl Near {
    /// Without a duplicate window the history is not looked at, not even for planning.
    pub(crate) fn new(tables: &Tables, dedup: bool) -> Self {
        let known = match dedup {
            true => format!("EXISTS (SELECT 1 {})", decode::sent("o", "$5")),
            false => "$5::double precision IS NOT NULL".to_owned(),
        };
        let template = include_str!("sql/read_near.sql")
            .replace("{says}", decode::SAYS)
            .replace("{rows}", &ROWS.to_string())
            .replace("{known o}", &known);
        Self {
            sql: tables.sql(&template),
            parked: AtomicBool::new(true),
        }
    }

    #[cfg(test)]
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// Whether all floors are near the last place that was given.
    pub(crate) fn will_do(&self, read: &Read, given: i64) -> bool {
        !self.parked.load(Ordering::Relaxed) && (0..NEAR).contains(&(given - lowest(&read.ranges)))
    }

    /// Takes what a read range by range saw of parked rows that move.
    pub(crate) fn saw_parked(&self, any: bool) {
        self.parked.store(any, Ordering::Relaxed);
    }

    /// The statement, so that asking is one message.
    pub(crate) async fn prepare(&self, session: &Session) -> Result<()> {
        session.prepare(NAME, &self.sql).await.map(drop)
    }

    /// Asks, and puts the rows into the page; none, and the page as it was, when it takes the long way.
    pub(crate) async fn ask(
        &self,
        session: &Session,
        question: &Question,
        read: &Read,
        page: &mut Page,
    ) -> Result<Option<Answer>> {
        let mut shards: Vec<i16> = read
            .ranges
            .iter()
            .map(|range| lease::shard(range.shard))
            .collect();
        shards.sort_unstable();
        shards.dedup();
        let floor = lowest(&read.ranges);
        let rows = session
            .ask(
                NAME,
                &self.sql,
                &[
                    &floor,
                    &question.skip,
                    &shards,
                    &question.begun.shards,
                    &question.dedup,
                ],
            )
            .await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        schema::check(first.try_get(column::INSTALLED)?)?;
        match is_simple(&rows, read)? {
            true => answer(first, &rows, &read.ranges, page).map(Some),
            false => Ok(None),
        }
    }
}

fn lowest(ranges: &[Range]) -> i64 {
    ranges
        .iter()
        .map(|range| row::place(range.floor))
        .min()
        .unwrap_or_default()
}

/// Whether these rows are all there is and can be sent as they are: none is left out, too large, behind a parked row or
/// published before, and no parked row moves.
fn is_simple(rows: &[Row], read: &Read) -> Result<bool> {
    let mut counts = vec![0; read.ranges.len()];
    let mut bytes = 0;
    for row in rows {
        if rows.len() >= ROWS || row.try_get(column::MOVES)? {
            return Ok(false);
        }
        let Some(index) = index(row, &read.ranges)? else {
            continue;
        };
        let size = usize::try_from(row.try_get::<_, i64>(column::SIZE)?).unwrap_or(usize::MAX);
        counts[index] += 1;
        bytes += size;
        let blocked = row.try_get::<_, Option<bool>>(column::BLOCKED)?.is_some();
        let known: bool = row.try_get(column::KNOWN)?;
        if size > SHORT || blocked || known || counts[index] > read.ranges[index].limit {
            return Ok(false);
        }
    }
    Ok(bytes <= read.max_bytes)
}

fn answer(first: &Row, rows: &[Row], ranges: &[Range], page: &mut Page) -> Result<Answer> {
    let mut answer = Answer::to(ranges.len());
    answer.given = first.try_get(column::GIVEN)?;
    answer.file = first.try_get(column::FILE)?;
    answer.pages = first.try_get(column::PAGES)?;
    answer.now = first.try_get::<_, Micros>(column::MOMENT)?.0;
    // No parked row moves.
    answer.all_due = true;
    for row in rows {
        if let Some(index) = index(row, ranges)? {
            let stored = Stored::read(row, column::STORED)?;
            answer.bring(index, stored.seq, ranges, page);
            page.queued.push(answer.row(stored, None, Vec::new()));
        }
    }
    Ok(answer)
}

/// Which range a row belongs to; none for a head without a row, and for one that its range has passed.
fn index(row: &Row, ranges: &[Range]) -> Result<Option<usize>> {
    let Some(place) = row.try_get::<_, Option<i64>>(column::SEQ)? else {
        return Ok(None);
    };
    let (shard, lane) = (
        row.try_get::<_, i16>(column::SHARD)?,
        row.try_get::<_, i16>(column::LANE)?,
    );
    Ok(ranges.iter().position(|range| {
        lease::shard(range.shard) == shard
            && i64::from(range.lane.sign()) == i64::from(lane)
            && place > row::place(range.floor)
    }))
}
