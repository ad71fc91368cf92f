//! The words that cases are written in: events, ways to park, ways to settle.

use std::time::Duration;

use postrider_core::{
    DestinationName, ErrorKind, Event, Failure, Lane, Leaves, Park, ParkedRow, QueuedRow, Receipt,
    SettleQueued,
};

pub(super) use crate::by_hand::{again as goes_on, decided, parks as parks_as, range};

/// An event of a key whose payload holds its id.
pub(super) fn event(id: &str, key: &str) -> Event {
    event_with(id, key, &format!("{{\"id\":{id:?}}}"))
}

pub(super) fn event_with(id: &str, key: &str, json: &str) -> Event {
    let built = Event::builder("Tested")
        .id(id)
        .aggregate("THING", key)
        .json(json)
        .build();
    built.expect("the suite builds valid events")
}

/// An event of a key in a lane.
pub(super) fn event_in(id: &str, key: &str, lane: Lane) -> Event {
    Event {
        priority: i32::from(lane.sign()),
        ..event(id, key)
    }
}

pub(super) fn to(name: &str) -> DestinationName {
    DestinationName::new(name)
}

/// Parked without fault.
pub(super) fn waiting(destination: &str) -> Park {
    Park::waiting(to(destination), false)
}

pub(super) fn dead(destination: Option<&str>) -> Park {
    Park::dead(destination.map(to), refusal())
}

/// Refused once, to be tried again after a while.
pub(super) fn refused(destination: &str, again_in: Duration) -> Park {
    Park {
        next_attempt_in: again_in,
        attempts: 1,
        failures: 1,
        failure: Some(refusal()),
        ..waiting(destination)
    }
}

pub(super) fn refusal() -> Failure {
    Failure::new(ErrorKind::Rejected, "not wanted")
}

pub(super) fn sent(row: &QueuedRow, destinations: &[&str]) -> SettleQueued {
    let sent = destinations
        .iter()
        .map(|name| (to(name), Receipt(Some("offset 7".into()))));
    decided(
        row,
        Leaves::Decided {
            sent: sent.collect(),
            parked: Vec::new(),
        },
    )
}

pub(super) fn ids(rows: &[QueuedRow]) -> Vec<String> {
    rows.iter().map(|row| row.event_id.to_string()).collect()
}

/// Ids and destinations; a dash for none.
pub(super) fn names(rows: &[ParkedRow]) -> Vec<(String, String)> {
    rows.iter()
        .map(|row| {
            let destination = row.destination.as_ref().map_or("-", |name| name.as_str());
            (row.row.event_id.to_string(), destination.to_owned())
        })
        .collect()
}

/// The same, for what a case expects.
pub(super) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(id, to)| ((*id).to_owned(), (*to).to_owned()))
        .collect()
}
