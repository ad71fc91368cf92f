//! Pages of events, and failures by what they have in common.

use super::EventRecord;
use crate::{DestinationName, Filter, StoreError, StoreErrorKind, Timestamp};

/// Which events to list, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Which events.
    pub filter: Filter,
    /// At most this many.
    pub limit: u32,
    /// Where the last page ended.
    pub from: Option<Cursor>,
    /// The last ones first.
    pub newest_first: bool,
}

impl List {
    /// The first so many that match, oldest first.
    pub fn first(limit: u32, filter: Filter) -> Self {
        Self {
            filter,
            limit,
            ..Self::default()
        }
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The events, in the order that was asked for.
    pub events: Vec<EventRecord>,
    /// Where the next page begins; none at the end. It is never where this page began, and there may be one behind a
    /// page that is short or empty: see [`Console::list`](crate::Console::list).
    pub next: Option<Cursor>,
}

/// Failures that look alike: what an operator looks at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The destination; none for events without a route.
    pub destination: Option<DestinationName>,
    /// The kind of error.
    pub error_kind: String,
    /// Its name, of which no other group has the same: see [`Failure::group`](crate::Failure::group). Rows that failed
    /// last under a version that named groups by their text alone keep that name.
    pub name: String,
    /// The text of one of them.
    pub example: String,
    /// How many rows.
    pub count: u64,
    /// How many of them need a person.
    pub dead: u64,
    /// When the first and the last of them failed.
    pub seen: (Timestamp, Timestamp),
}

/// Where to go on with a listing or a bulk verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

impl Cursor {
    /// A place and a destination as a cursor: `seq`, or `seq:destination`.
    pub fn at(place: i64, destination: &str) -> Self {
        Self(match destination {
            "" => place.to_string(),
            name => format!("{place}:{name}"),
        })
    }

    /// The place and the destination of a cursor that [`Cursor::at`] made.
    pub fn place(&self) -> Result<(i64, String), StoreError> {
        let (place, destination) = self.0.split_once(':').unwrap_or((&self.0, ""));
        match place.parse() {
            Ok(place) => Ok((place, destination.to_owned())),
            Err(_) => Err(StoreError::new(
                StoreErrorKind::Invalid,
                "the cursor is not one that this outbox gave out; start the listing again",
            )),
        }
    }
}
