//! The tables: their names in statements, how they are made, and what may stand in the way of that.

use postrider_core::StoreError;
use postrider_sqlite::Outbox;
use rusqlite::Transaction;

use super::{Lite, failed};
use crate::board::rules::{self, RULES, Rule};
use crate::board::statement::{VIEW, fill, of_audience};
use crate::{Audience, BoardError, Workflows};

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

    /// The statement that a template stands for: `{notification_x}` becomes that name, `{outbox_x}` the quoted name of
    /// that table of the outbox, `{micros x}` the time `x` as it is, and `{now}` the present in microseconds since
    /// 1970. Anything else in braces stays.
    pub(super) fn sql(&self, template: &str) -> String {
        fill(template, |name, out| match name.strip_prefix("outbox") {
            Some(suffix) => out.push_str(&self.outbox.relation(suffix)),
            None if name == "now" => out.push_str(NOW),
            None if name.starts_with("notification") => out.push_str(name),
            None => match name.strip_prefix("micros ") {
                Some(column) => out.push_str(column),
                None => out.extend(["{", name, "}"]),
            },
        })
    }

    /// The statements that make everything. A view is made anew, because SQLite cannot replace it; nobody sees it
    /// missing, as it is one transaction.
    pub(super) fn tables(&self, workflows: &Workflows) -> String {
        let mut all = self.sql(&format!(
            "{}\n{}",
            include_str!("tables.sql"),
            rules::statements()
        ));
        for Audience { name, view } in workflows.audiences() {
            let (select, only) = (self.sql(VIEW), of_audience(name));
            all.push_str(&format!(
                "\nDROP VIEW IF EXISTS \"{view}\";\nCREATE VIEW \"{view}\" AS\n{select}\n{only};\n"
            ));
        }
        all
    }
}

/// Makes what is missing, in the caller's transaction.
pub(super) fn migrate(tx: &Transaction<'_>, lite: &Lite) -> Result<(), BoardError> {
    for rule in &RULES {
        let groups = groups(tx, lite, rule);
        rule.refuse(groups.map_err(|error| failed(error, "looking for rows that are there twice"))?)?;
    }
    let made = tx.execute_batch(&lite.names.tables(&lite.means.workflows));
    Ok(made.map_err(|error| failed(error, "making the tables of notifications"))?)
}

/// The rows that a rule would refuse. Where its index is there, there are none, and nothing is read. One of its name
/// that is not unique is none: it makes room.
fn groups(tx: &Transaction<'_>, lite: &Lite, rule: &Rule) -> rusqlite::Result<Vec<(String, i64)>> {
    let missing = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1
        AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE name = ?2 AND \"unique\" = 1)";
    if !tx.prepare(missing)?.exists([rule.table, rule.index])? {
        return Ok(Vec::new());
    }
    tx.execute_batch(&format!("DROP INDEX IF EXISTS {}", rule.index))?;
    let mut statement = tx.prepare(&lite.names.sql(&rule.groups()))?;
    let groups = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    groups.collect()
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
