//! The history of a listing, look by look: stretch by stretch, or in leaps where the index of keys and types tells
//! which stretches cannot hold what is asked for.

use std::time::{Duration, Instant};

use super::View;
use super::edge::edge;
use super::meant::Meant;
use super::stretch::{Budget, LONGEST, STRETCH, Way, last_place, next_place};
use super::walk::{Look, Walk, first, some};
use crate::error::Result;

/// How many times more places the next look takes at most where an index leads to what is asked for: to find nothing
/// costs the same in many places as in few, so that what is rare is found in the second look.
pub(super) const LEAP: i64 = 2_048;

/// How many times fewer it takes where that was too far.
const BACK: i64 = 8;

/// So many rows of a look that leaps, and it has leapt too far: each may cost a stretch of its own.
const CROWD: i64 = 128;

/// So many leaps are made for a page even when its time is over: they come to the end of any history that holds little
/// of what is asked for, and where they are slow they are as slow on every page.
const LEAPS: u32 = 8;

/// So many keys or types are searched for by their index: each is a statement of its own for the planner.
const NAMED: usize = 16;

/// A look that takes so long reads stretches that the index knows nothing of, whichever places it is for: the next one
/// is for all of them.
const SLOW: Duration = Duration::from_millis(500);

/// The history as a whole.
#[derive(Clone, Copy)]
pub(super) struct History {
    /// No row has a higher place.
    last: i64,
    /// The index by key and type leads to what is meant, on every day.
    is_searched: bool,
}

impl Walk {
    /// Whether it is near its end, so that it is not worth another page.
    pub(super) fn ends_soon(&self) -> bool {
        self.history.is_some_and(|history| history.is_searched) && self.leaps < LEAPS
    }

    /// A stretch of the history.
    pub(super) async fn history(&mut self, look: &Look<'_>, budget: &mut Budget) -> Result<()> {
        let Look { view, way, .. } = *look;
        if !look.filter.event_id.is_empty() {
            return self.by_id(look).await;
        }
        let history = match self.history {
            Some(history) => history,
            None => self.enter(view, way).await?,
        };
        let last = history.last;
        // Only now that there is something to look for behind it: it takes a dozen statements.
        if std::mem::take(&mut self.gap) && way.goes_on(self.at, last) {
            let next = next_place(view, "{outbox_sent}", "", way, self.at, last).await?;
            self.at = next.unwrap_or(way.end(last));
        }
        if !way.goes_on(self.at, last) {
            self.ended = true;
            return Ok(());
        }
        match history.is_searched {
            true => self.leap(look, last, budget).await,
            false => self.stretch(look, last, budget).await,
        }
    }

    /// Goes to where the history begins this way. Before it there may be as many places as events are parked, or were
    /// removed.
    async fn enter(&mut self, view: &View, way: Way) -> Result<History> {
        let edge = match way {
            // Behind the first page it has been passed.
            Way::Up if self.at > way.start() => None,
            _ => edge(view, way).await?,
        };
        let last = match (way, edge) {
            (Way::Down, Some(edge)) => edge,
            _ => last_place(view).await?,
        };
        self.at = match way {
            Way::Up => edge.map_or(self.at, |edge| edge - 1),
            Way::Down => self.at.min(last.saturating_add(1)),
        };
        let is_named = (1..=NAMED).contains(&self.meant.named.len());
        Ok(*self.history.insert(History {
            last,
            is_searched: is_named && is_searched(view).await?,
        }))
    }

    /// The next places, row by row.
    async fn stretch(&mut self, look: &Look<'_>, last: i64, budget: &mut Budget) -> Result<()> {
        let way = look.way;
        let (low, high) = way.window(self.at, self.size);
        let sql = format!(
            "SELECT seq, event_id FROM {{outbox_sent}} WHERE seq > $1 AND seq <= {high}{} ORDER BY seq {}
             FETCH FIRST $2 ROWS WITH TIES",
            self.meant.sql,
            way.order()
        );
        let began = Instant::now();
        let (places, full) = first(look, &sql, low, &self.meant).await?;
        let took = began.elapsed();
        if full.is_some() {
            self.size = STRETCH;
            self.saw(way, places, full);
            return Ok(());
        }
        let reached = way.step(self.at, self.size);
        budget.spend(self.size);
        self.size = budget.next(self.size, took, (self.size * 2).min(LONGEST));
        self.gap = places.is_empty();
        self.saw(way, places, Some(reached).filter(|at| way.goes_on(*at, last)));
        Ok(())
    }

    /// The next places by the index of keys and types, farther each time. Rows come in no order, because to sort them
    /// all of them would have to be read: where there are too many the look was for nothing, and a shorter one follows.
    async fn leap(&mut self, look: &Look<'_>, last: i64, budget: &mut Budget) -> Result<()> {
        let way = look.way;
        let crowd = CROWD.max(i64::try_from(look.wanted).unwrap_or(CROWD));
        let (low, high) = way.window(self.at, self.size);
        let sql = searched(high, &self.meant);
        let began = Instant::now();
        let places = some(look, &sql, low, crowd, &self.meant).await?;
        let is_slow = began.elapsed() > SLOW;
        self.leaps += 1;
        budget.spend(STRETCH);
        let rows = i64::try_from(places.len()).unwrap_or(i64::MAX);
        if rows >= crowd {
            if self.size > STRETCH {
                self.size = (self.size / BACK).max(STRETCH);
                // The crowd is still ahead.
                self.leap = 2;
                return Ok(());
            }
            return self.stretch(look, last, budget).await;
        }
        let reached = way.step(self.at, self.size);
        // Where it is as frequent as here, half a crowd is found.
        let farther = match rows {
            0 => self.leap,
            rows => (crowd / 2 / rows).clamp(1, self.leap),
        };
        self.size = match is_slow {
            true => last,
            false => self.size.saturating_mul(farther),
        };
        self.saw(way, places, Some(reached).filter(|at| way.goes_on(*at, last)));
        Ok(())
    }

    /// The history by its index of ids.
    async fn by_id(&mut self, look: &Look<'_>) -> Result<()> {
        let sql = format!(
            "SELECT seq, event_id FROM {{outbox_sent}} WHERE seq {} $1{} ORDER BY seq {} FETCH FIRST $2 ROWS WITH TIES",
            look.way.beyond(),
            self.meant.sql,
            look.way.order()
        );
        let (places, full) = first(look, &sql, self.at, &self.meant).await?;
        self.saw(look.way, places, full);
        Ok(())
    }
}

/// Rows up to a place, by the index of keys and types: of what the statement asks no other index has a column, and each
/// of its parts has one condition for each column, which is the only way to ask it.
pub(super) fn searched(high: i64, meant: &Meant) -> String {
    let part = |named: &String| {
        format!(
            "SELECT seq, event_id FROM {{outbox_sent}} WHERE seq + 0 > $1 AND seq + 0 <= {high} AND {named}{}",
            meant.sql
        )
    };
    let parts: Vec<String> = meant.named.iter().map(part).collect();
    format!("{} LIMIT $2", parts.join(" UNION ALL "))
}

/// Whether every day has the index of keys and types. That the index as a whole is valid does not tell: it does not
/// become so when the last day without it is dropped.
pub(super) async fn is_searched(view: &View) -> Result<bool> {
    let sql = "SELECT NOT EXISTS (
         SELECT 1 FROM pg_catalog.pg_inherits d WHERE d.inhparent = '{outbox_sent}'::regclass AND NOT EXISTS (
             SELECT 1 FROM pg_catalog.pg_index x JOIN pg_catalog.pg_inherits a ON a.inhrelid = x.indexrelid
             WHERE x.indrelid = d.inhrelid AND x.indisvalid AND a.inhparent = to_regclass('{outbox_sent_search}')))";
    Ok(view.client().query_one(&view.sql(sql), &[]).await?.try_get(0)?)
}
