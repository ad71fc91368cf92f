//! Listings: places are found by index, then each event is put together from wherever it stands.

use postrider_core::{Cursor, EventId, EventRecord, Filter, List, Listing, Status, Timestamp};
use tokio_postgres::types::ToSql;

use super::record::record;
use super::{View, place_of};
use crate::clock;
use crate::error::Result;
use crate::row::{self, storable};

/// Places looked at in one go. A filter that matches little goes through many of them, on a connection of its own.
const STRIDE: i64 = 500;

/// How wide a stretch of places the first look at the history takes; it doubles while little is found, because the
/// index of the history is by stretches, too.
const STRETCH: i64 = 4_096;

/// Events that match, oldest first.
pub(super) async fn list(view: &View, list: &List) -> Result<Listing> {
    let filter = &list.filter;
    let limit = list.limit.max(1) as usize;
    let (mut after, _) = place_of(list.from.as_ref())?;
    let candidates = Candidates::of(view, filter);
    let end = highest(view).await?;
    let mut listing = Listing::default();
    let mut stretch = if filter.event_id.is_some() {
        i64::MAX
    } else {
        STRETCH
    };
    while after < end && !candidates.arms.is_empty() {
        let until = after.saturating_add(stretch).min(end);
        let places = candidates.between(view, after, until).await?;
        let full = places.len() as i64 >= STRIDE;
        after = match places.last() {
            Some((last, _)) if full => *last,
            _ => until,
        };
        stretch = if full { stretch } else { stretch.saturating_mul(2) };
        for (place, event_id) in places {
            let Some(record) = record(view, place, &event_id).await? else {
                continue;
            };
            if !record
                .routes
                .iter()
                .any(|route| filter.matches(&record, route, Timestamp(view.now)))
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
    }
    Ok(listing)
}

/// Every record that has the id.
pub(super) async fn show(view: &View, id: &EventId) -> Result<Vec<EventRecord>> {
    let filter = Filter {
        event_id: Some(id.clone()),
        ..Filter::default()
    };
    Ok(list(view, &List::first(u32::MAX, filter)).await?.events)
}

/// No event has a higher place.
async fn highest(view: &View) -> Result<i64> {
    let sql = view.sql("SELECT last_value FROM {outbox_seq}");
    Ok(view.client().query_one(&sql, &[]).await?.try_get(0)?)
}

/// The places that a filter may be about: a superset, in order, found without reading tables that cannot match.
struct Candidates {
    arms: Vec<String>,
    /// What the conditions of the arms compare with, from `$4` on.
    values: Vec<String>,
}

impl Candidates {
    fn of(view: &View, filter: &Filter) -> Self {
        let needs_error = filter.error_kind.is_some() || filter.failing_for.is_some();
        let mut candidates = Self {
            arms: Vec::new(),
            values: Vec::new(),
        };
        let common = candidates.conditions(filter);
        if filter.wants(Status::Pending) && filter.destination.is_none() && !needs_error {
            candidates.arm("{outbox}", &common, "");
        }
        let routed = candidates.routed(filter);
        let (dead, live) = filter.wants_parked();
        if dead || live {
            let only = match (dead, live) {
                (true, false) => " AND dead",
                (false, true) => " AND NOT dead",
                _ => "",
            };
            let failing = match filter.failing_for {
                Some(least) => {
                    // No row failed before 1970, and PostgreSQL refuses times of long ago.
                    let before = view.now.saturating_sub(clock::micros(least)).max(0);
                    format!(
                        " AND failures > 0 \
                         AND first_failed_at <= timestamptz 'epoch' + {before} * interval '1 microsecond'"
                    )
                }
                None => String::new(),
            };
            candidates.arm("{outbox_parked}", &common, &format!("{routed}{only}{failing}"));
        }
        let outcomes = match (filter.wants(Status::Published), filter.wants(Status::Discarded)) {
            (true, true) => Some("outcome IN ('published', 'discarded')"),
            (true, false) => Some("outcome = 'published'"),
            (false, true) => Some("outcome = 'discarded'"),
            (false, false) => None,
        };
        if let Some(only) = outcomes.filter(|_| !needs_error) {
            candidates.arm("{outbox_sent}", &common, &format!("{routed} AND {only}"));
        }
        candidates
    }

    fn arm(&mut self, table: &str, common: &str, own: &str) {
        let id = "coalesce(event_id, 'seq-' || seq)";
        let arm =
            format!("SELECT seq, {id} AS event_id FROM {table} WHERE seq > $1 AND seq <= $2{common}{own}");
        self.arms.push(arm);
    }

    /// The next parameter, with this value.
    fn parameter(&mut self, value: &str) -> usize {
        self.values.push(storable(value).into_owned());
        self.values.len() + 3
    }

    fn conditions(&mut self, filter: &Filter) -> String {
        let mut text = String::new();
        if let Some(id) = &filter.event_id {
            text.push_str(&format!(" AND event_id = ${}", self.parameter(id.as_str())));
        }
        if let Some(name) = &filter.event_type {
            text.push_str(&format!(" AND event_type = ${}", self.parameter(name)));
        }
        if let Some(key) = &filter.key {
            let number = self.parameter(key);
            text.push_str(&format!(
                " AND coalesce(event_key, aggregate_type || '/' || aggregate_id) = ${number}"
            ));
        }
        text
    }

    fn routed(&mut self, filter: &Filter) -> String {
        let mut text = String::new();
        if let Some(destination) = &filter.destination {
            text.push_str(&format!(
                " AND destination = ${}",
                self.parameter(destination.as_str())
            ));
        }
        if let Some(kind) = &filter.error_kind {
            text.push_str(&format!(" AND error_kind = ${}", self.parameter(kind)));
        }
        text
    }

    async fn between(&self, view: &View, after: i64, until: i64) -> Result<Vec<(i64, String)>> {
        let sql = view.sql(&format!("{} ORDER BY seq LIMIT $3", self.arms.join(" UNION ")));
        // A parameter that no arm mentions has no type; it is mentioned here.
        let unused: Vec<String> = (4..self.values.len() + 4)
            .map(|number| format!("${number}::text"))
            .collect();
        let sql = match unused.is_empty() {
            true => sql,
            false => format!(
                "SELECT * FROM ({sql}) found WHERE concat({}) IS NOT NULL",
                unused.join(", ")
            ),
        };
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&after, &until, &STRIDE];
        values.extend(self.values.iter().map(|value| value as &(dyn ToSql + Sync)));
        let rows = view.client().query(&sql, &values).await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }
}
