//! Which events a listing or a verb is about.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::console::Route;
use crate::{DestinationName, EventId, EventRecord, JobId, Status, Timestamp};

/// Which events a listing or a verb is about. Every part that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Their status is one of these; empty: any.
    pub status: Vec<Status>,
    /// Their id is one of these; empty: any.
    pub event_id: Vec<EventId>,
    /// Their type is one of these; empty: any.
    pub event_type: Vec<String>,
    /// What order is kept by, as the producer gave it or `type/id` of the aggregate, is one of these; empty: any.
    pub key: Vec<String>,
    /// The destination they are parked for or were sent to.
    pub destination: Option<DestinationName>,
    /// The kind of their last error, as stored.
    pub error_kind: Option<String>,
    /// Which errors the last one is alike: the name of a [`Group`](crate::Group).
    pub error_group: Option<String>,
    /// In the id, the type, the key or the text of the last error, in any case. Never in the payload.
    pub text: Option<String>,
    /// The replay that they are copies of.
    pub replay: Option<JobId>,
    /// At least this old.
    pub older_than: Option<Duration>,
    /// At most this old.
    pub newer_than: Option<Duration>,
    /// Failing for at least this long, since their first failure or a person's last redrive of them.
    pub failing_for: Option<Duration>,
}

impl Filter {
    /// As JSON, without the parts that are not given: what the audit and a job keep.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        let status: Vec<_> = self.status.iter().map(|status| status.as_str()).collect();
        put("status", (!status.is_empty()).then(|| status.into()));
        let ids: Vec<_> = self.event_id.iter().map(|id| id.to_string()).collect();
        put("event_id", one_or_more(&ids));
        put("event_type", one_or_more(&self.event_type));
        put("key", one_or_more(&self.key));
        put(
            "destination",
            self.destination.as_ref().map(|name| name.as_str().into()),
        );
        put("error_kind", self.error_kind.clone().map(Value::from));
        put("error_group", self.error_group.clone().map(Value::from));
        put("text", self.text.clone().map(Value::from));
        put("replay", self.replay.as_ref().map(|id| id.as_str().into()));
        put("older_than_ms", self.older_than.map(millis));
        put("newer_than_ms", self.newer_than.map(millis));
        put("failing_for_ms", self.failing_for.map(millis));
        Value::Object(object)
    }

    /// The filter of what [`Filter::to_json`] made. A part that is not understood is refused: a job that goes on with
    /// less of a filter would touch more than it was asked to.
    pub fn of_json(value: &Value) -> Option<Self> {
        let mut filter = Self::default();
        for (name, part) in value.as_object()? {
            let text = || part.as_str().map(str::to_owned);
            let millis = || part.as_u64().map(Duration::from_millis);
            // As jobs have it that were begun by a version that kept whole seconds.
            let seconds = || part.as_u64().map(Duration::from_secs);
            match name.as_str() {
                "status" => {
                    let words = part.as_array()?.iter();
                    let parsed = words.map(|word| Status::parse(word.as_str()?));
                    filter.status = parsed.collect::<Option<_>>()?;
                }
                "event_id" => filter.event_id = texts(part)?.into_iter().map(EventId::from).collect(),
                "event_type" => filter.event_type = texts(part)?,
                "key" => filter.key = texts(part)?,
                "destination" => filter.destination = Some(part.as_str()?.into()),
                "error_kind" => filter.error_kind = Some(text()?),
                "error_group" => filter.error_group = Some(text()?),
                "text" => filter.text = Some(text()?),
                "replay" => filter.replay = Some(part.as_str()?.into()),
                "older_than_ms" => filter.older_than = Some(millis()?),
                "newer_than_ms" => filter.newer_than = Some(millis()?),
                "failing_for_ms" => filter.failing_for = Some(millis()?),
                "older_than_seconds" => filter.older_than = Some(seconds()?),
                "newer_than_seconds" => filter.newer_than = Some(seconds()?),
                "failing_for_seconds" => filter.failing_for = Some(seconds()?),
                _ => return None,
            }
        }
        Some(filter)
    }

    /// The one event that it names.
    pub fn only_id(&self) -> Option<&EventId> {
        match self.event_id.as_slice() {
            [id] => Some(id),
            _ => None,
        }
    }

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

    /// The routes that it speaks of, of an event that it found: what a line about the event has to show. Ages are left
    /// out, because they were judged by the database's clock. When none is left, because the event moved on since, it
    /// is all of them.
    pub fn matching<'a>(&self, record: &'a EventRecord) -> Vec<&'a Route> {
        let lasting = Self {
            older_than: None,
            newer_than: None,
            failing_for: None,
            ..self.clone()
        };
        let now = Timestamp(0);
        let routes = record.routes.iter();
        let found: Vec<&Route> = routes
            .filter(|route| lasting.matches(record, route, now))
            .collect();
        match found.is_empty() {
            true => record.routes.iter().collect(),
            false => found,
        }
    }

    /// Whether it speaks of a route of an event, at a moment by the database's clock.
    pub fn matches(&self, record: &EventRecord, route: &Route, now: Timestamp) -> bool {
        self.wants(route.status)
            && is_one_of(&record.event_id, &self.event_id)
            && is_one_of(&record.event_type, &self.event_type)
            && is_one_of(&record.key, &self.key)
            && (self.destination.is_none() || self.destination == route.destination)
            && (self.error_kind.is_none() || self.error_kind == route.error_kind)
            && (self.error_group.is_none() || self.error_group == route.error_group)
            && (self.replay.is_none() || self.replay == record.replay)
            && self
                .text
                .as_ref()
                .is_none_or(|text| has_text(record, route, text))
            && self
                .newer_than
                .is_none_or(|most| since(record.created_at, now) <= most)
            && self
                .older_than
                .is_none_or(|least| since(record.created_at, now) >= least)
            && self.failing_for.is_none_or(|least| {
                // A redriven row starts at zero, and has not failed. For long it has if nobody came to it since it was
                // to be tried: its destination may be down.
                let first = match route.failures {
                    0 if least.is_zero() => None,
                    0 => route.next_attempt_at.filter(|_| route.failed.is_some()),
                    _ => route.failed.map(|(first, _)| first),
                };
                first.is_some_and(|first| since(first, now) >= least)
            })
    }
}

fn is_one_of<T: PartialEq>(this: &T, wanted: &[T]) -> bool {
    wanted.is_empty() || wanted.contains(this)
}

fn millis(age: Duration) -> Value {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX).into()
}

/// One is written as itself, which is how people read it.
fn one_or_more(texts: &[String]) -> Option<Value> {
    match texts {
        [] => None,
        [one] => Some(one.as_str().into()),
        several => Some(several.into()),
    }
}

fn texts(part: &Value) -> Option<Vec<String>> {
    match part {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(several) => several
            .iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

fn has_text(record: &EventRecord, route: &Route, text: &str) -> bool {
    let text = text.to_lowercase();
    let error = route.error.as_deref().unwrap_or_default();
    [record.event_id.as_str(), &record.event_type, &record.key, error]
        .iter()
        .any(|part| part.to_lowercase().contains(&text))
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
            error_group: Some("0a1b".to_owned()),
            error: Some("HTTP 500".to_owned()),
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
            replay: Some("r1".into()),
            routes: vec![route],
            timeline: Vec::new(),
            original: None,
        }
    }

    #[test]
    fn of_several_routes_those_that_match_are_shown() {
        let mut record = record();
        record
            .routes
            .push(Route::new(Some("two".into()), Status::Published));
        let shown = |filter: Filter| {
            let routes = filter.matching(&record).into_iter();
            routes.map(|route| route.status).collect::<Vec<_>>()
        };
        let with = |status: &[Status]| Filter {
            status: status.to_vec(),
            older_than: Some(Duration::MAX),
            ..Filter::default()
        };
        assert_eq!(shown(with(&[])), [Status::Retrying, Status::Published]);
        assert_eq!(shown(with(&[Status::Published])), [Status::Published]);
        assert_eq!(
            shown(Filter {
                destination: Some("two".into()),
                ..Filter::default()
            }),
            [Status::Published]
        );
        assert_eq!(
            shown(with(&[Status::Held])),
            [Status::Retrying, Status::Published],
            "it moved on since it was found"
        );
    }

    #[test]
    fn every_part_that_is_given_must_hold() {
        let (record, now) = (record(), Timestamp(100_000_000));
        let matches = |filter: &Filter| filter.matches(&record, &record.routes[0], now);
        let seconds = |number| Some(Duration::from_secs(number));
        let all = Filter {
            status: vec![Status::DeadLetter, Status::Retrying],
            event_id: vec!["other".into(), "one".into()],
            event_type: vec!["Placed".to_owned()],
            key: vec!["ORDER/1".to_owned(), "ORDER/3".to_owned()],
            destination: Some("mq".into()),
            error_kind: Some("rejected".to_owned()),
            error_group: Some("0a1b".to_owned()),
            text: Some("http 5".to_owned()),
            replay: Some("r1".into()),
            newer_than: seconds(100),
            older_than: seconds(100),
            failing_for: seconds(60),
        };
        assert!(matches(&Filter::default()) && matches(&all));
        assert_eq!(Filter::of_json(&all.to_json()), Some(all.clone()));
        assert_eq!(Filter::of_json(&serde_json::json!({"colour": "red"})), None);
        #[rustfmt::skip]
        let wrong = [
            Filter { status: vec![Status::DeadLetter], ..all.clone() },
            Filter { event_id: vec!["two".into(), "three".into()], ..all.clone() },
            Filter { event_type: vec!["Paid".to_owned()], ..all.clone() },
            Filter { key: vec!["ORDER/2".to_owned()], ..all.clone() },
            Filter { destination: Some("other".into()), ..all.clone() },
            Filter { error_kind: Some("too_large".to_owned()), ..all.clone() },
            Filter { error_group: Some("0a1c".to_owned()), ..all.clone() },
            Filter { text: Some("HTTP 4".to_owned()), ..all.clone() },
            Filter { replay: Some("r2".into()), ..all.clone() },
            Filter { newer_than: seconds(99), ..all.clone() },
            Filter { older_than: seconds(101), ..all.clone() },
            Filter { failing_for: seconds(61), ..all.clone() },
        ];
        for filter in &wrong {
            assert!(!matches(filter), "{filter:?}");
        }
    }

    /// A job must not mean more than was counted.
    #[test]
    fn an_age_below_a_second_is_kept_and_whole_seconds_are_understood() {
        let half = Some(Duration::from_millis(500));
        let filter = Filter {
            older_than: half,
            newer_than: Some(Duration::from_millis(1_500)),
            failing_for: half,
            ..Filter::default()
        };
        assert_eq!(Filter::of_json(&filter.to_json()), Some(filter));
        let before =
            serde_json::json!({"older_than_seconds": 2, "newer_than_seconds": 3, "failing_for_seconds": 0});
        let read = Filter {
            older_than: Some(Duration::from_secs(2)),
            newer_than: Some(Duration::from_secs(3)),
            failing_for: Some(Duration::ZERO),
            ..Filter::default()
        };
        assert_eq!(Filter::of_json(&before), Some(read));
    }

    #[test]
    fn a_redriven_route_does_not_fail_for_long() {
        let mut record = record();
        record.routes[0].failures = 0;
        record.routes[0].next_attempt_at = Some(Timestamp(99_500_000));
        let filter = Filter {
            failing_for: Some(Duration::from_secs(1)),
            ..Filter::default()
        };
        assert!(!filter.matches(&record, &record.routes[0], Timestamp(100_000_000)));
        assert!(
            filter.matches(&record, &record.routes[0], Timestamp(100_500_000)),
            "nobody has tried it since"
        );
    }
}
