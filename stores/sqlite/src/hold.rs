//! What keeps history from being removed: a replay that has still to read it.

use rusqlite::{Connection, OptionalExtension};

use crate::error::Result;
use crate::ident::Tables;

/// The replay that is least far. One that has made all its copies reads no more, however long they take to be sent.
pub(crate) struct Hold {
    pub(crate) job: String,
    /// The last place that it has passed. That of its cursor may not be done yet: its event may have gone to another
    /// destination too.
    pub(crate) passed: i64,
}

impl Hold {
    pub(crate) fn find(connection: &Connection, tables: &Tables) -> Result<Option<Hold>> {
        let sql = tables.sql(
            "SELECT id, CAST(coalesce(cursor, '0') AS INTEGER) - 1 AS passed FROM {outbox_job}
             WHERE kind = 'replay' AND state IN ('running', 'paused')
               AND (NOT json_valid(spec) OR json_extract(spec, '$.restored') IS NULL)
               AND CAST(coalesce(cursor, '0') AS INTEGER) <= bound
             ORDER BY passed LIMIT 1",
        );
        let hold = connection.prepare_cached(&sql)?.query_row([], |row| {
            Ok(Hold {
                job: row.get(0)?,
                passed: row.get(1)?,
            })
        });
        Ok(hold.optional()?)
    }
}
