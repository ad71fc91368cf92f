//! A filter as conditions of SQL. They let through at least what the filter is about; where that is more, the filter
//! itself decides behind them.

use postrider_core::{EventId, Filter, Status};

use crate::clock;
use crate::row::storable;

/// The key as people see it. The history has an index of this expression.
pub(super) const KEY: &str = "coalesce(event_key, aggregate_type || '/' || aggregate_id)";

/// When an event was made.
pub(super) const CREATED: &str = "coalesce(created_at, enqueued_at)";

/// Where rows are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Queued,
    Parked,
    Sent,
}

/// Conditions, each with ` AND ` in front, and what they compare with.
#[derive(Clone, Debug, Default)]
pub(super) struct Meant {
    pub(super) sql: String,
    pub(super) values: Vec<String>,
    /// Of which rows so many are looked at in one go, as a condition that an index follows by place; none where an
    /// index leads to what is meant.
    pub(super) counted: Option<&'static str>,
    /// What an index of the history leads to, one by one: it takes one key or type at a time. Whatever is meant is one
    /// of these.
    pub(super) named: Vec<String>,
    /// The number of the first parameter.
    first: usize,
}

impl Meant {
    /// The conditions for rows of a table, whose parameters are counted from a number; none: it holds nothing that is
    /// meant.
    pub(super) fn of(filter: &Filter, table: Table, now: i64, first: usize) -> Option<Self> {
        let mut meant = Self {
            first,
            ..Self::default()
        };
        let states = states(filter, table)?;
        meant.sql.push_str(states);
        meant.event(filter, table);
        meant.ages(filter, table, now);
        meant.text(filter, table);
        // Where nothing is asked of these rows, as many as are wanted are the first.
        meant.counted = counted(filter, table).filter(|all| meant.sql != *all);
        Some(meant)
    }

    /// The next parameter, with this value.
    fn parameter(&mut self, value: &str) -> String {
        self.values.push(storable(value).into_owned());
        format!("${}::text", self.first + self.values.len() - 1)
    }

    fn event(&mut self, filter: &Filter, table: Table) {
        let same = [
            ("replay_id", filter.replay.as_ref().map(|id| id.as_str())),
            (
                "destination",
                filter.destination.as_ref().map(|name| name.as_str()),
            ),
            ("error_kind", filter.error_kind.as_deref()),
            ("error_group", filter.error_group.as_deref()),
        ];
        for (column, value) in same {
            if let Some(value) = value {
                let value = self.parameter(value);
                self.sql.push_str(&format!(" AND {column} = {value}"));
            }
        }
        let ids = self.parameters(filter.event_id.iter().map(EventId::as_str));
        self.one_of("event_id", &ids);
        let types = self.parameters(filter.event_type.iter().map(String::as_str));
        self.hashed("event_type", &types, table);
        let keys = self.parameters(filter.key.iter().map(String::as_str));
        self.hashed(KEY, &keys, table);
        let (column, values) = match keys.is_empty() {
            true => ("event_type", types),
            false => (KEY, keys),
        };
        let named = values.iter().map(|value| format!("{column} = {value}"));
        self.named = named.collect();
    }

    fn parameters<'a>(&mut self, values: impl Iterator<Item = &'a str>) -> Vec<String> {
        values.map(|value| self.parameter(value)).collect()
    }

    /// Equal to one of some parameters; where there are none, to anything.
    fn one_of(&mut self, column: &str, values: &[String]) {
        match values {
            [] => {}
            [one] => self.sql.push_str(&format!(" AND {column} = {one}")),
            several => self
                .sql
                .push_str(&format!(" AND {column} IN ({})", several.join(", "))),
        }
    }

    /// Parked rows have an index of the hash, because the text may be longer than an entry.
    fn hashed(&mut self, column: &str, values: &[String], table: Table) {
        if table == Table::Parked {
            let hashes: Vec<String> = values.iter().map(|value| format!("md5({value})")).collect();
            self.one_of(&format!("md5({column})"), &hashes);
        }
        self.one_of(column, values);
    }

    fn ages(&mut self, filter: &Filter, table: Table, now: i64) {
        let mut bound = |column: &str, is: &str, age: std::time::Duration| {
            let at = clock::moment(now.saturating_sub(clock::micros(age)));
            self.sql.push_str(&format!(" AND {column} {is} {at}"));
        };
        if let Some(age) = filter.older_than.filter(|age| !age.is_zero()) {
            bound(CREATED, "<=", age);
        }
        if let Some(age) = filter.newer_than {
            bound(CREATED, ">=", age);
        }
        if let Some(age) = filter.failing_for.filter(|_| table == Table::Parked) {
            // As `Filter::matches` has it.
            let untried = match age.is_zero() {
                true => "NULL",
                false => "next_attempt_at",
            };
            let since = format!(
                "(CASE WHEN failures > 0 THEN first_failed_at WHEN first_failed_at IS NOT NULL THEN {untried} END)"
            );
            bound(&since, "<=", age);
        }
    }

    /// Only plain letters: others have a small form that depends on the database's locale.
    fn text(&mut self, filter: &Filter, table: Table) {
        let Some(text) = filter.text.as_ref().filter(|text| text.is_ascii()) else {
            return;
        };
        let value = self.parameter(&text.to_lowercase());
        let more = match table {
            Table::Queued => None,
            Table::Parked => Some("error_text"),
            Table::Sent => Some("reason"),
        };
        let more = more.map(|column| format!(", {column}")).unwrap_or_default();
        // One text a row, and the letters of one language: four times as fast as each column by the locale's letters.
        self.sql.push_str(&format!(
            " AND position({value} IN lower(concat_ws(E'\\n', event_id, event_type, {KEY}{more}) COLLATE \"C\")) > 0"
        ));
    }
}

/// What the wanted states say of rows of a table; none: no row of it can be in one of them.
fn states(filter: &Filter, table: Table) -> Option<&'static str> {
    let of_error =
        filter.error_kind.is_some() || filter.error_group.is_some() || filter.failing_for.is_some();
    match table {
        Table::Queued => {
            let pending = filter.wants(Status::Pending) && filter.destination.is_none() && !of_error;
            pending.then_some("")
        }
        Table::Sent => match (filter.wants(Status::Published), filter.wants(Status::Discarded)) {
            _ if of_error => None,
            (true, true) => Some(" AND outcome IN ('published', 'discarded')"),
            (true, false) => Some(" AND outcome = 'published'"),
            (false, true) => Some(" AND outcome = 'discarded'"),
            (false, false) => None,
        },
        Table::Parked => {
            let calm = [Status::Waiting, Status::Held, Status::Scheduled].map(|status| filter.wants(status));
            let calm = calm.contains(&true);
            match (
                filter.wants(Status::DeadLetter),
                filter.wants(Status::Retrying),
                calm,
            ) {
                (true, true, true) => Some(" AND seq > 0"),
                (true, false, false) => Some(" AND seq > 0 AND dead"),
                (true, true, false) => Some(" AND seq > 0 AND (dead OR error_kind IS NOT NULL)"),
                (true, false, true) => Some(" AND seq > 0 AND (dead OR error_kind IS NULL)"),
                (false, true, true) => Some(" AND seq > 0 AND NOT dead"),
                (false, true, false) => Some(" AND seq > 0 AND NOT dead AND error_kind IS NOT NULL"),
                (false, false, true) => Some(" AND seq > 0 AND NOT dead AND error_kind IS NULL"),
                (false, false, false) => None,
            }
        }
    }
}

/// The rows among which those that are meant may be few, however many there are; none where an index leads to them: to
/// an id, and among parked rows to a key, a type, a replay and to what has failed. The history has stretches.
fn counted(filter: &Filter, table: Table) -> Option<&'static str> {
    let calm = [Status::Waiting, Status::Held, Status::Scheduled].map(|status| filter.wants(status));
    let of_event = !filter.event_id.is_empty();
    let of_key = !filter.key.is_empty() || !filter.event_type.is_empty() || filter.replay.is_some();
    let of_error = filter.error_kind.is_some() || filter.error_group.is_some();
    match table {
        Table::Queued => (!of_event).then_some(""),
        Table::Parked if of_event || of_key || of_error => None,
        Table::Parked if calm.contains(&true) => Some(" AND seq > 0"),
        Table::Parked => (!filter.wants(Status::Retrying)).then_some(" AND seq > 0 AND dead"),
        Table::Sent => None,
    }
}

/// Whether only rows that come first in their lines are meant, and nothing else is asked of them.
pub(super) fn only_heads(filter: &Filter) -> bool {
    let calm = [Status::Held, Status::Scheduled];
    let states = !filter.status.is_empty() && filter.status.iter().all(|status| calm.contains(status));
    let rest = Filter {
        status: Vec::new(),
        ..filter.clone()
    };
    states && rest == Filter::default()
}

/// The states that only a look at the other rows of a key tells apart, where some of them are wanted and others not.
pub(super) fn labels(filter: &Filter) -> Option<Vec<&'static str>> {
    let calm = [Status::Waiting, Status::Held, Status::Scheduled];
    let wanted = calm.iter().filter(|status| filter.wants(**status)).count();
    let all = [Status::DeadLetter, Status::Retrying].iter().chain(&calm);
    let words = all
        .filter(|status| filter.wants(**status))
        .map(|status| status.as_str());
    (wanted == 1 || wanted == 2).then(|| words.collect())
}
