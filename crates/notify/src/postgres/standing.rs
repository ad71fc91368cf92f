//! What is not done yet.

use postrider_core::StoreError;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::{Pg, failed};
use crate::{Aside, Standing};

const STANDING: &str = "SELECT f.open, f.aside, d.open, d.aside FROM
    (SELECT count(*) AS open, count(problem) AS aside FROM {notification_fanout} WHERE finished_at IS NULL) f,
    (SELECT count(*) AS open, count(problem) AS aside FROM {notification_digest} WHERE sent_at IS NULL) d";

const ASIDE: &str = "(SELECT event_id, problem FROM {notification_fanout}
        WHERE finished_at IS NULL AND problem IS NOT NULL ORDER BY created_at LIMIT $1)
    UNION ALL (SELECT 'notification-digest-' || id, problem FROM {notification_digest}
        WHERE sent_at IS NULL AND problem IS NOT NULL ORDER BY id LIMIT $1)";

pub(super) async fn standing(tx: &Transaction<'_>, pg: &Pg) -> Result<Standing, StoreError> {
    let said = |error| failed(error, "looking what is not done yet");
    let row = tx.query_typed(&pg.names.sql(STANDING), &[]).await;
    let row = row.map_err(said)?.into_iter().next();
    let Some(row) = row else {
        return Ok(Standing::default());
    };
    let count = |at| row.try_get::<_, i64>(at).map(i64::unsigned_abs).map_err(said);
    let most = i64::try_from(Standing::MOST).unwrap_or(i64::MAX);
    let named = tx
        .query_typed(&pg.names.sql(ASIDE), &[(&most as _, Type::INT8)])
        .await;
    let mut aside = Vec::new();
    for row in &named.map_err(said)? {
        aside.push(Aside {
            event_id: row.try_get(0).map_err(said)?,
            problem: row.try_get(1).map_err(said)?,
        });
    }
    Ok(Standing {
        aside,
        fan_outs: count(0)?,
        fan_outs_aside: count(1)?,
        digests: count(2)?,
        digests_aside: count(3)?,
    })
}
