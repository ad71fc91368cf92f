//! Listings: what may match is found by index, and only what does is put together from wherever it stands.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use postrider_core::{Cursor, EventId, EventRecord, Filter, List, Listing, Timestamp};

use super::arm::{Arm, Towards};
use super::record::record;
use super::{View, line, place_of, timeline};
use crate::error::Result;

/// How long one page may be searched for. A filter that matches little in a long history answers what it has found by
/// then, with a cursor to go on.
const PATIENCE: Duration = Duration::from_millis(120);

/// Above every name of a destination.
const ABOVE_ALL: &str = "\u{10ffff}";

/// Events that match, in the order that was asked for.
pub(super) fn list(view: &View<'_>, list: &List) -> Result<Listing> {
    let limit = list.limit.max(1) as usize;
    let mut search = Search::begin(view, list, Some(Instant::now() + PATIENCE))?;
    let mut listing = Listing::default();
    while let Some(place) = search.next(view)? {
        if listing.events.len() == limit {
            listing.next = search.passed.map(|place| Cursor::at(place, ""));
            return Ok(listing);
        }
        search.passed = Some(place);
        listing.events.extend(record(view, place)?);
    }
    listing.next = search.ended_at().map(|place| Cursor::at(place, ""));
    Ok(listing)
}

/// Every record that has the id, with its story.
pub(super) fn show(view: &View<'_>, id: &EventId) -> Result<Vec<EventRecord>> {
    let mut records = find(view, id)?;
    timeline::tell(view, &mut records)?;
    records
        .iter_mut()
        .try_for_each(|record| line::tell(view, record))?;
    Ok(records)
}

/// Every record that has the id.
pub(super) fn find(view: &View<'_>, id: &EventId) -> Result<Vec<EventRecord>> {
    let filter = Filter {
        event_id: vec![id.clone()],
        ..Filter::default()
    };
    let all = List::first(u32::MAX, filter);
    let mut search = Search::begin(view, &all, None)?;
    let mut records = Vec::new();
    while let Some(place) = search.next(view)? {
        records.extend(record(view, place)?);
    }
    Ok(records)
}

/// The places of events that match, merged from all tables.
struct Search<'a> {
    filter: &'a Filter,
    towards: Towards,
    until: Option<Instant>,
    walks: Vec<Walk>,
    /// The last place that was answered.
    passed: Option<i64>,
    out_of_time: bool,
}

/// How far one table was searched.
struct Walk {
    arm: Arm,
    at: i64,
    found: VecDeque<i64>,
    strides: usize,
    ended: bool,
}

impl<'a> Search<'a> {
    fn begin(view: &View<'_>, list: &'a List, until: Option<Instant>) -> Result<Self> {
        let towards = match list.newest_first {
            true => Towards::Oldest,
            false => Towards::Newest,
        };
        let at = match (&list.from, towards) {
            (Some(from), _) => place_of(Some(from))?.0,
            (None, Towards::Newest) => 0,
            (None, Towards::Oldest) => i64::MAX,
        };
        let walk = |arm| Walk {
            arm,
            at,
            found: VecDeque::new(),
            strides: 0,
            ended: false,
        };
        let arms = Arm::all(view, &list.filter, towards)?;
        Ok(Self {
            filter: &list.filter,
            towards,
            until,
            walks: arms.into_iter().map(walk).collect(),
            passed: None,
            out_of_time: false,
        })
    }

    /// The next place that matches; none at the end, or when the time is over.
    fn next(&mut self, view: &View<'_>) -> Result<Option<i64>> {
        let mut next = self.front();
        while let Some(index) = self.behind(next) {
            if self.is_late() && self.walks.iter().all(|walk| walk.strides > 0) {
                self.out_of_time = true;
                return Ok(None);
            }
            self.walks[index].go_on(view, self.filter, self.towards, self.until)?;
            next = self.front();
        }
        for walk in &mut self.walks {
            if walk.found.front().copied() == next {
                walk.found.pop_front();
            }
        }
        Ok(next)
    }

    /// The first of what was found and not answered.
    fn front(&self) -> Option<i64> {
        let fronts = self.walks.iter().filter_map(|walk| walk.found.front().copied());
        match self.towards {
            Towards::Newest => fronts.min(),
            Towards::Oldest => fronts.max(),
        }
    }

    /// The walk that is least far, of those that may still come to something before the front. Side by side they come
    /// equally far in the time of a page: where one of them is left behind, the next page begins with it, and all that
    /// the others had looked at is looked at again.
    fn behind(&self, front: Option<i64>) -> Option<usize> {
        // How far a place is, whichever way.
        let far = |place: i64| match self.towards {
            Towards::Newest => place,
            Towards::Oldest => -place,
        };
        let walks = self.walks.iter().enumerate();
        let unsure =
            walks.filter(|(_, walk)| walk.is_unsure() && front.is_none_or(|front| far(walk.at) < far(front)));
        unsure
            .min_by_key(|(_, walk)| far(walk.at))
            .map(|(index, _)| index)
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Where to go on with a search that ran out of time: nothing that matches lies between the last answer and here.
    fn ended_at(&self) -> Option<i64> {
        let unfinished = self.walks.iter().filter(|walk| !walk.ended);
        // What a walk has found and not answered is still to come.
        let known = unfinished.map(|walk| walk.at);
        let found = self.walks.iter().filter_map(|walk| walk.found.front().copied());
        let least = match self.towards {
            Towards::Newest => known.chain(found.map(|place| place - 1)).min(),
            Towards::Oldest => known.chain(found.map(|place| place + 1)).max(),
        };
        least.filter(|_| self.out_of_time)
    }
}

impl Walk {
    /// Whether it cannot say what comes next in its table.
    fn is_unsure(&self) -> bool {
        self.found.is_empty() && !self.ended
    }

    fn go_on(
        &mut self,
        view: &View<'_>,
        filter: &Filter,
        towards: Towards,
        until: Option<Instant>,
    ) -> Result<()> {
        let destination = match towards {
            Towards::Newest => ABOVE_ALL,
            Towards::Oldest => "",
        };
        let (mut rows, is_all) = self.arm.stride_until(view, (self.at, destination), until)?;
        self.strides += 1;
        self.ended = is_all;
        let (first, last) = (
            rows.first().map(|row| row.place),
            rows.last().map(|row| row.place),
        );
        // The rows of the last event may go on beyond the stride.
        let is_cut = !self.ended && first == last;
        if !self.ended && first != last {
            rows.retain(|row| Some(row.place) != last);
        }
        for row in rows {
            self.at = row.place;
            if self.found.back() != Some(&row.place) && row.is_meant(view, filter) {
                self.found.push_back(row.place);
            }
        }
        // One event fills the stride, and the next one begins behind its place: whatever these rows are, all decide.
        if let Some(place) = last.filter(|place| is_cut && self.found.back() != Some(place))
            && record(view, place)?.is_some_and(|record| is_meant(view, filter, &record))
        {
            self.found.push_back(place);
        }
        Ok(())
    }
}

fn is_meant(view: &View<'_>, filter: &Filter, record: &EventRecord) -> bool {
    let mut routes = record.routes.iter();
    routes.any(|route| filter.matches(record, route, Timestamp(view.standing.now)))
}
