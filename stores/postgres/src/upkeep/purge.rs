//! Removal by age.

use postrider_core::{Kept, Purge, Purged, StoreError};

use crate::clock;
use crate::console::{View, audit};
use crate::error::Result;

pub(super) async fn purge(view: &View, purge: &Purge) -> Result<Purged> {
    match purge.what {
        Kept::History if !purge.dry_run && purge.not_after.is_none() => history(view, purge).await,
        _ => Err(StoreError::unsupported().into()),
    }
}

/// The bound is the same for the whole statement, and on both sides of the join: partitions that are younger are not
/// opened.
pub(crate) const PURGE: &str = "DELETE FROM {outbox_sent} s USING (
         SELECT o.tableoid AS part, o.ctid AS place FROM {outbox_sent} o
         WHERE o.published_at < now() - make_interval(secs => $1) LIMIT $2
     ) o WHERE s.tableoid = o.part AND s.ctid = o.place AND s.published_at < now() - make_interval(secs => $1)";

/// Removes history row by row; what is older than it is kept goes by whole partitions, and cheaper.
async fn history(view: &View, purge: &Purge) -> Result<Purged> {
    let (older_than, limit) = (purge.older_than, purge.limit);
    let sql = view.sql(PURGE);
    let gone = view
        .client()
        .execute(&sql, &[&clock::seconds(older_than), &i64::from(limit)])
        .await?;
    if gone > 0 {
        let detail = format!("older than {}s", older_than.as_secs());
        audit(
            view,
            purge.actor.as_deref().unwrap_or("-"),
            "purge",
            &detail,
            gone,
            0,
        )
        .await?;
    }
    Ok(Purged {
        rows: gone,
        exact: true,
        more: gone >= u64::from(limit),
    })
}
