//! The tables: their names in statements, how they are made, and what may stand in the way of that.

use postrider_core::StoreError;
use postrider_sqlite::Outbox;
use rusqlite::{OptionalExtension, Transaction};

use super::{Lite, failed};
use crate::{BoardError, Duplicates, Workflows};

/// Microseconds since 1970 by the clock of the database, which has milliseconds.
const NOW: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000";

/// The names of the outbox that delivers; those of the notifications are fixed.
#[derive(Clone, Debug)]
pub(super) struct Names {
    outbox: Outbox,
}

impl Names {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox }
    }

    /// The statement that a template stands for: `{outbox_x}` becomes the quoted name of that table of the outbox, and
    /// `{now}` the present in microseconds since 1970. Anything else in braces stays.
    pub(super) fn sql(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 128);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            match name.strip_prefix("outbox") {
                Some(suffix) => out.push_str(&self.outbox.relation(suffix)),
                None if name == "now" => out.push_str(NOW),
                None => out.extend(["{", name, "}"]),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// The statements that make everything.
    pub(super) fn tables(&self, workflows: &Workflows) -> String {
        let mut all = self.sql(include_str!("tables.sql"));
        for audience in workflows.audiences() {
            all.push('\n');
            all.push_str(&view(&audience.view, &audience.name));
        }
        all
    }
}

/// One row a notification and channel: what the tables of document 004 have. Made anew, because SQLite cannot replace
/// a view; nobody sees it missing, as it is one transaction.
fn view(view: &str, audience: &str) -> String {
    let audience = audience.replace('\'', "''");
    format!(
        "DROP VIEW IF EXISTS \"{view}\";
CREATE VIEW \"{view}\" AS
SELECT n.id, n.event_id, n.user_id, upper(d.channel) AS notification_type, n.event_type, n.category,
    n.resource_id, n.title, n.body, n.created_at, n.read_at
FROM notification n JOIN notification_delivery d ON d.notification_id = n.id
WHERE n.audience = '{audience}';
"
    )
}

/// Makes what is missing, in the caller's transaction.
pub(super) fn migrate(tx: &Transaction<'_>, lite: &Lite) -> Result<(), BoardError> {
    for rule in &RULES {
        rule.check(tx)?;
    }
    let made = tx.execute_batch(&lite.names.tables(&lite.workflows));
    Ok(made.map_err(|error| failed(error, "making the tables of notifications"))?)
}

/// A unique index, and the table that may have rows against it: one that another version, or another tool, has made.
struct Rule {
    index: &'static str,
    table: &'static str,
    columns: &'static str,
    only: &'static str,
}

const RULES: [Rule; 2] = [
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
        only: "WHERE resource_id IS NOT NULL",
    },
];

impl Rule {
    /// Looks for rows that the index would refuse. Where it is there, there are none, and nothing is read.
    fn check(&self, tx: &Transaction<'_>) -> Result<(), BoardError> {
        let groups = self
            .groups(tx)
            .map_err(|error| failed(error, "looking for rows that are there twice"))?;
        if groups.is_empty() {
            return Ok(());
        }
        Err(BoardError::Duplicates {
            table: self.table,
            duplicates: Duplicates {
                columns: self.columns,
                groups,
            },
        })
    }

    fn groups(&self, tx: &Transaction<'_>) -> rusqlite::Result<Vec<(String, u64)>> {
        let missing = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1
            AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?2)";
        let missing = tx.query_row(missing, [self.table, self.index], |_| Ok(()));
        if missing.optional()?.is_none() {
            return Ok(Vec::new());
        }
        let Rule {
            table, columns, only, ..
        } = self;
        let shown = columns.replace(", ", " || ', ' || ");
        let sql = format!(
            "SELECT {shown}, count(*) FROM {table} {only} GROUP BY {columns} HAVING count(*) > 1
             ORDER BY {columns} LIMIT 20"
        );
        let mut statement = tx.prepare(&sql)?;
        let groups = statement.query_map([], |row| {
            let count: i64 = row.get(1)?;
            Ok((row.get(0)?, count.unsigned_abs()))
        })?;
        groups.collect()
    }
}

/// The present by the clock of the database.
pub(super) fn now(tx: &Transaction<'_>) -> Result<i64, StoreError> {
    let asked = tx
        .prepare_cached(&format!("SELECT {NOW}"))
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)));
    asked.map_err(|error| failed(error, "asking for the time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_the_tables_of_its_outbox() {
        let names = Names::new(Outbox::new("mail").unwrap());
        assert_eq!(
            names.sql("SELECT '{}' FROM {outbox_events} JOIN {outbox} ON '{'"),
            "SELECT '{}' FROM \"mail_events\" JOIN \"mail\" ON '{'"
        );
        assert!(names.sql("{now}").contains("julianday"));
    }
}
