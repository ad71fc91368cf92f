//! Removing records: to let an event take effect again, and because nothing can deliver it any more.

use std::time::Duration;

use postrider_core::{Records, StoreError};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::Inbox;
use crate::clock;

/// Which records are meant; an age that is not given holds for all.
const MEANT: &str = "consumer = $1 AND (cardinality($2) = 0 OR event_id = ANY($2))
    AND ($3 IS NULL OR processed_at <= clock_timestamp() - make_interval(secs => $3))
    AND ($4 IS NULL OR processed_at >= clock_timestamp() - make_interval(secs => $4))";

/// Removes old records of one consumer. Those of others are not looked at: they may be older, many, and kept for
/// longer. The time is compared together with the consumer, so that no index but that of both columns will do, whatever
/// the statistics say; and it is a query of its own, so that it is asked for once and the index knows where to end.
pub(crate) const PURGE_OF: &str = "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM {outbox}
    WHERE consumer = $3
        AND (consumer, processed_at) < ($3, (SELECT clock_timestamp() - make_interval(secs => $1)))
    ORDER BY processed_at LIMIT $2)";

/// Removes old records of all.
pub(crate) const PURGE: &str = "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM {outbox}
    WHERE processed_at < (SELECT clock_timestamp() - make_interval(secs => $1))
    ORDER BY processed_at LIMIT $2)";

impl Inbox {
    /// Forgets an event, so that it takes effect again when it is delivered again; true when it was known.
    pub async fn forget(&self, client: &Client, consumer: &str, event_id: &str) -> Result<bool, StoreError> {
        let one = Records::of(consumer).ids([event_id]);
        Ok(self.forget_all(client, &one).await? > 0)
    }

    /// How many records are meant: what [`Inbox::forget_all`] would remove.
    pub async fn count(&self, client: &Client, records: &Records) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {{outbox}} WHERE {MEANT}");
        self.ask(client, &sql, records, "counting records of the inbox")
            .await
    }

    /// Forgets every event whose record is meant; answers how many. What is recorded by a transaction under way stays.
    pub async fn forget_all(&self, client: &Client, records: &Records) -> Result<u64, StoreError> {
        let sql = format!(
            "WITH gone AS (DELETE FROM {{outbox}} WHERE {MEANT} RETURNING 1) SELECT count(*) FROM gone"
        );
        self.ask(client, &sql, records, "forgetting events of the inbox")
            .await
    }

    /// Removes records older than the longest time after which a broker can still redeliver, of one consumer or of all,
    /// at most `limit` rows; answers how many.
    pub async fn purge(
        &self,
        client: &Client,
        consumer: Option<&str>,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let (age, limit) = (clock::seconds(older_than), i64::from(limit));
        let gone = match consumer {
            Some(consumer) => {
                let sql = self.tables.sql(PURGE_OF);
                client.execute(&sql, &[&age, &limit, &consumer]).await
            }
            None => client.execute(&self.tables.sql(PURGE), &[&age, &limit]).await,
        };
        gone.map_err(|error| self.explain(error, "purging the inbox"))
    }

    async fn ask(
        &self,
        client: &Client,
        sql: &str,
        records: &Records,
        doing: &str,
    ) -> Result<u64, StoreError> {
        let ages = [records.older_than, records.newer_than].map(|age| age.map(clock::seconds));
        let values: [(&(dyn ToSql + Sync), Type); 4] = [
            (&records.consumer, Type::TEXT),
            (&records.ids, Type::TEXT_ARRAY),
            (&ages[0], Type::FLOAT8),
            (&ages[1], Type::FLOAT8),
        ];
        let row = client.query_typed_one(&self.tables.sql(sql), &values).await;
        let count = row.and_then(|row| row.try_get::<_, i64>(0));
        match count {
            Ok(count) => Ok(u64::try_from(count).unwrap_or_default()),
            Err(error) => Err(self.explain(error, doing)),
        }
    }
}
