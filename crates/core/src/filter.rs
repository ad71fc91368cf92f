//! Which events a listing or a verb is about.

use std::time::Duration;

use crate::console::Route;
use crate::{DestinationName, EventId, EventRecord, Status, Timestamp};

/// Which events a listing or a verb is about. Every part that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Their status is one of these; empty: any.
    pub status: Vec<Status>,
    /// Their id.
    pub event_id: Option<EventId>,
    /// Their type.
    pub event_type: Option<String>,
    /// What order is kept by, as the producer gave it or `type/id` of the aggregate.
    pub key: Option<String>,
    /// The destination they are parked for or were sent to.
    pub destination: Option<DestinationName>,
    /// The kind of their last error, as stored.
    pub error_kind: Option<String>,
    /// At least this old.
    pub older_than: Option<Duration>,
    /// Failing for at least this long, since their first failure or a person's last redrive of them.
    pub failing_for: Option<Duration>,
}

impl Filter {
    /// Whether it speaks of events with this status, among others or alone.
    pub fn wants(&self, status: Status) -> bool {
        self.status.is_empty() || self.status.contains(&status)
    }

    /// Whether it speaks of parked rows that are dead, and of those that are not.
    pub fn wants_parked(&self) -> (bool, bool) {
        let is_live = |status: &Status| status.is_parked() && *status != Status::DeadLetter;
        let live = self.status.is_empty() || self.status.iter().any(is_live);
        (self.wants(Status::DeadLetter), live)
    }

    /// Whether it speaks of a route of an event, at a moment by the database's clock.
    pub fn matches(&self, record: &EventRecord, route: &Route, now: Timestamp) -> bool {
        self.wants(route.status)
            && self.event_id.as_ref().is_none_or(|id| *id == record.event_id)
            && self
                .event_type
                .as_ref()
                .is_none_or(|name| *name == record.event_type)
            && self.key.as_ref().is_none_or(|key| *key == record.key)
            && (self.destination.is_none() || self.destination == route.destination)
            && (self.error_kind.is_none() || self.error_kind == route.error_kind)
            && self
                .older_than
                .is_none_or(|least| since(record.created_at, now) >= least)
            && self.failing_for.is_none_or(|least| {
                // A redriven row starts at zero: it fails again before it fails for long.
                let first = route.failed.filter(|_| route.failures > 0);
                first.is_some_and(|(first, _)| since(first, now) >= least)
            })
    }
}

fn since(Timestamp(earlier): Timestamp, Timestamp(later): Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seq;

    fn record() -> EventRecord {
        let route = Route {
            destination: Some("mq".into()),
            failures: 2,
            failed: Some((Timestamp(40_000_000), Timestamp(50_000_000))),
            error_kind: Some("rejected".to_owned()),
            ..Route::new(None, Status::Retrying)
        };
        EventRecord {
            seq: Seq(1),
            event: Err("not of interest".to_owned()),
            bad_payload: None,
            event_id: "one".into(),
            event_type: "Placed".to_owned(),
            key: "ORDER/1".to_owned(),
            created_at: Timestamp(0),
            routes: vec![route],
        }
    }

    #[test]
    fn every_part_that_is_given_must_hold() {
        let (record, now) = (record(), Timestamp(100_000_000));
        let matches = |filter: &Filter| filter.matches(&record, &record.routes[0], now);
        let seconds = |number| Some(Duration::from_secs(number));
        let all = Filter {
            status: vec![Status::DeadLetter, Status::Retrying],
            event_id: Some("one".into()),
            event_type: Some("Placed".to_owned()),
            key: Some("ORDER/1".to_owned()),
            destination: Some("mq".into()),
            error_kind: Some("rejected".to_owned()),
            older_than: seconds(100),
            failing_for: seconds(60),
        };
        assert!(matches(&Filter::default()) && matches(&all));
        #[rustfmt::skip]
        let wrong = [
            Filter { status: vec![Status::DeadLetter], ..all.clone() },
            Filter { event_id: Some("two".into()), ..all.clone() },
            Filter { event_type: Some("Paid".to_owned()), ..all.clone() },
            Filter { key: Some("ORDER/2".to_owned()), ..all.clone() },
            Filter { destination: Some("other".into()), ..all.clone() },
            Filter { error_kind: Some("too_large".to_owned()), ..all.clone() },
            Filter { older_than: seconds(101), ..all.clone() },
            Filter { failing_for: seconds(61), ..all.clone() },
        ];
        for filter in &wrong {
            assert!(!matches(filter), "{filter:?}");
        }
    }

    #[test]
    fn a_redriven_route_does_not_fail_for_long() {
        let mut record = record();
        record.routes[0].failures = 0;
        let filter = Filter {
            failing_for: Some(Duration::from_secs(1)),
            ..Filter::default()
        };
        assert!(!filter.matches(&record, &record.routes[0], Timestamp(100_000_000)));
    }
}
