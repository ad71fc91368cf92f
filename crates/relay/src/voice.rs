//! The log lines of a relay: one for each thing worth knowing, with ids and sizes, never payloads.
//!
//! Two things would make a log useless, and both are kept out here: a line for each of 64 shards at every start, and a
//! thousand lines a second that say the same while a destination is away.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{EventId, Page, Shard, StoreError, inert, limits};
use tracing::{debug, error, info, warn};

use crate::engine::{Note, Time};

/// For how long lines of the same kind, destination and reason are counted together.
const WINDOW: Duration = Duration::from_secs(10);
/// How many of them are written: enough to see which events are concerned.
const BURST: u32 = 10;

/// An outage that lasts is told again after this time at the latest.
const LONGEST_SILENCE: Duration = Duration::from_secs(300);

/// What makes two lines the same: what happened, where, and why.
type Alike = (&'static str, String, &'static str);

#[derive(Debug)]
struct Said {
    since: Time,
    lines: u32,
    left_out: u64,
}

/// What one relay writes to the log.
#[derive(Debug)]
pub(crate) struct Voice {
    outbox: String,
    said: BTreeMap<Alike, Said>,
    /// What is away: when the next line about it may come, and how long after the last.
    away: BTreeMap<Alike, (Time, Duration)>,
    /// Leases won, by whether their last owner ended without releasing them, and leases lost, by whether on purpose.
    leases: BTreeMap<(&'static str, bool), Vec<Shard>>,
}

impl Voice {
    pub(crate) fn new(outbox: &str) -> Self {
        Self {
            outbox: outbox.to_owned(),
            said: BTreeMap::new(),
            away: BTreeMap::new(),
            leases: BTreeMap::new(),
        }
    }

    pub(crate) fn say(&mut self, now: Time, note: &Note) {
        match note {
            Note::LeaseWon { shard, unclean } => {
                self.leases.entry(("won", *unclean)).or_default().push(*shard)
            }
            Note::LeaseLost { shard, released } => {
                self.leases.entry(("lost", *released)).or_default().push(*shard);
            }
            note => {
                if let Some((what, which)) = healed(note) {
                    self.away
                        .retain(|away, _| (away.0, away.1.as_str()) != (what, which));
                }
                if outage(note).is_some_and(|away| !self.may_repeat(now, away)) {
                    return;
                }
                if alike(note).is_none_or(|alike| self.may_say(now, alike)) {
                    line(&self.outbox, note);
                }
            }
        }
    }

    /// Between two turns of the loop: writes what was gathered, and how much was left out.
    pub(crate) fn breathe(&mut self, now: Time) {
        for ((what, flag), shards) in std::mem::take(&mut self.leases) {
            let (outbox, count, shards) = (&self.outbox, shards.len(), ranges(shards));
            match what {
                "won" => info!(outbox, shards, count, unclean = flag, "lease won"),
                _ if flag => info!(outbox, shards, count, released = flag, "lease lost"),
                _ => warn!(outbox, shards, count, released = flag, "lease lost"),
            }
        }
        let outbox = &self.outbox;
        self.said.retain(|(what, destination, kind), said| {
            let open = now - said.since < WINDOW;
            if !open && said.left_out > 0 {
                let left_out = said.left_out;
                warn!(
                    outbox,
                    destination, kind, left_out, "more lines like this were left out: {what}"
                );
            }
            open
        });
    }

    /// What is still to be said when the relay ends.
    pub(crate) fn last_words(&mut self) {
        self.breathe(Time(Duration::MAX));
    }

    /// The first line of an outage is written at once, the next ones at doubling distances, until it is over.
    fn may_repeat(&mut self, now: Time, away: Alike) -> bool {
        let Some((next, distance)) = self.away.get_mut(&away) else {
            self.away.insert(away, (now + WINDOW, WINDOW));
            return true;
        };
        let due = now >= *next;
        if due {
            *distance = (*distance * 2).min(LONGEST_SILENCE);
            *next = now + *distance;
        }
        due
    }

    fn may_say(&mut self, now: Time, alike: Alike) -> bool {
        let said = self.said.entry(alike).or_insert(Said {
            since: now,
            lines: 0,
            left_out: 0,
        });
        if said.lines < BURST {
            said.lines += 1;
            return true;
        }
        said.left_out += 1;
        false
    }
}

/// How many events a read brought; silent about empty ones, of which an idle relay makes one a second.
pub(crate) fn read(outbox: &str, answer: &Result<Page, StoreError>) {
    if let Ok(page) = answer
        && page.queued.len() + page.parked.len() > 0
    {
        let (queued, parked) = (page.queued.len(), page.parked.len());
        debug!(outbox, queued, parked, "read");
    }
}

/// Something that is away, for which one line comes at every try: what it is, and why it is away.
fn outage(note: &Note) -> Option<Alike> {
    match note {
        Note::CircuitOpened {
            destination, failure, ..
        } => Some(("circuit", destination.to_string(), failure.kind.as_str())),
        Note::StoreFailed { doing, kind, .. } => Some(("database", (*doing).to_owned(), kind.as_str())),
        _ => None,
    }
}

/// What is there again.
fn healed(note: &Note) -> Option<(&'static str, &str)> {
    match note {
        Note::CircuitClosed { destination } => Some(("circuit", destination.as_str())),
        Note::StoreBack { doing } => Some(("database", doing)),
        _ => None,
    }
}

/// What lines that may come in masses have in common; none for lines that cannot.
fn alike(note: &Note) -> Option<Alike> {
    match note {
        Note::WillRetry {
            destination, failure, ..
        } => Some((
            "refused, will retry",
            destination.to_string(),
            failure.kind.as_str(),
        )),
        Note::Dead {
            destination, failure, ..
        } => {
            let destination = destination.as_ref().map_or("none", |name| name.as_str());
            Some(("dead", destination.to_owned(), failure.kind.as_str()))
        }
        Note::Duplicate { destination, .. } => Some(("already published", destination.to_string(), "")),
        Note::Kept { .. } => Some(("the row cannot be moved", String::new(), "")),
        Note::Stranded { .. } => Some(("found below the floor", String::new(), "")),
        _ => None,
    }
}

/// Shards as people read them: `0-5,8`.
fn ranges(mut shards: Vec<Shard>) -> String {
    shards.sort_unstable();
    let mut text = String::new();
    let mut shards = shards.into_iter().map(|shard| shard.0).peekable();
    while let Some(first) = shards.next() {
        let mut last = first;
        while let Some(next) = shards.next_if(|next| *next <= last.saturating_add(1)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        text.push_str(&match last == first {
            true => format!("{comma}{first}"),
            false => format!("{comma}{first}-{last}"),
        });
    }
    text
}

/// An id as a log may show it: whatever a producer put into it, it stays on its line.
fn shown(id: &EventId) -> Box<str> {
    inert(id.as_str(), limits::ID)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn line(outbox: &str, note: &Note) {
    match note {
        Note::Published {
            destination,
            events,
            took,
        } => {
            let (first, took_ms) = (
                events.first().map(|event| shown(&event.event_id)),
                took.as_secs_f64() * 1e3,
            );
            let destination = destination.as_str();
            debug!(
                outbox,
                destination,
                events = events.len(),
                first,
                took_ms,
                "published"
            );
        }
        Note::WillRetry {
            event_id,
            destination,
            failure,
            retry_in,
            attempts,
            failures,
            ..
        } => {
            let (kind, text, event_id) = (failure.kind.as_str(), &*failure.text, &*shown(event_id));
            let (destination, retry_in_ms) = (destination.as_str(), millis(*retry_in));
            warn!(
                outbox,
                event_id, destination, kind, text, retry_in_ms, attempts, failures, "refused, will retry"
            );
        }
        Note::Dead {
            event_id,
            destination,
            failure,
            ..
        } => {
            let (kind, text, event_id) = (failure.kind.as_str(), &*failure.text, &*shown(event_id));
            let destination = destination.as_ref().map_or("none", |name| name.as_str());
            let advice = failure.kind.policy().sentence;
            error!(
                outbox,
                event_id, destination, kind, text, advice, "dead: needs a person"
            );
        }
        Note::Duplicate {
            event_id,
            destination,
        } => {
            let (event_id, destination) = (&*shown(event_id), destination.as_str());
            info!(outbox, event_id, destination, "already published, skipping");
        }
        Note::Dropped { event_id } => debug!(outbox, event_id = &*shown(event_id), "dropped by its route"),
        Note::Kept {
            event_id,
            seq,
            retry_in,
        } => {
            let (event_id, place, retry_in_ms) = (&*shown(event_id), seq.0, millis(*retry_in));
            warn!(
                outbox,
                event_id,
                place,
                retry_in_ms,
                "the row cannot be moved, will retry: another event is parked at its place, or a trigger keeps it"
            );
        }
        Note::Parked { count } => debug!(outbox, count, "parked"),
        Note::CircuitOpened {
            destination,
            failure,
            retry_in,
        } => {
            let (kind, text) = (failure.kind.as_str(), &*failure.text);
            let advice = failure.kind.policy().sentence;
            let (destination, retry_in_ms) = (destination.as_str(), millis(*retry_in));
            warn!(
                outbox,
                destination, kind, text, retry_in_ms, advice, "circuit open"
            );
        }
        Note::CircuitClosed { destination } => {
            info!(outbox, destination = destination.as_str(), "circuit closed");
        }
        // Gathered, and written between two turns of the loop.
        Note::LeaseWon { .. } | Note::LeaseLost { .. } => {}
        Note::StandingBy => info!(outbox, "standing by: another relay holds the lease"),
        Note::StoreBack { doing } => info!(outbox, doing, "the database answers again"),
        Note::StoreFailed {
            doing,
            kind,
            error,
            advice,
            retry_in,
        } => {
            let kind = kind.as_str();
            let (error, retry_in_ms) = (error.as_str(), millis(*retry_in));
            warn!(
                outbox,
                doing, kind, error, retry_in_ms, advice, "database call failed, will retry"
            );
        }
        Note::Stranded { event_id } => {
            error!(
                outbox,
                event_id = &*shown(event_id),
                "found below the floor by the sweep; it is published now, late"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_as_ranges() {
        let shards = |numbers: &[u16]| ranges(numbers.iter().map(|number| Shard(*number)).collect());
        assert_eq!(shards(&[]), "");
        assert_eq!(shards(&[7]), "7");
        assert_eq!(shards(&[3, 1, 2, 9, 0, 8, 5]), "0-3,5,8-9");
    }

    #[test]
    fn an_outage_is_told_at_growing_distances_until_it_is_over() {
        let mut voice = Voice::new("outbox");
        let away = || ("circuit", "d".to_owned(), "unreachable");
        let at = |secs| Time(Duration::from_secs(secs));
        let told: Vec<u64> = (0..3_600)
            .filter(|secs| voice.may_repeat(at(*secs), away()))
            .collect();
        assert_eq!(told[..6], [0, 10, 30, 70, 150, 310], "{told:?}");
        assert!(told.len() < 20, "{told:?}");
        let destination = "d".into();
        voice.say(at(3_600), &Note::CircuitClosed { destination });
        assert!(voice.may_repeat(at(3_601), away()), "a new outage");
    }

    #[test]
    fn lines_that_say_the_same_are_counted_after_a_few() {
        let mut voice = Voice::new("outbox");
        let alike = |kind| ("dead", "d".to_owned(), kind);
        let begun = Time(Duration::from_secs(100));
        let written = (0..1_000)
            .filter(|_| voice.may_say(begun, alike("rejected")))
            .count();
        assert_eq!(written, BURST as usize);
        assert_eq!(voice.said[&alike("rejected")].left_out, 990);
        assert!(
            voice.may_say(begun, alike("too_large")),
            "another reason is another line"
        );
        voice.breathe(begun + WINDOW / 2);
        assert!(!voice.may_say(begun + WINDOW / 2, alike("rejected")));
        voice.breathe(begun + WINDOW);
        assert!(voice.may_say(begun + WINDOW, alike("rejected")), "a new window");
        assert_eq!(voice.said.len(), 1, "what was not said again is forgotten");
    }
}
