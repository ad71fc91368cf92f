//! The tables: their names in statements, how they are made, and what may stand in the way of that.

use postrider_postgres::Outbox;
use tokio_postgres::Transaction;

use super::{Pg, failed};
use crate::{BoardError, Duplicates, Workflows};

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
    /// table, `{outbox_x}` that of the outbox, and `{micros x}` the time `x` in microseconds since 1970.
    pub(super) fn sql(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 256);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            if let Some(column) = name.strip_prefix("micros ") {
                out.push_str(&format!("(extract(epoch FROM {column}) * 1000000)::bigint"));
            } else if let Some(suffix) = name.strip_prefix("outbox") {
                out.push_str(&self.outbox.relation(suffix));
            } else {
                out.push_str(&self.table(name));
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(self.outbox.schema()), quoted(name))
    }

    /// The statements that make everything.
    pub(super) fn tables(&self, workflows: &Workflows) -> String {
        let mut all = self.sql(include_str!("tables.sql"));
        for audience in workflows.audiences() {
            all.push('\n');
            all.push_str(&self.view(&audience.view, &audience.name));
        }
        all
    }

    /// One row a notification and channel: what the tables of document 004 have.
    fn view(&self, view: &str, audience: &str) -> String {
        let select = self.sql(
            "SELECT n.id, n.event_id, n.user_id, upper(d.channel) AS notification_type, n.event_type, n.category,
    n.resource_id, n.title, n.body, n.created_at, n.read_at
FROM {notification} n JOIN {notification_delivery} d ON d.notification_id = n.id",
        );
        let audience = audience.replace('\'', "''");
        format!(
            "CREATE OR REPLACE VIEW {} AS\n{select}\nWHERE n.audience = '{audience}';\n",
            self.table(view)
        )
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
        rule.check(tx, &pg.names).await?;
    }
    let sql = pg.names.tables(&pg.workflows);
    Ok(tx.batch_execute(&sql).await.map_err(said)?)
}

/// A unique index, and the table that may have rows against it: one that another version, or another tool, has made.
struct Rule {
    index: &'static str,
    table: &'static str,
    columns: &'static str,
    only: &'static str,
}

const RULES: [Rule; 3] = [
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
    Rule {
        index: "notification_delivery_pkey",
        table: "notification_delivery",
        columns: "notification_id, channel",
        only: "",
    },
];

impl Rule {
    /// Looks for rows that the index would refuse. Where it is there, there are none, and nothing is read.
    async fn check(&self, tx: &Transaction<'_>, names: &Names) -> Result<(), BoardError> {
        let said = |error| failed(error, "looking for rows that are there twice");
        let table = names.table(self.table);
        let missing = tx
            .query_one(
                "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NULL",
                &[&table, &names.table(self.index)],
            )
            .await
            .map_err(said)?;
        if !missing.try_get::<_, bool>(0).map_err(said)? {
            return Ok(());
        }
        let Rule { columns, only, .. } = self;
        let sql = format!(
            "SELECT concat_ws(', ', {columns}), count(*) FROM {table} {only} GROUP BY {columns}
             HAVING count(*) > 1 ORDER BY {columns} LIMIT 20"
        );
        let rows = tx.query(&sql, &[]).await.map_err(said)?;
        let mut groups = Vec::with_capacity(rows.len());
        for row in &rows {
            let count: i64 = row.try_get(1).map_err(said)?;
            groups.push((row.try_get(0).map_err(said)?, count.unsigned_abs()));
        }
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
