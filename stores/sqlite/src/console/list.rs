//! Listings: places are found by index, then each event is put together from wherever it stands.

use postrider_core::{Cursor, EventId, EventRecord, Filter, List, Listing, Status, Timestamp};
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::record::record;
use super::{View, place_of};
use crate::error::Result;
use crate::row;
use crate::schema;

/// Places looked at in one go. A filter that matches little goes through many of them, on a connection of its own.
const STRIDE: i64 = 500;

/// Events that match, oldest first.
pub(super) fn list(view: &View<'_>, list: &List) -> Result<Listing> {
    let filter = &list.filter;
    let limit = list.limit.max(1) as usize;
    let (mut after, _) = place_of(list.from.as_ref())?;
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
                .any(|route| filter.matches(&record, route, Timestamp(view.standing.now)))
            {
                continue;
            }
            if listing.events.len() == limit {
                let shown = listing.events.last().map(|record| row::place(record.seq));
                listing.next = shown.map(|place| Cursor::at(place, ""));
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
    Ok(list(view, &List::first(u32::MAX, filter))?.events)
}

/// The places that a filter may be about: a superset, in order, found without reading tables that cannot match.
struct Candidates {
    /// None when no table can hold a match.
    sql: Option<String>,
    values: Vec<Value>,
}

impl Candidates {
    fn of(view: &View<'_>, filter: &Filter) -> Self {
        let needs_error = filter.error_kind.is_some() || filter.failing_for.is_some();
        let mut arms = Vec::new();
        let mut values = Vec::new();
        if filter.wants(Status::Pending) && filter.destination.is_none() && !needs_error {
            arms.push(Self::arm(view, filter, "{outbox}", "1", &mut values));
        }
        let (dead, live) = filter.wants_parked();
        if dead || live {
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
        let outcomes = match (filter.wants(Status::Published), filter.wants(Status::Discarded)) {
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
