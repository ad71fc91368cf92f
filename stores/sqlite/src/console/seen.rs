//! What a filter looks at: of a row in any of the tables, everything but what the producer sent along.

use postrider_core::{
    DestinationName, EventId, EventRecord, Filter, Job, JobId, OrderKey, RecordedRoute, Status, Timestamp,
};
use rusqlite::Row;

use super::{View, status};
use crate::error::Result;
use crate::{clock, row};

/// The columns of a queued row.
pub(super) const QUEUED: &str = "seq, event_id, event_type, aggregate_type, aggregate_id, event_key, created_at, \
     enqueued_at, replay_id, '', 'PENDING', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL";

/// The columns of a row of the view `outbox_parked_status`, as `v`.
pub(super) const PARKED: &str = "v.seq, v.event_id, v.event_type, v.aggregate_type, v.aggregate_id, v.event_key, \
     v.created_at, v.enqueued_at, v.replay_id, v.destination, v.status, v.failures, v.error_kind, v.error_group, \
     v.error_text, v.first_failed_at, v.last_failed_at, v.order_key, v.next_attempt_at";

/// The columns of a row of the history.
pub(super) const SENT: &str = "seq, event_id, event_type, aggregate_type, aggregate_id, event_key, created_at, \
     enqueued_at, replay_id, coalesce(destination, ''), iif(outcome = 'published', 'PUBLISHED', 'DISCARDED'), \
     failures, NULL, NULL, iif(outcome = 'published', NULL, reason), NULL, NULL, NULL, NULL";

/// Where the destination is among them.
pub(super) const DESTINATION: usize = 9;

/// How many columns these are.
pub(super) const COLUMNS: usize = 19;

/// A row as far as a filter looks at it.
pub(super) struct Seen {
    pub(super) place: i64,
    pub(super) destination: String,
    record: EventRecord,
    route: RecordedRoute,
    is_alone: bool,
}

impl Seen {
    /// Reads a row that was selected with one of the lists of columns.
    pub(super) fn read(view: &View<'_>, row: &Row<'_>) -> Result<Self> {
        let place: i64 = row.get(0)?;
        let text = |index: usize| -> Result<Option<String>> { Ok(row::lossy_or_none(row.get_ref(index)?)) };
        let event_id = match row.get_ref(1)?.as_str() {
            Ok(id) => EventId::from(id),
            Err(_) => row::derived_id(&view.standing.outbox_id, place),
        };
        let key = match text(5)? {
            Some(key) => key,
            None => format!(
                "{}/{}",
                text(3)?.unwrap_or_default(),
                text(4)?.unwrap_or_default()
            ),
        };
        let made = clock::parse(row.get_ref(6)?).ok().flatten();
        let enqueued: Option<i64> = row.get(7)?;
        let destination = text(DESTINATION)?.unwrap_or_default();
        let named = Some(destination.as_str()).filter(|name| !name.is_empty());
        let failed = row.get::<_, Option<i64>>(15)?.zip(row.get::<_, Option<i64>>(16)?);
        let route = RecordedRoute {
            failures: row.get(11)?,
            error_kind: text(12)?,
            error_group: text(13)?,
            error: text(14)?,
            failed: failed.map(|(first, last)| (Timestamp(first), Timestamp(last))),
            next_attempt_at: row.get::<_, Option<i64>>(18)?.map(Timestamp),
            ..RecordedRoute::new(
                named.map(DestinationName::from),
                status(&text(10)?.unwrap_or_default()),
            )
        };
        let record = EventRecord {
            seq: row::seq(place),
            event: Err(String::new()),
            bad_payload: None,
            event_id,
            event_type: text(2)?.unwrap_or_default(),
            key,
            created_at: made.unwrap_or(Timestamp(enqueued.unwrap_or(view.standing.now))),
            replay: text(8)?.map(|id| JobId::from(id.as_str())),
            routes: Vec::new(),
            timeline: Vec::new(),
            original: None,
        };
        Ok(Self {
            place,
            destination,
            record,
            route,
            is_alone: text(17)?.is_some_and(|key| OrderKey::new(key).is_alone()),
        })
    }

    pub(super) fn event_id(&self) -> &EventId {
        &self.record.event_id
    }

    pub(super) fn status(&self) -> Status {
        self.route.status
    }

    /// Whether it stands in no line, as what is scheduled does.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn is_meant(&self, view: &View<'_>, filter: &Filter) -> bool {
        self.is_meant_at(Timestamp(view.standing.now), filter)
    }

    /// With the ages of this moment.
    pub(super) fn is_meant_at(&self, now: Timestamp, filter: &Filter) -> bool {
        filter.matches(&self.record, &self.route, now)
    }

    pub(super) fn is_meant_by(&self, job: &Job) -> bool {
        job.means(&self.record, &self.route)
    }
}
