//! Where to look for what a filter is about: of each table, one index, in the order of the places.

use postrider_core::{Filter, Status};
use rusqlite::params;
use rusqlite::types::Value;

use super::View;
use super::seen::{self, Seen};
use crate::error::Result;
use crate::row;

/// Rows looked at in one go.
pub(super) const STRIDE: usize = 500;

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    Newest,
    Oldest,
}

/// One walk over one table: a superset of what the filter is about.
pub(super) struct Arm {
    sql: String,
    /// What the index is asked for; null where the walk is over everything.
    value: Value,
}

impl Arm {
    /// The walks that a filter needs; none over a table that cannot hold a match.
    pub(super) fn all(view: &View<'_>, filter: &Filter, towards: Towards) -> Vec<Arm> {
        let is_failure =
            filter.error_kind.is_some() || filter.error_group.is_some() || filter.failing_for.is_some();
        let mut arms = Vec::new();
        if filter.wants(Status::Pending) && filter.destination.is_none() && !is_failure {
            arms.push(Self::queued(view, filter, towards));
        }
        if filter.wants_parked() != (false, false) {
            arms.push(Self::parked(view, filter, towards));
        }
        let is_past = filter.wants(Status::Published) || filter.wants(Status::Discarded);
        if is_past && !is_failure {
            arms.push(Self::sent(view, filter, towards));
        }
        arms
    }

    /// The walk over parked rows.
    pub(super) fn parked(view: &View<'_>, filter: &Filter, towards: Towards) -> Arm {
        let (index, only, value) = match by_id(view, filter) {
            Some((only, value)) => (String::new(), only, value),
            None => {
                let (index, only, value) = parked_way(filter);
                (format!("INDEXED BY {{{index}}}"), only.to_owned(), value)
            }
        };
        let (beyond, order) = match towards {
            Towards::Newest => ("(seq, destination) > (?1, ?4)", "seq, destination"),
            Towards::Oldest => ("(seq, destination) < (?1, ?4)", "seq DESC, destination DESC"),
        };
        let order_outside = order
            .replace("seq", "c.seq")
            .replace("destination", "c.destination");
        let sql = view.sql(&format!(
            "SELECT {columns} FROM (
                 SELECT seq, destination FROM {{outbox_parked}} {index}
                 WHERE {only} AND seq > 0 AND {beyond} ORDER BY {order} LIMIT ?3
             ) c CROSS JOIN {{outbox_parked_status}} v ON v.seq = c.seq AND v.destination = c.destination
             ORDER BY {order_outside}",
            columns = seen::PARKED,
        ));
        Arm { sql, value }
    }

    fn queued(view: &View<'_>, filter: &Filter, towards: Towards) -> Arm {
        let everything = || ("?2 IS NULL".to_owned(), Value::Null);
        let (only, value) = by_id(view, filter).unwrap_or_else(everything);
        Self::simple(view, "{outbox}", seen::QUEUED, &only, value, towards)
    }

    fn sent(view: &View<'_>, filter: &Filter, towards: Towards) -> Arm {
        // A row without an id of its own is in the history with the one that its place gave it.
        let (table, only, value) = match &filter.event_id {
            Some(id) => (
                "{outbox_sent} INDEXED BY {outbox_sent_event}",
                "event_id = ?2",
                Value::Text(id.as_str().to_owned()),
            ),
            None => (
                "{outbox_sent} INDEXED BY {outbox_sent_place}",
                "?2 IS NULL",
                Value::Null,
            ),
        };
        let only = format!("{only} AND outcome IN ('published', 'discarded')");
        Self::simple(view, table, seen::SENT, &only, value, towards)
    }

    fn simple(
        view: &View<'_>,
        table: &str,
        columns: &str,
        only: &str,
        value: Value,
        towards: Towards,
    ) -> Arm {
        let (beyond, order) = match towards {
            Towards::Newest => ("seq > ?1", "seq"),
            Towards::Oldest => ("seq < ?1", "seq DESC"),
        };
        let sql = view.sql(&format!(
            "SELECT {columns} FROM {table} WHERE {only} AND ?4 IS NOT NULL AND {beyond} ORDER BY {order} LIMIT ?3"
        ));
        Arm { sql, value }
    }

    /// The next rows beyond a place and, among parked ones, a destination; at most a stride of them.
    pub(super) fn stride(&self, view: &View<'_>, at: (i64, &str)) -> Result<Vec<Seen>> {
        let mut statement = view.tx.prepare_cached(&self.sql)?;
        let limit = i64::try_from(STRIDE).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![at.0, self.value, limit, at.1])?;
        let mut seen = Vec::new();
        while let Some(row) = rows.next()? {
            seen.push(Seen::read(view, row)?);
        }
        Ok(seen)
    }
}

/// The condition for the event with an id: its row, wherever it is, and copies that replays made of it. A row that was
/// inserted without an id is found by its place.
fn by_id(view: &View<'_>, filter: &Filter) -> Option<(String, Value)> {
    let id = filter.event_id.as_ref()?;
    let only = match row::place_of(&view.standing.outbox_id, id) {
        Some(place) => format!("(seq = {place} OR event_id = ?2)"),
        None => "event_id = ?2".to_owned(),
    };
    Some((only, Value::Text(id.as_str().to_owned())))
}

/// The index that leaves the fewest parked rows to look at, with its condition and the value ?2 in it.
fn parked_way(filter: &Filter) -> (&'static str, &'static str, Value) {
    let text = |text: &str| Value::Text(text.to_owned());
    if let Some(replay) = &filter.replay {
        return ("outbox_parked_replay", "replay_id = ?2", text(replay.as_str()));
    }
    if let Some(key) = &filter.key {
        let only = "coalesce(event_key, aggregate_type || '/' || aggregate_id) = ?2";
        return ("outbox_parked_key", only, text(key));
    }
    if let Some(group) = &filter.error_group {
        return ("outbox_parked_group", "error_group = ?2", text(group));
    }
    if let Some(kind) = &filter.error_kind {
        return ("outbox_parked_error", "error_kind = ?2", text(kind));
    }
    if filter.wants_parked() == (true, false) {
        return ("outbox_parked_dead", "dead = 1 AND ?2 IS NULL", Value::Null);
    }
    if let Some(name) = &filter.event_type {
        return ("outbox_parked_type", "event_type = ?2", text(name));
    }
    ("outbox_parked_place", "?2 IS NULL", Value::Null)
}
