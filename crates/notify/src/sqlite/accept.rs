//! Taking an occasion: its first chunk now, the rest as a fan-out.

use std::sync::Arc;

use postrider_core::StoreError;
use postrider_sqlite::SqliteHandler;
use rusqlite::{Transaction, params};

use super::{Lite, chunk, directory, fanout, feed};
use crate::board::fault::verdict;
use crate::people::Page;
use crate::plan::{Planner, Subject};
use crate::{Accepted, BoardError, Notification, Occasion, To};

/// What a listener runs in the transaction of the inbox.
pub(super) fn handler(lite: &Arc<Lite>) -> Arc<SqliteHandler> {
    let lite = Arc::clone(lite);
    postrider_sqlite::handler(move |event, tx| {
        if lite.means.workflows.ignores(event.event_type()) {
            return Ok(());
        }
        let occasion = Occasion::read(event)?;
        verdict(match &lite.means.people {
            Some(_) => later(tx, &lite, &occasion),
            None => first(tx, &lite, &occasion),
        })
    })
}

/// Accepts its first chunk.
fn first(tx: &Transaction<'_>, lite: &Lite, occasion: &Occasion) -> Result<(), BoardError> {
    let accepted = accept(tx, lite, occasion, None)?;
    lite.means.pend(occasion, &accepted);
    Ok(())
}

/// Writes down that all of it is left to do, where who is meant is not ours to know: it would be asked for within the
/// transaction of the inbox.
fn later(tx: &Transaction<'_>, lite: &Lite, occasion: &Occasion) -> Result<(), BoardError> {
    let planner = Planner::later(&lite.means.workflows, occasion)?;
    fanout::begin(tx, (occasion, &planner.workflow().name, None, 0))?;
    Ok(())
}

/// Accepts in the caller's transaction, for the members of our tables or for the people that were asked for.
pub(super) fn accept(
    tx: &Transaction<'_>,
    lite: &Lite,
    occasion: &Occasion,
    asked: Option<&Page>,
) -> Result<Accepted, BoardError> {
    let mut planner = Planner::new(&lite.means.workflows, occasion)?;
    let (members, is_last) = directory::page(tx, (&occasion.to, None), asked)?;
    let counts = chunk::run(tx, lite, (&mut planner, occasion), &members)?;
    let goes_on = match counts.reached((&members, is_last)) {
        (cursor @ Some(_), true) => {
            let workflow = &planner.workflow().name;
            fanout::begin(tx, (occasion, workflow, cursor, counts.stored))?
        }
        _ => false,
    };
    let one = match &occasion.to {
        To::User(user) => one(tx, lite, user, planner.subject())?,
        To::Topic(_) => None,
    };
    Ok(counts.accepted(goes_on, one))
}

/// The notification of a user that an occasion made or met: by its event, else by what it is about.
fn one(
    tx: &Transaction<'_>,
    lite: &Lite,
    user: &str,
    subject: &Subject,
) -> Result<Option<Notification>, StoreError> {
    let Subject {
        event_id,
        category,
        resource_id,
        period,
        ..
    } = subject;
    let behind = "WHERE n.id = coalesce(
        (SELECT id FROM notification WHERE event_id = ?2 AND user_id = ?1),
        (SELECT id FROM notification WHERE user_id = ?1 AND category = ?3 AND resource_id = ?4 AND period = ?5))";
    let values = params![user, event_id, category, resource_id, period];
    Ok(feed::notifications(tx, lite, behind, values)?.pop())
}
