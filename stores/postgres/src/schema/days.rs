//! The index of the history for the days that hold rows already. Built beside the relays, day by day: within a step it
//! would keep every settle out for as long as it takes to read the whole history.

use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind, causes};
use tokio_postgres::Row;

use crate::PgStore;
use crate::error::Result;
use crate::ident::Tables;
use crate::operator::Work;

const DOING: &str = "indexing the history";

/// A day may hold hundreds of millions of rows.
const PATIENCE: Duration = Duration::from_secs(6 * 3_600);

/// A day without its index, in quoted names.
struct Day {
    table: String,
    schema: String,
    index: String,
    /// How the index is made, from its method on.
    how: String,
}

/// Builds what is missing. Filters by key and type are slower without, and nothing else is; so what stands in the way
/// is said, and no failure.
pub(super) async fn index(store: &PgStore) -> Result<u64, StoreError> {
    let look = |work: Work| async move { missing(&work).await };
    let days = store
        .operate("looking at the history", Duration::from_secs(30), look)
        .await?;
    let mut indexed = 0;
    for (done, day) in days.iter().enumerate() {
        tracing::info!(
            table = day.table,
            left = days.len() - done,
            "indexing a day of the history"
        );
        match store
            .outside(DOING, PATIENCE, &statements(store.tables(), day))
            .await
        {
            Ok(()) => indexed += 1,
            Err(error) if error.kind() == StoreErrorKind::Unreachable => return Err(error),
            Err(error) => tracing::warn!(
                table = day.table,
                error = causes(&error),
                "a day of the history has no index yet, so filters by key and type are slower; `postrider migrate up` \
                 tries again"
            ),
        }
    }
    Ok(indexed)
}

/// Nothing can be added to tables of somebody else.
const MISSING: &str = "SELECT format('%I.%I', n.nspname, c.relname), quote_ident(n.nspname),
         quote_ident(c.relname || '_search'),
         substring(pg_get_indexdef(to_regclass('{outbox_sent_search}')) FROM ' USING .*')
     FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE i.inhparent = to_regclass('{outbox_sent}') AND to_regclass('{outbox_sent_search}') IS NOT NULL
       AND pg_has_role(c.relowner, 'USAGE')
       AND NOT EXISTS (SELECT 1 FROM pg_index x JOIN pg_inherits a ON a.inhrelid = x.indexrelid
                       WHERE x.indrelid = c.oid AND a.inhparent = to_regclass('{outbox_sent_search}'))
     ORDER BY c.relname DESC";

async fn missing(work: &Work) -> Result<Vec<Day>> {
    let rows = work.client().query(&work.sql(MISSING), &[]).await?;
    let day = |row: &Row| {
        Ok(Day {
            table: row.try_get(0)?,
            schema: row.try_get(1)?,
            index: row.try_get(2)?,
            how: row.try_get(3)?,
        })
    };
    rows.iter().map(day).collect()
}

/// One after the other, each a transaction by itself. Of several processes one does it. What an attempt left behind
/// that was cut short is removed first.
fn statements(tables: &Tables, day: &Day) -> [String; 4] {
    let Day {
        table,
        schema,
        index,
        how,
    } = day;
    let alone = "DO $$ BEGIN
             IF NOT pg_try_advisory_lock(hashtextextended('postrider history {outbox}', 0)) THEN
                 RAISE lock_not_available USING MESSAGE = 'another process is at it';
             END IF;
         END $$";
    [
        tables.sql(alone),
        format!("DROP INDEX CONCURRENTLY IF EXISTS {schema}.{index}"),
        format!("CREATE INDEX CONCURRENTLY {index} ON {table}{how}"),
        tables.sql("ALTER INDEX {outbox_sent_search} ATTACH PARTITION ") + &format!("{schema}.{index}"),
    ]
}
