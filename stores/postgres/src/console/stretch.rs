//! The history by place. Its index knows stretches of places and not single ones, so it is walked stretch by stretch:
//! what is asked for in order is found in the first ones, and what is rare costs a bounded effort.

use std::time::{Duration, Instant};

use postrider_core::Filter;

use super::View;
use super::list::{Arm, places};
use super::meant::Meant;
use super::record::Place;
use crate::error::Result;

/// How many places the first look takes; twice as many each time that was not enough.
pub(crate) const STRETCH: i64 = 4_096;

/// The most that one look takes.
const LONGEST: i64 = 32_768;

/// How many places are walked in search of a key or a type, which have an index of their own: whoever has come often
/// stands among these, and the index costs as much as some 100,000 places however little it finds.
const WALKED: i64 = 16_384;

/// In which order places are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

impl Way {
    pub(super) fn of(newest_first: bool) -> Self {
        if newest_first { Way::Down } else { Way::Up }
    }

    /// Before every place.
    pub(super) fn start(self) -> i64 {
        match self {
            Way::Up => 0,
            Way::Down => i64::MAX,
        }
    }

    /// How the places behind one compare with it.
    pub(super) fn beyond(self) -> &'static str {
        match self {
            Way::Up => ">",
            Way::Down => "<",
        }
    }

    pub(super) fn order(self) -> &'static str {
        match self {
            Way::Up => "ASC",
            Way::Down => "DESC",
        }
    }

    /// The one that is come to first.
    pub(super) fn first(self, one: i64, other: i64) -> i64 {
        match self {
            Way::Up => one.min(other),
            Way::Down => one.max(other),
        }
    }

    pub(super) fn is_before(self, one: i64, other: i64) -> bool {
        match self {
            Way::Up => one < other,
            Way::Down => one > other,
        }
    }

    /// The stretch behind a place: above the first number, up to the second.
    pub(crate) fn window(self, at: i64, size: i64) -> (i64, i64) {
        match self {
            Way::Up => (at, at.saturating_add(size)),
            Way::Down => (at.saturating_sub(size).saturating_sub(1), at.saturating_sub(1)),
        }
    }

    /// Where the next one begins.
    pub(crate) fn step(self, at: i64, size: i64) -> i64 {
        match self {
            Way::Up => at.saturating_add(size),
            Way::Down => at.saturating_sub(size),
        }
    }

    /// Whether places are left behind this one.
    pub(crate) fn goes_on(self, at: i64, last: i64) -> bool {
        match self {
            Way::Up => at < last,
            Way::Down => at > 1,
        }
    }
}

/// How many places may still be looked at for one answer, and for how long.
#[derive(Debug)]
pub(crate) struct Budget {
    left: i64,
    until: Option<Instant>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: 100_000,
            until: None,
        }
    }
}

impl Budget {
    /// For somebody who waits.
    pub(super) fn within(patience: Duration) -> Self {
        Self {
            until: Some(Instant::now() + patience),
            ..Self::default()
        }
    }

    pub(crate) fn spend(&mut self, places: i64) {
        self.left -= places;
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left <= 0 || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How many to look at next, where so many took so long: up to so many, as far as the time that is left lets. Few
    /// are looked at even then, or nothing would move.
    pub(super) fn next(&self, size: i64, took: Duration, most: i64) -> i64 {
        let Some(until) = self.until else {
            return most;
        };
        let left = until.saturating_duration_since(Instant::now());
        let fits = size as f64 * left.as_secs_f64() / took.as_secs_f64().max(1e-6);
        (fits as i64).clamp((STRETCH / 16).min(most), most)
    }
}

/// Places of the history that a filter may be about.
pub(super) async fn history(
    view: &View,
    filter: &Filter,
    meant: &Meant,
    way: Way,
    at: i64,
    wanted: usize,
    budget: &mut Budget,
) -> Result<Arm> {
    if !filter.event_id.is_empty() {
        return directly(view, "seq", meant, way, at, wanted).await;
    }
    let last = last_place(view).await?;
    let mut at = match way {
        Way::Up => at,
        Way::Down => at.min(last.saturating_add(1)),
    };
    let mut found: Vec<Place> = Vec::new();
    let mut size = STRETCH;
    let mut walked = 0;
    let indexed = !filter.key.is_empty() || !filter.event_type.is_empty();
    while way.goes_on(at, last) {
        if budget.is_spent() && !indexed {
            return Ok((found, Some(at)));
        }
        if indexed && (budget.is_spent() || walked >= WALKED) {
            // What was not found so far is rare, and its index tells which stretches cannot hold it.
            // A sum is no condition of the index by place, which the planner would prefer.
            let (rest, reached) = directly(view, "seq + 0", meant, way, at, wanted).await?;
            found.extend(rest);
            return Ok((found, reached));
        }
        let (low, high) = way.window(at, size);
        let sql = format!(
            "SELECT seq, event_id FROM {{outbox_sent}} WHERE seq > $1 AND seq <= $2{} ORDER BY seq {} LIMIT {wanted}",
            meant.sql,
            way.order()
        );
        let began = Instant::now();
        let some = places(view, &sql, low, high, meant).await?;
        let took = began.elapsed();
        let full = some.len() >= wanted;
        let empty = some.is_empty();
        found.extend(some);
        if let Some(reached) = found.last().filter(|_| full) {
            let reached = reached.0;
            return Ok((found, Some(reached)));
        }
        at = way.step(at, size);
        walked += size;
        budget.spend(size);
        if found.len() >= wanted {
            return Ok((found, Some(at)));
        }
        if empty {
            match next_place(view, "{outbox_sent}", "", way, at, last).await? {
                Some(next) => at = next,
                None => return Ok((found, None)),
            }
        }
        size = budget.next(size, took, (size * 2).min(LONGEST));
    }
    Ok((found, None))
}

/// By an index that leads to them.
async fn directly(view: &View, place: &str, meant: &Meant, way: Way, at: i64, wanted: usize) -> Result<Arm> {
    let sql = format!(
        "SELECT seq, event_id FROM {{outbox_sent}} WHERE {place} {} $1{} ORDER BY seq {} LIMIT $2",
        way.beyond(),
        meant.sql,
        way.order()
    );
    let found = places(view, &sql, at, i64::try_from(wanted).unwrap_or(i64::MAX), meant).await?;
    let reached = found.last().filter(|_| found.len() >= wanted).map(|last| last.0);
    Ok((found, reached))
}

/// No event has a higher place.
pub(crate) async fn last_place(view: &View) -> Result<i64> {
    let sql = view.sql("SELECT last_value FROM {outbox_seq}");
    Ok(view.client().query_one(&sql, &[]).await?.try_get(0)?)
}

/// A place before the next row of a table, at most a stretch away from it; none: there is no row behind.
pub(crate) async fn next_place(
    view: &View,
    table: &str,
    only: &str,
    way: Way,
    mut at: i64,
    last: i64,
) -> Result<Option<i64>> {
    let mut size = STRETCH;
    loop {
        if !way.goes_on(at, last) {
            return Ok(None);
        }
        if any(view, table, only, way.window(at, size)).await? {
            break;
        }
        at = way.step(at, size);
        size = size.saturating_mul(2);
    }
    while size > STRETCH {
        size /= 2;
        if !any(view, table, only, way.window(at, size)).await? {
            at = way.step(at, size);
        }
    }
    Ok(Some(at))
}

async fn any(view: &View, table: &str, only: &str, (low, high): (i64, i64)) -> Result<bool> {
    let sql = view.sql(&format!(
        "SELECT EXISTS (SELECT 1 FROM {table} WHERE seq > $1 AND seq <= $2{only})"
    ));
    Ok(view.client().query_one(&sql, &[&low, &high]).await?.try_get(0)?)
}
