//! What came of the account.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// How many offenders of a kind are named.
const EXAMPLES: usize = 5;

/// The account in numbers, with a few of the offending ids of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Events that were committed.
    pub committed: u64,
    /// Arrivals, repeated ones included.
    pub arrived: u64,
    /// Committed events that neither arrived nor are parked.
    pub lost: u64,
    /// Ids that arrived and were never committed.
    pub phantom: u64,
    /// Events that arrived first at a destination after a later event of their key and lane had.
    pub reordered: u64,
    /// Effects beyond the first of an event at a consumer.
    pub duplicate_effects: u64,
    /// Arrivals under another key than was committed.
    pub miskeyed: u64,
    /// Arrivals beyond the first at a destination. Allowed: publishing is at least once.
    pub duplicates: u64,
    /// Arrivals beyond the first that the destination itself repeated, because its consumer was lost. Allowed, and no
    /// fault of the relay.
    #[serde(skip_serializing_if = "is_zero")]
    pub redelivered: u64,
    /// Last lines that were cut off by the death of whoever wrote them.
    #[serde(skip_serializing_if = "is_zero")]
    pub torn: u64,
    /// Some of the ids behind each number that is not zero.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub examples: BTreeMap<&'static str, Vec<String>>,
}

impl Report {
    pub(super) fn new(
        committed: u64,
        arrived: u64,
        redelivered: u64,
        torn: u64,
        kinds: [(&'static str, &Offenders); 6],
    ) -> Self {
        let count = |wanted: &str| {
            let found = kinds.iter().find(|(kind, _)| *kind == wanted);
            found.map_or(0, |(_, offenders)| offenders.count)
        };
        let named = kinds.iter().filter(|(_, offenders)| offenders.count > 0);
        Self {
            committed,
            arrived,
            lost: count("lost"),
            phantom: count("phantom"),
            reordered: count("reordered"),
            duplicate_effects: count("duplicate_effects"),
            miskeyed: count("miskeyed"),
            duplicates: count("duplicates"),
            redelivered,
            torn,
            examples: named
                .map(|(kind, offenders)| (*kind, offenders.examples.clone()))
                .collect(),
        }
    }

    /// Whether every promise was kept. Duplicates are allowed.
    pub fn is_clean(&self) -> bool {
        self.lost + self.phantom + self.reordered + self.duplicate_effects + self.miskeyed == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "committed {}, arrived {}: lost {}, phantom {}, reordered {}, duplicate effects {}, under another key {}, \
             duplicates {}",
            self.committed,
            self.arrived,
            self.lost,
            self.phantom,
            self.reordered,
            self.duplicate_effects,
            self.miskeyed,
            self.duplicates
        )?;
        for (kind, ids) in &self.examples {
            write!(f, "\n  {kind}: {}", ids.join(", "))?;
        }
        Ok(())
    }
}

/// A count of offences, and the least of the offending ids, so that two runs over the same lines name the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Offenders {
    count: u64,
    examples: Vec<String>,
}

impl Offenders {
    pub(super) fn add(&mut self, id: &str) {
        self.count += 1;
        let place = match self.examples.binary_search_by(|known| known.as_str().cmp(id)) {
            Ok(_) => return,
            Err(place) => place,
        };
        if place < EXAMPLES {
            self.examples.insert(place, id.to_owned());
            self.examples.truncate(EXAMPLES);
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
