//! Storing what was planned for some members: each statement is prepared once, however many they are.

use postrider_core::{Event, StoreError};
use postrider_sqlite::error_kind;
use rusqlite::{Transaction, params};

use super::{Lite, digest, failed};
use crate::board::fault::not_enqueued;
use crate::board::work::Counts;
use crate::plan::{Planned, Planner, Subject};
use crate::{BoardError, Member, Occasion};

/// Stores the notifications of these members, or collects the occasion for them.
pub(super) fn run(
    tx: &Transaction<'_>,
    lite: &Lite,
    (planner, occasion): (&mut Planner<'_>, &Occasion),
    members: &[Member],
) -> Result<Counts, BoardError> {
    if let Some(digest) = planner.workflow().digest {
        return digest::collect(tx, (planner, occasion), digest.window, members);
    }
    let plan = planner.plan(members)?;
    let counts = store(tx, lite, planner.subject(), &plan.notifications)?;
    Ok(plan.counted(counts))
}

/// Only these two mean that a notification is there: any other violation is an error.
const NOTIFICATION: &str =
    "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category,
        resource_id, period, title, body, metadata)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (event_id, user_id) DO NOTHING
    ON CONFLICT (user_id, category, resource_id, period) WHERE resource_id IS NOT NULL DO NOTHING";

const DELIVERY: &str =
    "INSERT INTO notification_delivery (notification_id, channel, event_id, address, problem)
    VALUES (?1, ?2, ?3, ?4, ?5)";

/// Stores notifications with their deliveries, and what delivers them. Those that are there already are counted.
pub(super) fn store(
    tx: &Transaction<'_>,
    lite: &Lite,
    subject: &Subject,
    notifications: &[Planned],
) -> Result<Counts, BoardError> {
    let mut events = Vec::new();
    let mut counts = Counts::default();
    for planned in notifications {
        let inserted =
            insert(tx, subject, planned).map_err(|error| failed(error, "storing a notification"))?;
        match inserted {
            Some(id) => {
                counts.stored += 1;
                deliver(tx, (id, subject, planned), &mut events)?;
            }
            None => counts.duplicates += 1,
        }
    }
    let enqueued = lite.outbox.enqueue_all(tx, &events);
    enqueued.map_err(|error| not_enqueued(error, error_kind))?;
    Ok(counts)
}

/// The id of the new row; None when the notification is there already.
fn insert(tx: &Transaction<'_>, subject: &Subject, planned: &Planned) -> rusqlite::Result<Option<i64>> {
    let mut insert = tx.prepare_cached(NOTIFICATION)?;
    let inserted = insert.execute(params![
        subject.event_id,
        subject.event_type,
        subject.audience,
        subject.workflow,
        planned.user_id,
        subject.category,
        subject.resource_id,
        subject.period,
        planned.words.title,
        planned.words.body,
        subject.metadata,
    ])?;
    Ok((inserted == 1).then(|| tx.last_insert_rowid()))
}

/// Stores the deliveries of one, and hands out the events that carry them.
fn deliver(
    tx: &Transaction<'_>,
    (id, subject, planned): (i64, &Subject, &Planned),
    events: &mut Vec<Event>,
) -> Result<(), StoreError> {
    let said = |error| failed(error, "storing a delivery");
    let mut insert = tx.prepare_cached(DELIVERY).map_err(said)?;
    for delivery in &planned.deliveries {
        let event = delivery.event(id, (subject, planned));
        let event = event.map_err(|invalid| not_enqueued(invalid.into(), error_kind))?;
        let event_id = event.as_ref().map(|event| event.id.as_str());
        let (channel, address) = (delivery.channel.as_str(), &delivery.address);
        insert
            .execute(params![id, channel, event_id, address, delivery.problem])
            .map_err(said)?;
        events.extend(event);
    }
    Ok(())
}
