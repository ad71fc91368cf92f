//! The history by place. Its index knows stretches of places and not single ones, so it is walked stretch by stretch:
//! what is asked for in order is found in the first ones, and what is rare costs a bounded effort.

use std::time::{Duration, Instant};

use tokio_postgres::Statement;

use super::View;
use crate::error::Result;

/// How many places the first look takes; twice as many each time that was not enough.
pub(crate) const STRETCH: i64 = 4_096;

/// The most that one look takes.
pub(super) const LONGEST: i64 = 32_768;

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

    /// How the places up to one compare with it.
    pub(super) fn up_to(self) -> &'static str {
        match self {
            Way::Up => "<=",
            Way::Down => ">=",
        }
    }

    /// How far a place is.
    pub(super) fn far(self, place: i64) -> i64 {
        match self {
            Way::Up => place,
            Way::Down => place.saturating_neg(),
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

    /// A place that none is left behind.
    pub(super) fn end(self, last: i64) -> i64 {
        match self {
            Way::Up => last,
            Way::Down => 1,
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

/// No event has a higher place. The sequence alone does not tell: it may have been set back, or not have come along
/// when the database moved to another server, and an archive that ended there would have the rest of the history
/// removed.
pub(crate) async fn last_place(view: &View) -> Result<i64> {
    let last = "SELECT greatest(CASE WHEN is_called THEN last_value ELSE 0 END,
                    (SELECT max(seq) FROM {outbox_parked}), 0) FROM {outbox_seq}";
    let mut last: i64 = view.client().query_one(&view.sql(last), &[]).await?.try_get(0)?;
    let beyond = view.sql("SELECT EXISTS (SELECT 1 FROM {outbox_sent} WHERE seq > $1)");
    while view.client().query_one(&beyond, &[&last]).await?.try_get(0)? {
        last = last.max(STRETCH).saturating_mul(2);
    }
    Ok(last)
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
    let sql = view.sql(&format!(
        "SELECT EXISTS (SELECT 1 FROM {table} WHERE seq > $1 AND seq <= $2{only})"
    ));
    // Asked a dozen times, in a history of many days it takes longer to be understood than to be answered.
    let any = view.client().prepare(&sql).await?;
    let mut size = STRETCH;
    loop {
        if !way.goes_on(at, last) {
            return Ok(None);
        }
        if is_any(view, &any, way.window(at, size)).await? {
            break;
        }
        at = way.step(at, size);
        size = size.saturating_mul(2);
    }
    while size > STRETCH {
        size /= 2;
        if !is_any(view, &any, way.window(at, size)).await? {
            at = way.step(at, size);
        }
    }
    Ok(Some(at))
}

async fn is_any(view: &View, any: &Statement, (low, high): (i64, i64)) -> Result<bool> {
    Ok(view.client().query_one(any, &[&low, &high]).await?.try_get(0)?)
}
