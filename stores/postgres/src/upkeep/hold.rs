//! What keeps history from being removed: a replay that has still to read it.

use crate::console::View;
use crate::error::Result;

/// The replay that is least far.
pub(super) struct Hold {
    pub(super) job: String,
    /// The last place that it has passed.
    pub(super) passed: i64,
}

/// The place of the cursor itself may not be done yet: its event may have gone to another destination too.
pub(super) const FIND: &str = "SELECT j.id, split_part(coalesce(j.cursor, '0'), ':', 1)::bigint - 1 AS passed
     FROM {outbox_job} j
     WHERE j.kind = 'replay' AND j.state IN ('running', 'paused') AND (j.spec::jsonb ->> 'restored') IS NULL
     ORDER BY 2 LIMIT 1";

pub(super) async fn find(view: &View) -> Result<Option<Hold>> {
    let row = view.client().query_opt(&view.sql(FIND), &[]).await?;
    let hold = |row: tokio_postgres::Row| {
        Ok(Hold {
            job: row.try_get(0)?,
            passed: row.try_get(1)?,
        })
    };
    row.map(hold).transpose()
}

/// What is said of it.
pub(super) fn words(job: &str) -> String {
    format!("the replay {job} has still to read it")
}
