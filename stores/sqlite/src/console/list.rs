//! Listings: places are found by index, then each event is put together from wherever it stands.

use postrider_core::{
    Cursor, DestinationName, EventId, EventRecord, Filter, Listing, RecordedRoute, Status, Timestamp,
};
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};

use super::{View, cursor, place_of, severity, status};
use crate::clock;
use crate::error::Result;
use crate::row::{self, BEHIND, Stored};
use crate::schema;

/// Places looked at in one go. A filter that matches little goes through many of them, on a connection of its own.
const STRIDE: i64 = 500;

/// Events that match, oldest first.
pub(super) fn list(view: &View<'_>, filter: &Filter, limit: u32, from: Option<&Cursor>) -> Result<Listing> {
    let limit = limit.max(1) as usize;
    let (mut after, _) = place_of(from)?;
    let candidates = Candidates::of(view, filter);
    let mut listing = Listing::default();
    loop {
        let places = candidates.behind(view, after)?;
        let Some(last) = places.last().copied() else {
            return Ok(listing);
        };
        for place in places {
            let Some(record) = record(view, place)? else {
                continue;
            };
            if !record
                .routes
                .iter()
                .any(|route| matches(filter, view.standing.now, &record, route))
            {
                continue;
            }
            if listing.events.len() == limit {
                let shown = listing.events.last().map(|record| row::place(record.seq));
                listing.next = shown.map(|place| cursor(place, ""));
                return Ok(listing);
            }
            listing.events.push(record);
        }
        after = last;
    }
}

/// Every record that has the id.
pub(super) fn show(view: &View<'_>, id: &EventId) -> Result<Vec<EventRecord>> {
    let filter = Filter {
        event_id: Some(id.clone()),
        ..Filter::default()
    };
    Ok(list(view, &filter, u32::MAX, None)?.events)
}

/// Whether a route of an event is one that a filter speaks of.
pub(super) fn matches(filter: &Filter, now: i64, record: &EventRecord, route: &RecordedRoute) -> bool {
    let age = clock::until(record.created_at.0, now);
    (filter.status.is_empty() || filter.status.contains(&route.status))
        && filter.event_id.as_ref().is_none_or(|id| *id == record.event_id)
        && filter
            .event_type
            .as_ref()
            .is_none_or(|name| *name == record.event_type)
        && filter.key.as_ref().is_none_or(|key| *key == record.key)
        && (filter.destination.is_none() || filter.destination == route.destination)
        && (filter.error_kind.is_none() || filter.error_kind == route.error_kind)
        && filter.older_than.is_none_or(|least| age >= least)
        && filter.failing_for.is_none_or(|least| {
            // A redriven row starts at zero: it fails again before it fails for long.
            let first = route.failed.filter(|_| route.failures > 0);
            first.is_some_and(|(first, _)| clock::until(first.0, now) >= least)
        })
}

/// The places that a filter may be about: a superset, in order, found without reading tables that cannot match.
struct Candidates {
    /// None when no table can hold a match.
    sql: Option<String>,
    values: Vec<Value>,
}

impl Candidates {
    fn of(view: &View<'_>, filter: &Filter) -> Self {
        let wants = |status: Status| filter.status.is_empty() || filter.status.contains(&status);
        let is_parked =
            |status: &Status| !matches!(status, Status::Pending | Status::Published | Status::Discarded);
        let needs_error = filter.error_kind.is_some() || filter.failing_for.is_some();
        let mut arms = Vec::new();
        let mut values = Vec::new();
        if wants(Status::Pending) && filter.destination.is_none() && !needs_error {
            arms.push(Self::arm(view, filter, "{outbox}", "1", &mut values));
        }
        if filter.status.is_empty() || filter.status.iter().any(is_parked) {
            let dead = wants(Status::DeadLetter);
            let live = filter.status.is_empty()
                || filter
                    .status
                    .iter()
                    .any(|status| is_parked(status) && *status != Status::DeadLetter);
            let only = match (dead, live) {
                (true, false) => "dead = 1",
                (false, true) => "dead = 0",
                _ => "1",
            };
            let only = match filter.failing_for {
                Some(least) => {
                    let before = schema::since(view.standing.now, least);
                    format!("{only} AND failures > 0 AND first_failed_at <= {before}")
                }
                None => only.to_owned(),
            };
            arms.push(Self::arm(view, filter, "{outbox_parked}", &only, &mut values));
        }
        let outcomes = match (wants(Status::Published), wants(Status::Discarded)) {
            (true, true) => Some("outcome IN ('published', 'discarded')"),
            (true, false) => Some("outcome = 'published'"),
            (false, true) => Some("outcome = 'discarded'"),
            (false, false) => None,
        };
        if let Some(only) = outcomes.filter(|_| !needs_error) {
            arms.push(Self::arm(view, filter, "{outbox_sent}", only, &mut values));
        }
        let sql = (!arms.is_empty()).then(|| format!("{} ORDER BY seq LIMIT ?", arms.join(" UNION ")));
        Self { sql, values }
    }

    fn arm(view: &View<'_>, filter: &Filter, table: &str, only: &str, values: &mut Vec<Value>) -> String {
        let mut arm = view.sql(&format!("SELECT seq FROM {table} WHERE seq > ? AND {only}"));
        // The place to begin at differs from call to call; null marks where it goes.
        values.push(Value::Null);
        let mut also = |condition: &str, value: &str| {
            arm.push_str(condition);
            values.push(Value::from(value.to_owned()));
        };
        if let Some(id) = &filter.event_id {
            match row::place_of(&view.standing.outbox_id, id) {
                Some(place) => also(" AND seq = CAST(? AS INTEGER)", &place.to_string()),
                None => also(" AND event_id = ?", id.as_str()),
            }
        }
        if let Some(name) = &filter.event_type {
            also(" AND event_type = ?", name);
        }
        if let Some(key) = &filter.key {
            also(
                " AND coalesce(event_key, aggregate_type || '/' || aggregate_id) = ?",
                key,
            );
        }
        if let Some(destination) = &filter.destination {
            also(" AND destination = ?", destination.as_str());
        }
        if let Some(kind) = &filter.error_kind {
            also(" AND error_kind = ?", kind);
        }
        arm
    }

    fn behind(&self, view: &View<'_>, after: i64) -> Result<Vec<i64>> {
        let Some(sql) = &self.sql else {
            return Ok(Vec::new());
        };
        let begin = self.values.iter().map(|value| match value {
            Value::Null => Value::Integer(after),
            value => value.clone(),
        });
        let values: Vec<Value> = begin.chain([Value::Integer(STRIDE)]).collect();
        let mut statement = view.tx.prepare_cached(sql)?;
        let places = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        Ok(places.collect::<rusqlite::Result<_>>()?)
    }
}

const QUEUED: &str = "SELECT {columns} FROM {outbox} WHERE seq = ?1";

const PARKED: &str = "SELECT {columns}, destination, status, attempts, failures, error_kind, error_text,
            first_failed_at, last_failed_at, iif(dead = 1, NULL, next_attempt_at)
     FROM {outbox_parked_status} WHERE seq = ?1 ORDER BY severity, destination";

const SENT: &str =
    "SELECT {sent_columns}, destination, published_at, receipt, attempts, failures, outcome, reason
     FROM {outbox_sent} WHERE seq = ?1 AND outcome IN ('published', 'discarded') ORDER BY id";

type ReadRoute = fn(&Row<'_>) -> rusqlite::Result<RecordedRoute>;

/// Everything that is known of the event at a place; none when nothing is left of it.
pub(super) fn record(view: &View<'_>, place: i64) -> Result<Option<EventRecord>> {
    let mut found: Option<EventRecord> = None;
    let arms: [(&str, ReadRoute); 3] = [
        (QUEUED, |_| Ok(route(None, Status::Pending))),
        (PARKED, parked_route),
        (SENT, sent_route),
    ];
    for (sql, route) in arms {
        let mut statement = view.tx.prepare_cached(&view.sql(sql))?;
        let mut rows = statement.query(params![place])?;
        while let Some(row) = rows.next()? {
            let route = route(row)?;
            match &mut found {
                Some(record) => record.routes.push(route),
                None => found = Some(begin(view, row, route)?),
            }
        }
    }
    if let Some(record) = &mut found {
        record.routes.sort_by_key(|route| severity(route.status));
    }
    Ok(found)
}

fn begin(view: &View<'_>, row: &Row<'_>, route: RecordedRoute) -> Result<EventRecord> {
    let stored = Stored::read(row, &view.standing.outbox_id, view.standing.now)?;
    Ok(EventRecord {
        seq: stored.seq,
        key: stored.shown_key(),
        event_id: stored.event_id,
        event_type: stored.event_type,
        created_at: stored.created_at,
        event: stored.event,
        routes: vec![route],
    })
}

fn route(destination: Option<DestinationName>, status: Status) -> RecordedRoute {
    RecordedRoute {
        destination,
        status,
        attempts: 0,
        failures: 0,
        error_kind: None,
        error: None,
        failed: None,
        next_attempt_at: None,
        published_at: None,
        receipt: None,
    }
}

fn parked_route(row: &Row<'_>) -> rusqlite::Result<RecordedRoute> {
    let destination: String = row.get(BEHIND)?;
    let first: Option<i64> = row.get(BEHIND + 6)?;
    let last: Option<i64> = row.get(BEHIND + 7)?;
    Ok(RecordedRoute {
        attempts: row.get(BEHIND + 2)?,
        failures: row.get(BEHIND + 3)?,
        error_kind: row.get(BEHIND + 4)?,
        error: row.get(BEHIND + 5)?,
        failed: first
            .zip(last)
            .map(|(first, last)| (Timestamp(first), Timestamp(last))),
        next_attempt_at: row.get::<_, Option<i64>>(BEHIND + 8)?.map(Timestamp),
        ..route(
            (!destination.is_empty()).then(|| DestinationName::from(destination)),
            status(&row.get::<_, String>(BEHIND + 1)?),
        )
    })
}

fn sent_route(row: &Row<'_>) -> rusqlite::Result<RecordedRoute> {
    let destination = row.get::<_, Option<String>>(BEHIND)?;
    let destination = destination
        .filter(|name| !name.is_empty())
        .map(DestinationName::from);
    let (attempts, failures) = (row.get(BEHIND + 3)?, row.get(BEHIND + 4)?);
    if row.get_ref(BEHIND + 5)?.as_str()? == "discarded" {
        return Ok(RecordedRoute {
            attempts,
            failures,
            error: row.get(BEHIND + 6)?,
            ..route(destination, Status::Discarded)
        });
    }
    Ok(RecordedRoute {
        published_at: row.get::<_, Option<i64>>(BEHIND + 1)?.map(Timestamp),
        receipt: row.get(BEHIND + 2)?,
        attempts,
        failures,
        ..route(destination, Status::Published)
    })
}
