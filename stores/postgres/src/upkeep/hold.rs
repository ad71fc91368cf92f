//! What keeps history from being removed: a replay that has still to read it. One that has made all its copies reads no
//! more, however long they take to be sent.

use crate::console::View;
use crate::error::Result;

/// The replay that is least far.
pub(super) struct Hold {
    pub(super) job: String,
    /// The last place that it has passed.
    pub(super) passed: i64,
}

/// Whether the job `j` is a replay that has still to make copies. The cursors of other jobs are not places.
pub(super) const READS: &str = "CASE WHEN j.kind = 'replay' AND j.state IN ('running', 'paused')
         THEN split_part(coalesce(j.cursor, '0'), ':', 1)::bigint <= j.bound ELSE false END";

/// The place of the cursor itself may not be done yet: its event may have gone to another destination too.
const FIND: &str = "SELECT j.id, split_part(coalesce(j.cursor, '0'), ':', 1)::bigint - 1 AS passed
     FROM {outbox_job} j
     WHERE {READS} AND (j.spec::jsonb ->> 'restored') IS NULL
     ORDER BY 2 LIMIT 1";

/// The statement that finds it, as a template.
pub(super) fn sql() -> String {
    FIND.replace("{READS}", READS)
}

/// Lets no replay begin before the end of the transaction. One that began between the choice of what goes and its
/// removal would miss it, and end as if it had read all. Removals take turns by it.
const NO_MORE: &str = "LOCK TABLE {outbox_job} IN SHARE UPDATE EXCLUSIVE MODE";

/// Has removals and replays that begin take turns; to be called before the transaction looks for a hold.
pub(super) async fn no_more(view: &View) -> Result<()> {
    Ok(view.client().batch_execute(&view.sql(NO_MORE)).await?)
}

pub(super) async fn find(view: &View) -> Result<Option<Hold>> {
    let row = view.client().query_opt(&view.sql(&sql()), &[]).await?;
    let hold = |row: tokio_postgres::Row| {
        Ok(Hold {
            job: row.try_get(0)?,
            passed: row.try_get(1)?,
        })
    };
    row.map(hold).transpose()
}
