//! One table of a listing, look by look. Each look is bounded, comes further than the one before, and leaves no row of
//! an event behind that it has come to.

use std::collections::VecDeque;
use std::time::Instant;

use postrider_core::Filter;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::View;
use super::meant::{Meant, Table, labels, only_heads};
use super::past::{History, LEAP};
use super::record::Place;
use super::stretch::{Budget, LONGEST, STRETCH, Way};
use crate::error::Result;

/// Parked rows whose word is looked up in one go, where the filter asks for it: each costs a look at its key.
pub(super) const WORDED: i64 = 10_000;

/// As many places of the history are looked at in the same time.
const COST: i64 = 5;

/// Rows that nothing of their own line stands before, those that stand alone, and those of paused keys: all that can be
/// held or scheduled.
const HEADS: &str = "(
         (SELECT DISTINCT ON (l.shard, l.destination, l.line, l.lane) l.seq, l.destination
          FROM {outbox_parked} l WHERE NOT l.dead AND {in_line l}
          ORDER BY l.shard, l.destination, l.line, l.lane, l.seq)
         UNION ALL
         SELECT a.seq, a.destination FROM {outbox_parked} a WHERE NOT a.dead AND {alone a}
         UNION ALL
         SELECT k.seq, k.destination FROM {outbox_parked} m
         JOIN {outbox_parked} k ON k.line = m.line AND k.lane = m.lane
         WHERE m.seq < 0 AND k.seq > 0 AND NOT k.dead)";

/// How far one table was searched.
pub(super) struct Walk {
    table: Table,
    pub(super) meant: Meant,
    /// Everything up to here was looked at.
    pub(super) at: i64,
    /// All of it was.
    pub(super) ended: bool,
    /// What was found and not answered, in order.
    pub(super) found: VecDeque<Place>,
    /// How many the next look takes: places of the history, rows of the others.
    pub(super) size: i64,
    /// The last look at the history met no row at all, so that the next one may begin far from it.
    pub(super) gap: bool,
    /// How many times more places the next look by an index may take.
    pub(super) leap: i64,
    /// How often it was searched by its index.
    pub(super) leaps: u32,
    /// What is known of the history, once it was asked for.
    pub(super) history: Option<History>,
}

/// What a look is for.
pub(super) struct Look<'a> {
    pub(super) view: &'a View,
    pub(super) filter: &'a Filter,
    pub(super) way: Way,
    pub(super) wanted: usize,
}

impl Walk {
    /// From a place on; none: the table holds nothing that is meant.
    pub(super) fn begin(filter: &Filter, table: Table, now: i64, at: i64) -> Option<Self> {
        let is_worded = table == Table::Parked && labels(filter).is_some();
        Some(Self {
            table,
            meant: Meant::of(filter, table, now, 3)?,
            at,
            ended: false,
            found: VecDeque::new(),
            size: if is_worded { WORDED / 10 } else { STRETCH },
            gap: false,
            leap: LEAP,
            leaps: 0,
            history: None,
        })
    }

    /// Looks at what comes next, for so many places at most. However late it is, it comes further.
    pub(super) async fn go_on(
        &mut self,
        view: &View,
        filter: &Filter,
        way: Way,
        wanted: usize,
        budget: &mut Budget,
    ) -> Result<()> {
        let look = Look {
            view,
            filter,
            way,
            wanted,
        };
        match self.table {
            Table::Sent => self.history(&look, budget).await,
            Table::Queued => self.rows(&look, "{outbox}", budget).await,
            Table::Parked => match labels(filter) {
                Some(words) => self.worded(&look, &words, budget).await,
                None => self.rows(&look, "{outbox_parked}", budget).await,
            },
        }
    }

    /// Takes in what a look has found, and how far it has come; none: to the end.
    pub(super) fn saw(&mut self, way: Way, mut places: Vec<Place>, reached: Option<i64>) {
        places.sort_unstable();
        places.dedup();
        match way {
            Way::Up => self.found.extend(places),
            Way::Down => self.found.extend(places.into_iter().rev()),
        }
        match reached {
            Some(place) => self.at = place,
            None => self.ended = true,
        }
    }

    /// Rows by whatever index the planner takes, in order. Where none leads to them, a number of rows is looked at.
    async fn rows(&mut self, look: &Look<'_>, table: &str, budget: &mut Budget) -> Result<()> {
        let Look { way, .. } = *look;
        let began = Instant::now();
        let bound = match self.meant.counted {
            Some(all) => self.behind(look, table, all).await?,
            None => None,
        };
        let within = bound.map(|bound| format!(" AND seq {} {bound}", way.up_to()));
        let sql = format!(
            "SELECT seq, coalesce(event_id, 'seq-' || seq) FROM {table} WHERE seq {} $1{}{} ORDER BY seq {}
             FETCH FIRST $2 ROWS WITH TIES",
            way.beyond(),
            within.unwrap_or_default(),
            self.meant.sql,
            way.order()
        );
        let (places, full) = first(look, &sql, self.at, &self.meant).await?;
        if full.is_none() && bound.is_some() {
            budget.spend(self.size);
            self.size = budget.next(self.size, began.elapsed(), (self.size * 2).min(LONGEST));
        }
        self.saw(way, places, full.or(bound));
        Ok(())
    }

    /// The place of the last row of the next look; none where there are not as many rows.
    async fn behind(&self, look: &Look<'_>, table: &str, all: &str) -> Result<Option<i64>> {
        let sql = look.view.sql(&format!(
            "SELECT seq FROM {table} WHERE seq {} $1{all} ORDER BY seq {} OFFSET $2 LIMIT 1",
            look.way.beyond(),
            look.way.order()
        ));
        let row = look
            .view
            .client()
            .query_opt(&sql, &[&self.at, &(self.size - 1)])
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Parked rows by the words that people see.
    async fn worded(&mut self, look: &Look<'_>, words: &[&str], budget: &mut Budget) -> Result<()> {
        let (from, conditions) = match only_heads(look.filter) {
            true => (HEADS, ""),
            false => ("{outbox_parked}", self.meant.sql.as_str()),
        };
        let order = look.way.order();
        let sql = format!(
            "SELECT c.seq, s.event_id, s.status = ANY ('{{{}}}'::text[]) FROM (
                 SELECT p.seq, p.destination FROM {from} p WHERE p.seq {} $1{conditions} ORDER BY p.seq {order}
                 FETCH FIRST $2 ROWS WITH TIES
             ) c CROSS JOIN LATERAL (
                 SELECT p.event_id, p.status FROM {{outbox_parked_status}} p
                 WHERE p.seq = c.seq AND p.destination = c.destination LIMIT 1
             ) s ORDER BY c.seq {order}",
            words.join(","),
            look.way.beyond(),
        );
        let visits = self.size;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&self.at, &visits];
        values.extend(self.meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
        let began = Instant::now();
        let rows = look.view.client().query(&look.view.sql(&sql), &values).await?;
        budget.spend(visits * COST);
        self.size = budget.next(visits, began.elapsed(), (visits * 4).min(WORDED));
        let last: Option<Place> = match rows.last() {
            Some(row) if i64::try_from(rows.len()).is_ok_and(|rows| rows >= visits) => {
                Some((row.try_get(0)?, row.try_get(1)?))
            }
            _ => None,
        };
        let mut places: Vec<Place> = Vec::new();
        for row in &rows {
            if row.try_get(2)? {
                places.push((row.try_get(0)?, row.try_get(1)?));
            }
        }
        let reached = last.as_ref().map(|last| last.0);
        // Whatever its words are, the last event that was looked at is put together, and the filter decides: it may be
        // the only one here.
        places.extend(last);
        self.saw(look.way, places, reached);
        Ok(())
    }
}

/// The first places that a statement answers from one on, and the last of them where there may be more. The statement
/// gives all rows of the last place, because the next look begins behind it.
pub(super) async fn first(
    look: &Look<'_>,
    sql: &str,
    at: i64,
    meant: &Meant,
) -> Result<(Vec<Place>, Option<i64>)> {
    let wanted = i64::try_from(look.wanted).unwrap_or(i64::MAX);
    let places = some(look, sql, at, wanted, meant).await?;
    let last = places.last().map(|last| last.0);
    let is_full = places.len() >= look.wanted;
    Ok((places, last.filter(|_| is_full)))
}

/// The places that a statement answers from one on, so many at most.
pub(super) async fn some(
    look: &Look<'_>,
    sql: &str,
    at: i64,
    most: i64,
    meant: &Meant,
) -> Result<Vec<Place>> {
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&at, &most];
    values.extend(meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
    let rows = look.view.client().query(&look.view.sql(sql), &values).await?;
    let place = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(place).collect()
}
