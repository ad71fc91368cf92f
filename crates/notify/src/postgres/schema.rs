//! The tables: their names in statements, how they are made, and what may stand in the way of that.

use postrider_postgres::Outbox;
use tokio_postgres::Transaction;

use super::{Pg, failed};
use crate::board::rules::{self, RULES, Rule};
use crate::board::statement::{VIEW, fill, of_audience};
use crate::{Audience, BoardError, Workflows};

/// The names of the tables: those of the notifications are in the schema of the outbox that delivers them.
#[derive(Clone, Debug)]
pub(super) struct Names {
    outbox: Outbox,
}

impl Names {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox }
    }

    /// The statement that a template stands for: `{notification_x}` becomes the quoted and qualified name of that
    /// table, `{outbox_x}` that of the outbox, `{micros x}` the time `x` in microseconds since 1970, and `{now}` the
    /// time of the transaction.
    pub(super) fn sql(&self, template: &str) -> String {
        fill(template, |name, out| {
            if let Some(column) = name.strip_prefix("micros ") {
                out.push_str(&format!("(extract(epoch FROM {column}) * 1000000)::bigint"));
            } else if let Some(suffix) = name.strip_prefix("outbox") {
                out.push_str(&self.outbox.relation(suffix));
            } else if name == "now" {
                out.push_str("now()");
            } else {
                out.push_str(&self.table(name));
            }
        })
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(self.outbox.schema()), quoted(name))
    }

    /// The statements that make everything.
    pub(super) fn tables(&self, workflows: &Workflows) -> String {
        let mut all = self.sql(&format!(
            "{}\n{}",
            include_str!("tables.sql"),
            rules::statements()
        ));
        for Audience { name, view } in workflows.audiences() {
            let (view, select, only) = (self.table(view), self.sql(VIEW), of_audience(name));
            all.push_str(&format!(
                "\nCREATE OR REPLACE VIEW {view} AS\n{select}\n{only};\n"
            ));
        }
        all
    }
}

/// Makes what is missing, in the caller's transaction.
pub(super) async fn migrate(tx: &Transaction<'_>, pg: &Pg) -> Result<(), BoardError> {
    let doing = "making the tables of notifications";
    let said = |error| failed(error, doing);
    // Boards start together, and `IF NOT EXISTS` looks before it waits: one at a time.
    let turn = format!(
        "SELECT pg_advisory_xact_lock(hashtextextended('postrider {}', 0))",
        pg.names.sql("{notification}").replace('\'', "''")
    );
    tx.batch_execute(&turn).await.map_err(said)?;
    for rule in &RULES {
        check(tx, &pg.names, rule).await?;
    }
    let sql = pg.names.tables(&pg.means.workflows);
    Ok(tx.batch_execute(&sql).await.map_err(said)?)
}

/// Looks for rows that a rule would refuse. Where its index is there, there are none, and nothing is read. One of its
/// name that is not unique is none: it makes room.
async fn check(tx: &Transaction<'_>, names: &Names, rule: &Rule) -> Result<(), BoardError> {
    let said = |error| failed(error, "looking for rows that are there twice");
    let (table, index) = (names.table(rule.table), names.table(rule.index));
    let sql = "SELECT to_regclass($1) IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_index WHERE indexrelid = to_regclass($2) AND indisunique AND indisvalid)";
    let missing = tx.query_one(sql, &[&table, &index]).await.map_err(said)?;
    if !missing.try_get::<_, bool>(0).map_err(said)? {
        return Ok(());
    }
    let drop = format!("DROP INDEX IF EXISTS {index}");
    tx.batch_execute(&drop).await.map_err(said)?;
    let rows = tx.query(&names.sql(&rule.groups()), &[]).await.map_err(said)?;
    let mut groups = Vec::with_capacity(rows.len());
    for row in &rows {
        groups.push((row.try_get(0).map_err(said)?, row.try_get(1).map_err(said)?));
    }
    rule.refuse(groups)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_quoted_tables() {
        let names = Names::new(Outbox::in_schema("shop", "mail").unwrap());
        assert_eq!(
            names.sql("SELECT {micros n.at} FROM {notification_fanout} n JOIN {outbox_events} e ON '{'"),
            "SELECT (extract(epoch FROM n.at) * 1000000)::bigint FROM \"shop\".\"notification_fanout\" n \
             JOIN \"shop\".\"mail_events\" e ON '{'"
        );
    }
}
