//! Which parked rows are due: the heads of their lines, found by stepping from line to line.
//!
//! A line is the parked rows of one shard, destination, key and lane, in order. One index seek leads from a line to the
//! next, so a line of 100,000 followers costs as much as a line of one; a closed destination is passed over in one
//! step; and keys that hold nothing but dead rows are not in the index. What remains grows with the number of lines
//! that wait for their time, so one read visits a bounded number of them and the next one goes on behind it.
//!
//! Scheduled rows stand alone and would each be a line of its own. They are found by their time instead, however many
//! there are.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::Page;
use tokio::time::Instant;

use crate::decode::Answer;

/// Lines that one read visits at most: a few milliseconds.
pub(crate) const VISITS: i64 = 2_000;

/// When to look again if there were more lines than one read visits.
const GO_ON_IN: Duration = Duration::from_millis(20);

/// Before every line of a shard: the empty destination, the lowest hash, below every lane.
const NOWHERE: (&str, &str, i16) = ("", "00000000-0000-0000-0000-000000000000", -2);

/// The last line of a shard that was visited: destination, hash of the key, lane.
pub(crate) type Line = (String, String, i16);

/// Where searches that were cut short go on, by shard. The only thing that is remembered between reads.
#[derive(Debug, Default)]
pub(crate) struct Round {
    from: Mutex<BTreeMap<i16, Place>>,
}

#[derive(Debug)]
struct Place {
    line: Line,
    /// When the first of the heads comes due that this round has passed.
    next_due: Option<Instant>,
}

/// Where a search begins.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) shards: Vec<i16>,
    /// The lines behind which it goes on in those of the shards that it did not come to the end of.
    lines: BTreeMap<i16, Line>,
    /// Whether any shard began in its middle.
    cut: bool,
    /// When the first of the heads comes due that the searches before have passed.
    next_due: Option<Instant>,
}

/// The lines behind which a search begins, one of each shard, as three arrays.
#[derive(Debug, Default)]
pub(crate) struct From {
    pub(crate) destinations: Vec<String>,
    pub(crate) lines: Vec<String>,
    pub(crate) lanes: Vec<i16>,
}

impl Begun {
    pub(crate) fn from(&self) -> From {
        let mut from = From::default();
        for shard in &self.shards {
            let (destination, hash, lane) = match self.lines.get(shard) {
                Some((destination, hash, lane)) => (destination.as_str(), hash.as_str(), *lane),
                None => NOWHERE,
            };
            from.destinations.push(destination.to_owned());
            from.lines.push(hash.to_owned());
            from.lanes.push(lane);
        }
        from
    }
}

impl Round {
    /// Where a search in these shards begins.
    pub(crate) fn begin(&self, shards: Vec<i16>) -> Begun {
        let from = self.lock();
        let mut begun = Begun::default();
        for (shard, place) in shards.iter().filter_map(|shard| Some((*shard, from.get(shard)?))) {
            begun.cut = true;
            begun.next_due = earlier(begun.next_due, place.next_due);
            begun.lines.insert(shard, place.line.clone());
        }
        begun.shards = shards;
        begun
    }

    /// Notes how far a search came. One that did not see everything says when to go on, and the one that ends the round
    /// when the first of all that were passed comes due.
    pub(crate) fn note(&self, begun: &Begun, answer: &Answer, page: &mut Page) {
        let mut from = self.lock();
        for shard in &begun.shards {
            from.remove(shard);
        }
        let full = answer.visited >= VISITS;
        let now = Instant::now();
        let next_due = earlier(begun.next_due, next_due(now, answer, page));
        if full {
            let reached = answer.reached.iter().cloned();
            from.extend(reached.map(|(shard, line)| (shard, Place { line, next_due })));
            page.next_due_in = Some(page.next_due_in.map_or(GO_ON_IN, |known| known.min(GO_ON_IN)));
        } else if begun.cut {
            page.next_due_in = next_due.map(|at| at.saturating_duration_since(now));
        }
        // Who asks for no heads has not seen them.
        page.parked_to_end = answer.all_due && !full && !begun.cut && !begun.shards.is_empty();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i16, Place>> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to look at the lines of a search again. Where a head was due, others may be, or the one behind it.
fn next_due(now: Instant, answer: &Answer, page: &Page) -> Option<Instant> {
    let wait = match answer.all_due && page.parked.is_empty() {
        true => page.next_due_in?,
        false => GO_ON_IN,
    };
    now.checked_add(wait)
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
