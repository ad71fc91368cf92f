//! Storing what was planned for some members: each statement is prepared once, however many they are.

use std::error::Error;

use postrider_core::{EnqueueError, Event, StoreError, StoreErrorKind};
use postrider_sqlite::error_kind;
use rusqlite::{Transaction, params};

use super::{Lite, digest, failed};
use crate::plan::{Planned, Planner, Subject};
use crate::{BoardError, Member, Occasion};

/// What became of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) stored: u64,
    pub(super) duplicates: u64,
    pub(super) muted: u64,
    pub(super) collected: u64,
}

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
    let stored = store(tx, lite, planner.subject(), &plan.notifications)?;
    Ok(Counts {
        stored,
        duplicates: plan.notifications.len() as u64 - stored,
        muted: plan.muted,
        ..Counts::default()
    })
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

/// Stores notifications, their deliveries and the events that carry them; answers how many are new.
pub(super) fn store(
    tx: &Transaction<'_>,
    lite: &Lite,
    subject: &Subject,
    notifications: &[Planned],
) -> Result<u64, BoardError> {
    let mut events = Vec::new();
    let mut stored = 0;
    for planned in notifications {
        let inserted =
            insert(tx, subject, planned).map_err(|error| failed(error, "storing a notification"))?;
        let Some(id) = inserted else { continue };
        stored += 1;
        deliver(tx, (id, subject, planned), &mut events)?;
    }
    let enqueued = lite.outbox.enqueue_all(tx, &events);
    enqueued.map_err(not_enqueued)?;
    Ok(stored)
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
) -> Result<(), BoardError> {
    let said = |error| failed(error, "storing a delivery");
    let mut insert = tx.prepare_cached(DELIVERY).map_err(said)?;
    for delivery in &planned.deliveries {
        let event = delivery.event(id, (subject, planned));
        let event =
            event.map_err(|error| BoardError::Occasion(format!("it cannot be delivered: {error}")))?;
        let event_id = event.as_ref().map(|event| event.id.as_str());
        let (channel, address) = (delivery.channel.as_str(), &delivery.address);
        insert
            .execute(params![id, channel, event_id, address, delivery.problem])
            .map_err(said)?;
        events.extend(event);
    }
    Ok(())
}

/// An id of ours in the outbox that is taken is no duplicate: its notification is new.
fn not_enqueued(error: EnqueueError) -> StoreError {
    let behind = error
        .source()
        .and_then(|source| source.downcast_ref::<rusqlite::Error>());
    let kind = behind.map_or(StoreErrorKind::Other, error_kind);
    StoreError::new(kind, "putting deliveries into the outbox failed").with_source(error)
}
