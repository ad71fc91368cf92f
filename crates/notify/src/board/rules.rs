//! What is unique, in every store. Tables may be there that another version or another tool has made, so each rule is
//! an index of its own, made over whatever is there; rows that stand in its way are listed first.

use crate::{BoardError, Duplicates};

/// A unique index.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) index: &'static str,
    pub(crate) table: &'static str,
    columns: &'static str,
    only: &'static str,
}

/// Only the first two mean that a notification is there already; the third, that of one channel there is one delivery.
/// The others are those of digests: one is open at a time, and an event is in one of them.
pub(crate) const RULES: [Rule; 5] = [
    Rule {
        index: "uk_notification_event_user",
        table: "notification",
        columns: "event_id, user_id",
        only: "",
    },
    Rule {
        index: "uk_notification_resource",
        table: "notification",
        columns: "user_id, category, resource_id, period",
        only: " WHERE resource_id IS NOT NULL",
    },
    Rule {
        index: "uk_notification_delivery",
        table: "notification_delivery",
        columns: "notification_id, channel",
        only: "",
    },
    Rule {
        index: "uk_notification_digest_open",
        table: "notification_digest",
        columns: "workflow, user_id",
        only: " WHERE sent_at IS NULL",
    },
    Rule {
        index: "uk_notification_digest_item",
        table: "notification_digest_item",
        columns: "workflow, user_id, event_id",
        only: "",
    },
];

/// The templates of the statements that make all of them.
pub(crate) fn statements() -> String {
    let one = |rule: &Rule| {
        let Rule {
            index,
            table,
            columns,
            only,
        } = rule;
        format!("CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {{{table}}} ({columns}){only};\n")
    };
    RULES.iter().map(one).collect()
}

impl Rule {
    /// The template of the query for rows that the index would refuse: their values, and how many have them.
    pub(crate) fn groups(&self) -> String {
        let Rule {
            table, columns, only, ..
        } = self;
        format!(
            "SELECT concat_ws(', ', {columns}), count(*) FROM {{{table}}}{only} GROUP BY {columns}
             HAVING count(*) > 1 ORDER BY {columns} LIMIT 20"
        )
    }

    /// Refuses to make the index over these.
    pub(crate) fn refuse(&self, groups: Vec<(String, i64)>) -> Result<(), BoardError> {
        if groups.is_empty() {
            return Ok(());
        }
        let groups = groups.into_iter();
        Err(BoardError::Duplicates {
            table: self.table,
            duplicates: Duplicates {
                columns: self.columns,
                groups: groups
                    .map(|(values, rows)| (values, rows.unsigned_abs()))
                    .collect(),
            },
        })
    }
}
