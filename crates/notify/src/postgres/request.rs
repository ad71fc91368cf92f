//! Requests with a key: the first that says something with it counts.

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, accept, failed};
use crate::people::Page;
use crate::{Accepted, BoardError, Occasion};

/// Accepts in the caller's transaction. Whoever comes with the same key at the same time waits for its end.
pub(super) async fn accept(
    tx: &Transaction<'_>,
    pg: &Pg,
    occasion: &Occasion,
    asked: Option<&Page>,
) -> Result<Accepted, BoardError> {
    let said = |error| failed(error, "looking what a key was used for");
    let (event_id, fingerprint) = (&occasion.event_id, occasion.fingerprint());
    let key: (&(dyn ToSql + Sync), Type) = (event_id, Type::TEXT);
    let sql =
        "INSERT INTO {notification_request} (event_id, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let values = [key.clone(), (&fingerprint, Type::TEXT)];
    let is_new = tx
        .execute_typed(&pg.names.sql(sql), &values)
        .await
        .map_err(said)?
        > 0;
    if !is_new {
        // A statement of its own, because the one that inserts does not see what was committed while it waited.
        let sql = "SELECT 1 FROM {notification_request} WHERE event_id = $1 AND fingerprint <> $2";
        let other = tx.query_typed(&pg.names.sql(sql), &values).await.map_err(said)?;
        if !other.is_empty() {
            return Err(BoardError::Reused);
        }
    }
    let accepted = accept::accept(tx, pg, occasion, asked).await?;
    if is_new && accepted.is_nothing() {
        let sql = "DELETE FROM {notification_request} WHERE event_id = $1";
        tx.execute_typed(&pg.names.sql(sql), &[key]).await.map_err(said)?;
    }
    Ok(accepted)
}
