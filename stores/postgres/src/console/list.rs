//! Listings: places are found by index, table by table, and the events of a page are put together in one go.

use std::time::Duration;

use postrider_core::{Cursor, EventId, EventRecord, Filter, List, Listing, Timestamp};

use super::View;
use super::meant::Table;
use super::record::{Place, records};
use super::stretch::{Budget, Way};
use super::walk::Walk;
use super::{line, timeline};
use crate::error::Result;

/// Places that are looked for in one go, at most.
const STRIDE: usize = 500;

/// How long one page may be searched for, within what its statements let: none is begun that would take longer.
const PATIENCE: Duration = Duration::from_millis(90);

/// Events that match. What is found after much was looked at for nothing is given at once, with the place to go on
/// from: a page may have fewer events than there are.
pub(super) async fn list(view: &View, list: &List) -> Result<Listing> {
    page(view, list, Budget::within(PATIENCE)).await
}

async fn page(view: &View, list: &List, budget: Budget) -> Result<Listing> {
    let limit = list.limit.max(1) as usize;
    let mut search = Search::begin(view, list, budget)?;
    let mut at = search.passed.clone();
    let mut listing = Listing::default();
    loop {
        let wanted = (limit - listing.events.len() + 1).min(STRIDE);
        let found = search.next(view, wanted).await?;
        let mut events = records(view, &found.places).await?;
        for place in &found.places {
            let Some(record) = events
                .remove(place)
                .filter(|record| is_meant(view, &list.filter, record))
            else {
                continue;
            };
            if listing.events.len() == limit {
                listing.next = Some(Cursor::at(at.0, &at.1));
                return Ok(listing);
            }
            at = place.clone();
            listing.events.push(record);
        }
        let Some(to) = found.to else {
            return Ok(listing);
        };
        at = to;
        if search.budget.is_spent() {
            listing.next = Some(Cursor::at(at.0, &at.1));
            return Ok(listing);
        }
    }
}

/// Every record that has the id.
pub(super) async fn show(view: &View, id: &EventId) -> Result<Vec<EventRecord>> {
    let mut records = by_id(view, id).await?;
    timeline::tell(view, id, &mut records).await?;
    line::tell(view, &mut records).await?;
    Ok(records)
}

/// The same without what happened to it.
pub(super) async fn by_id(view: &View, id: &EventId) -> Result<Vec<EventRecord>> {
    let filter = Filter {
        event_id: vec![id.clone()],
        ..Filter::default()
    };
    let all = List::first(u32::MAX, filter);
    Ok(page(view, &all, Budget::default()).await?.events)
}

fn is_meant(view: &View, filter: &Filter, record: &EventRecord) -> bool {
    record
        .routes
        .iter()
        .any(|route| filter.matches(record, route, Timestamp(view.now)))
}

/// Places that a filter may be about, in order.
struct Found {
    places: Vec<Place>,
    /// How far all tables were looked through: a place without an id has been passed with all of its events. None: to
    /// their end.
    to: Option<Place>,
}

/// The tables side by side. Where one of them was left behind, the next page would begin with it, and all that the
/// others had looked at would be looked at again.
struct Search<'a> {
    filter: &'a Filter,
    way: Way,
    /// What was answered before. Without an id every event of the place was, or there is none.
    passed: Place,
    /// Where the page begins: before the place, if more of its events may be left.
    from: i64,
    walks: Vec<Walk>,
    budget: Budget,
}

impl<'a> Search<'a> {
    fn begin(view: &View, list: &'a List, budget: Budget) -> Result<Self> {
        let way = Way::of(list.newest_first);
        let passed = match &list.from {
            Some(cursor) => cursor.place()?,
            None => (way.start(), String::new()),
        };
        let from = match passed.1.is_empty() {
            true => passed.0,
            false => way.step(passed.0, -1),
        };
        // In the order in which events move, for those who see each statement's own moment: `by_id`.
        let tables = [Table::Queued, Table::Parked, Table::Sent].into_iter();
        let walks = tables.filter_map(|table| Walk::begin(&list.filter, table, view.now, from));
        Ok(Self {
            filter: &list.filter,
            way,
            passed,
            from,
            walks: walks.collect(),
            budget,
        })
    }

    /// The next places, so many at most; fewer when the time is over, but every page comes further.
    async fn next(&mut self, view: &View, wanted: usize) -> Result<Found> {
        while let Some(index) = self.least_far() {
            let walk = &self.walks[index];
            let is_late = walk.at != self.from && self.budget.is_spent() && !walk.ends_soon();
            if is_late || self.known(walk.at) >= wanted {
                break;
            }
            let walk = &mut self.walks[index];
            walk.go_on(view, self.filter, self.way, wanted, &mut self.budget)
                .await?;
        }
        // Behind the place that the slowest came to, the others are not complete.
        let reached = self.least_far().map(|index| self.walks[index].at);
        let mut found = Found {
            places: Vec::new(),
            to: reached.map(|place| (place, String::new())),
        };
        while let Some(front) = self.front(reached) {
            if found.places.len() == wanted {
                found.to = found.places.last().cloned();
                break;
            }
            for walk in &mut self.walks {
                if walk.found.front() == Some(&front) {
                    walk.found.pop_front();
                }
            }
            if !self.is_passed(&front) {
                found.places.push(front);
            }
        }
        Ok(found)
    }

    /// Whether an event of the place that the page begins in was answered before.
    fn is_passed(&self, place: &Place) -> bool {
        match self.way {
            _ if place.0 != self.passed.0 => false,
            Way::Up => *place <= self.passed,
            Way::Down => *place >= self.passed,
        }
    }

    /// The walk that is least far, of those that have not come to their end; of several the first.
    fn least_far(&self) -> Option<usize> {
        let walks = self.walks.iter().enumerate().filter(|(_, walk)| !walk.ended);
        walks
            .min_by_key(|(_, walk)| self.way.far(walk.at))
            .map(|(index, _)| index)
    }

    /// How many places were found up to one.
    fn known(&self, to: i64) -> usize {
        let up_to = |place: &&Place| !self.way.is_before(to, place.0);
        let counts = self
            .walks
            .iter()
            .map(|walk| walk.found.iter().take_while(up_to).count());
        counts.sum()
    }

    /// The first of what was found and not answered, up to a place.
    fn front(&self, to: Option<i64>) -> Option<Place> {
        let fronts = self.walks.iter().filter_map(|walk| walk.found.front());
        let fronts = fronts.filter(|place| to.is_none_or(|to| !self.way.is_before(to, place.0)));
        let first = match self.way {
            Way::Up => fronts.min(),
            Way::Down => fronts.max(),
        };
        first.cloned()
    }
}

#[cfg(test)]
mod tests;
