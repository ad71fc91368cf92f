//! Making the table and its indexes, also beside consumers that are at work.

use postrider_core::StoreError;
use tokio_postgres::{Client, Error};

use super::Inbox;
use crate::error::store_error;

/// What is there: the table, and the indexes that can be used, each of which says how it is made. Where somebody makes
/// one at this moment, it is not for us to do.
const MISSING: &str = "SELECT to_regclass('{outbox}') IS NULL, array(
         SELECT i.made FROM (VALUES ('{outbox_time}', '{name outbox_time} ON {outbox} (processed_at)'),
             ('{outbox_consumer_time}', '{name outbox_consumer_time} ON {outbox} (consumer, processed_at)')
         ) i(name, made)
         WHERE NOT EXISTS (SELECT 1 FROM pg_index x WHERE x.indexrelid = to_regclass(i.name) AND x.indisvalid)
             AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index p
                             WHERE p.relid = to_regclass('{outbox}')))";

/// Of several processes one makes the indexes, and the others do not wait: two at once would wait for each other.
const ALONE: &str = "SELECT pg_try_advisory_lock(hashtextextended('postrider index {outbox}', 0))";
const NO_LONGER: &str = "SELECT pg_advisory_unlock(hashtextextended('postrider index {outbox}', 0))";

impl Inbox {
    /// The statements that make the table, for whoever makes it by other means.
    ///
    /// ```
    /// let sql = postrider_postgres::Inbox::default().sql();
    /// assert!(sql.contains(r#"CREATE TABLE IF NOT EXISTS "public"."inbox""#));
    /// ```
    pub fn sql(&self) -> String {
        self.tables.sql(include_str!("../sql/inbox.sql"))
    }

    /// Makes the table where it is missing, and the indexes that a table of an earlier version lacks. Consumers go on
    /// meanwhile; not in a transaction, and not through a pooler, which has no sessions.
    pub async fn migrate(&self, client: &Client) -> Result<(), StoreError> {
        let made = self.make(client).await;
        made.map_err(|error| store_error(error, "making the inbox table"))
    }

    async fn make(&self, client: &Client) -> Result<(), Error> {
        let (no_table, indexes) = self.missing(client).await?;
        if no_table {
            // Listeners start together, and `IF NOT EXISTS` looks before it waits: one at a time.
            let turn = format!(
                "SELECT pg_advisory_xact_lock(hashtextextended('postrider {}', 0));",
                self.tables.prefix()
            );
            return client.batch_execute(&format!("{turn}\n{}", self.sql())).await;
        }
        if indexes.is_empty() || !self.says(client, ALONE).await? {
            return Ok(());
        }
        let made = self.index(client).await;
        self.says(client, NO_LONGER).await?;
        made
    }

    /// One after the other, each a transaction by itself. What an attempt left behind that was cut short is removed
    /// first.
    async fn index(&self, client: &Client) -> Result<(), Error> {
        // Whoever was at it before may be done.
        let (_, indexes) = self.missing(client).await?;
        for made in indexes {
            let name = made.split(' ').next().unwrap_or_default();
            let drop = format!(
                "DROP INDEX CONCURRENTLY IF EXISTS \"{}\".{name}",
                self.tables.schema()
            );
            client.batch_execute(&drop).await?;
            client
                .batch_execute(&format!("CREATE INDEX CONCURRENTLY {made}"))
                .await?;
        }
        Ok(())
    }

    async fn missing(&self, client: &Client) -> Result<(bool, Vec<String>), Error> {
        let row = client.query_typed_one(&self.tables.sql(MISSING), &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    async fn says(&self, client: &Client, sql: &str) -> Result<bool, Error> {
        let row = client.query_typed_one(&self.tables.sql(sql), &[]).await?;
        row.try_get(0)
    }
}
