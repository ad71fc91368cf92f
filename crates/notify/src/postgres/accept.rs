//! Taking an occasion: its first chunk now, the rest as a fan-out.

use std::sync::Arc;

use postrider_core::StoreError;
use postrider_postgres::PgHandler;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, chunk, directory, fanout, feed};
use crate::board::fault::verdict;
use crate::plan::{Planner, Subject};
use crate::{Accepted, BoardError, CHUNK, Notification, Occasion, To};

/// What a listener runs in the transaction of the inbox.
pub(super) fn handler(pg: &Arc<Pg>) -> Arc<PgHandler> {
    let pg = Arc::clone(pg);
    postrider_postgres::handler(move |event, tx| {
        let pg = Arc::clone(&pg);
        Box::pin(async move {
            let occasion = Occasion::read(event)?;
            verdict(accept(tx, &pg, &occasion).await)
        })
    })
}

/// Accepts in the caller's transaction.
pub(super) async fn accept(
    tx: &Transaction<'_>,
    pg: &Pg,
    occasion: &Occasion,
) -> Result<Accepted, BoardError> {
    let mut planner = Planner::new(&pg.workflows, occasion)?;
    let members = directory::members(tx, pg, (&occasion.to, None, CHUNK)).await?;
    let counts = chunk::run(tx, pg, (&mut planner, occasion), &members).await?;
    let goes_on = match counts.reached(&members) {
        (Some(cursor), true) => {
            let workflow = &planner.workflow().name;
            fanout::begin(tx, pg, (occasion, workflow, cursor, counts.stored)).await?
        }
        _ => false,
    };
    let one = match &occasion.to {
        To::User(user) => one(tx, pg, user, planner.subject()).await?,
        To::Topic(_) => None,
    };
    Ok(counts.accepted(goes_on, one))
}

/// The notification of a user that an occasion made or met: by its event, else by what it is about.
async fn one(
    tx: &Transaction<'_>,
    pg: &Pg,
    user: &str,
    subject: &Subject,
) -> Result<Option<Notification>, StoreError> {
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&user, Type::TEXT),
        (&subject.event_id, Type::TEXT),
        (&subject.category, Type::TEXT),
        (&subject.resource_id, Type::TEXT),
        (&subject.period, Type::INT8),
    ];
    let behind = "WHERE n.id = coalesce(
        (SELECT id FROM {notification} WHERE event_id = $2 AND user_id = $1),
        (SELECT id FROM {notification} WHERE user_id = $1 AND category = $3 AND resource_id = $4 AND period = $5))";
    Ok(feed::notifications(tx, pg, behind, &values).await?.pop())
}
