//! Where to look for what a filter is about: of each table, one index, in the order of the places.

use std::time::Instant;

use postrider_core::{EventId, Filter, JobId, Status};
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
    pub(super) fn all(view: &View<'_>, filter: &Filter, towards: Towards) -> Result<Vec<Arm>> {
        let is_failure =
            filter.error_kind.is_some() || filter.error_group.is_some() || filter.failing_for.is_some();
        let mut arms = Vec::new();
        if filter.wants(Status::Pending) && filter.destination.is_none() && !is_failure {
            arms.push(Self::queued(view, filter, towards));
        }
        if is_refused(filter) {
            arms.extend(Self::refused(view, towards)?);
        } else if filter.wants_parked() != (false, false) {
            arms.push(Self::parked(view, filter, towards));
        }
        let is_past = filter.wants(Status::Published) || filter.wants(Status::Discarded);
        if is_past && !is_failure {
            arms.push(Self::sent(view, filter, towards));
        }
        Ok(arms)
    }

    /// The walk over parked rows.
    pub(super) fn parked(view: &View<'_>, filter: &Filter, towards: Towards) -> Arm {
        let (index, only, value) = match by_id(view, filter) {
            Some((only, value)) => (String::new(), only, value),
            None => {
                let (index, only, value) = parked_way(filter);
                (format!("INDEXED BY {{{index}}}"), only, value)
            }
        };
        Self::worded(view, &index, &only, value, towards)
    }

    /// Walks over what is refused and still tried, one for each kind of error: the index has the places of a kind in
    /// order. Whatever is held or waits has no error and is not looked at, however much of it there is. The dead are
    /// passed over within the index; a verb, which holds the write lock, does not go this way, because nothing bounds
    /// how many they are.
    fn refused(view: &View<'_>, towards: Towards) -> Result<Vec<Arm>> {
        let sql = view.sql(KINDS);
        let mut statement = view.tx.prepare_cached(&sql)?;
        let kinds = statement.query_map([], |row| row.get::<_, String>(0))?;
        let arm = |kind: rusqlite::Result<String>| -> Result<Arm> {
            let (index, only) = ("INDEXED BY {outbox_parked_error}", "error_kind = ?2 AND dead = 0");
            Ok(Self::worded(view, index, only, Value::Text(kind?), towards))
        };
        kinds.map(arm).collect()
    }

    /// A walk over parked rows with the words that people see.
    fn worded(view: &View<'_>, index: &str, only: &str, value: Value, towards: Towards) -> Arm {
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
        let ids = one_of("event_id", filter.event_id.iter().map(EventId::as_str));
        let (table, only, value) = match ids {
            Some((only, value)) => ("{outbox_sent} INDEXED BY {outbox_sent_event}", only, value),
            None => (
                "{outbox_sent} INDEXED BY {outbox_sent_place}",
                "?2 IS NULL".to_owned(),
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
        Ok(self.stride_until(view, at, None)?.0)
    }

    /// All rows, for a filter that few of them match.
    pub(super) fn every(&self, view: &View<'_>) -> Result<Vec<Seen>> {
        let mut seen: Vec<Seen> = Vec::new();
        loop {
            let at = seen
                .last()
                .map_or((0, ""), |last| (last.place, last.destination.as_str()));
            let next = self.stride(view, at)?;
            let is_all = next.len() < STRIDE;
            seen.extend(next);
            if is_all {
                return Ok(seen);
            }
        }
    }

    /// A stride, cut short when the time is over, and whether these are all there are. It is never cut within the rows
    /// of one event, behind whose place the next stride begins.
    pub(super) fn stride_until(
        &self,
        view: &View<'_>,
        at: (i64, &str),
        until: Option<Instant>,
    ) -> Result<(Vec<Seen>, bool)> {
        let mut statement = view.tx.prepare_cached(&self.sql)?;
        let limit = i64::try_from(STRIDE).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![at.0, self.value, limit, at.1])?;
        let mut seen: Vec<Seen> = Vec::new();
        while let Some(row) = rows.next()? {
            seen.push(Seen::read(view, row)?);
            let is_cut = |until| {
                seen.first().map(|row| row.place) != seen.last().map(|row| row.place)
                    && Instant::now() >= until
            };
            if until.is_some_and(is_cut) {
                return Ok((seen, false));
            }
        }
        let is_all = seen.len() < STRIDE;
        Ok((seen, is_all))
    }
}

/// The condition that a column is one of some texts, and the value ?2 in it; none: there are none.
pub(super) fn one_of<'a>(column: &str, texts: impl Iterator<Item = &'a str>) -> Option<(String, Value)> {
    let texts: Vec<&str> = texts.collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some((format!("{column} = ?2"), Value::Text((*one).to_owned()))),
        several => Some((
            format!("{column} IN (SELECT value FROM json_each(?2))"),
            Value::Text(serde_json::json!(several).to_string()),
        )),
    }
}

/// The condition for events with some ids: their rows, wherever they are, and copies that replays made of them. A row
/// that was inserted without an id is found by its place.
fn by_id(view: &View<'_>, filter: &Filter) -> Option<(String, Value)> {
    let (only, value) = one_of("event_id", filter.event_id.iter().map(EventId::as_str))?;
    let places = filter.event_id.iter();
    let places = places.filter_map(|id| row::place_of(&view.standing.outbox_id, id));
    let either: Vec<String> = places
        .map(|place| format!("seq = {place}"))
        .chain([only])
        .collect();
    Some((format!("({})", either.join(" OR ")), value))
}

/// The kinds of error that parked rows have, by a step from each to the next.
const KINDS: &str = "WITH RECURSIVE kinds(kind) AS (
         SELECT (SELECT error_kind FROM {outbox_parked} INDEXED BY {outbox_parked_error}
                 WHERE error_kind IS NOT NULL AND seq > 0 ORDER BY error_kind LIMIT 1)
         UNION ALL
         SELECT (SELECT error_kind FROM {outbox_parked} INDEXED BY {outbox_parked_error}
                 WHERE error_kind > kinds.kind AND seq > 0 ORDER BY error_kind LIMIT 1)
         FROM kinds WHERE kind IS NOT NULL
     ) SELECT kind FROM kinds WHERE kind IS NOT NULL";

/// Whether it is about rows that are refused and still tried, and no index of something rarer is asked for. Such a row
/// has an error, also where a person has redriven it and nobody has tried it since; no other live row has one.
fn is_refused(filter: &Filter) -> bool {
    let only = !filter.status.is_empty() && filter.status.iter().all(|status| *status == Status::Retrying);
    only && filter.event_id.is_empty() && parked_way(filter).0 == "outbox_parked_place"
}

/// The index that leaves the fewest parked rows to look at, with its condition and the value ?2 in it.
fn parked_way(filter: &Filter) -> (&'static str, String, Value) {
    let is = |column: &str, texts: &[String]| one_of(column, texts.iter().map(String::as_str));
    let ways = [
        (
            "outbox_parked_replay",
            one_of("replay_id", filter.replay.iter().map(JobId::as_str)),
        ),
        (
            "outbox_parked_key",
            is(
                "coalesce(event_key, aggregate_type || '/' || aggregate_id)",
                &filter.key,
            ),
        ),
        (
            "outbox_parked_group",
            one_of("error_group", filter.error_group.iter().map(String::as_str)),
        ),
        (
            "outbox_parked_error",
            one_of("error_kind", filter.error_kind.iter().map(String::as_str)),
        ),
        (
            "outbox_parked_dead",
            (filter.wants_parked() == (true, false))
                .then(|| ("dead = 1 AND ?2 IS NULL".to_owned(), Value::Null)),
        ),
        ("outbox_parked_type", is("event_type", &filter.event_type)),
    ];
    let way = ways.into_iter().find_map(|(index, way)| Some((index, way?)));
    let (index, (only, value)) =
        way.unwrap_or_else(|| ("outbox_parked_place", ("?2 IS NULL".to_owned(), Value::Null)));
    (index, only, value)
}
