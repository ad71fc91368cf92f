//! Taking an occasion: its first chunk now, the rest as a fan-out.

use std::sync::Arc;

use postrider_core::StoreError;
use postrider_postgres::PgHandler;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, chunk, directory, fanout, feed};
use crate::board::fault::verdict;
use crate::people::Page;
use crate::plan::{Planner, Subject};
use crate::{Accepted, BoardError, Notification, Occasion, To};

/// What a listener runs in the transaction of the inbox.
pub(super) fn handler(pg: &Arc<Pg>) -> Arc<PgHandler> {
    let pg = Arc::clone(pg);
    postrider_postgres::handler(move |event, tx| {
        let pg = Arc::clone(&pg);
        Box::pin(async move {
            if pg.means.workflows.ignores(event.event_type()) {
                return Ok(());
            }
            let occasion = Occasion::read(event)?;
            verdict(match &pg.means.people {
                Some(_) => later(tx, &pg, &occasion).await,
                None => first(tx, &pg, &occasion).await,
            })
        })
    })
}

/// Accepts its first chunk.
async fn first(tx: &Transaction<'_>, pg: &Pg, occasion: &Occasion) -> Result<(), BoardError> {
    let accepted = accept(tx, pg, occasion, None).await?;
    pg.means.pend(occasion, &accepted);
    Ok(())
}

/// Writes down that all of it is left to do, where who is meant is not ours to know: it would be asked for within the
/// transaction of the inbox.
async fn later(tx: &Transaction<'_>, pg: &Pg, occasion: &Occasion) -> Result<(), BoardError> {
    let planner = Planner::later(&pg.means.workflows, occasion)?;
    let workflow = &planner.workflow().name;
    fanout::begin(tx, pg, (occasion, workflow, None, 0)).await?;
    Ok(())
}

/// Accepts in the caller's transaction, for the members of our tables or for the people that were asked for.
pub(super) async fn accept(
    tx: &Transaction<'_>,
    pg: &Pg,
    occasion: &Occasion,
    asked: Option<&Page>,
) -> Result<Accepted, BoardError> {
    let mut planner = Planner::new(&pg.means.workflows, occasion)?;
    let (members, is_last) = directory::page(tx, pg, (&occasion.to, None), asked).await?;
    let counts = chunk::run(tx, pg, (&mut planner, occasion), &members).await?;
    let goes_on = match counts.reached((&members, is_last)) {
        (cursor @ Some(_), true) => {
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
