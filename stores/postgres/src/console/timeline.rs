//! What happened to one event.

use postrider_core::{EventId, EventRecord, Moment, Original, Timestamp, What};

use super::View;
use super::record::time;
use crate::clock::Micros;
use crate::error::Result;
use crate::row::{self, destination, storable};

/// When the rows of an id were written, and how those that are gone left.
const ROWS: &str =
    "SELECT seq, enqueued_at, NULL::text AS outcome, NULL::timestamptz AS at, NULL::text AS destination,
            NULL::text AS detail, replay_id FROM {outbox} WHERE event_id = $1
     UNION ALL SELECT seq, enqueued_at, NULL, NULL, NULL, NULL, replay_id FROM {outbox_parked}
     WHERE event_id = $1 AND seq > 0
     UNION ALL SELECT seq, enqueued_at, outcome, published_at, destination,
            CASE outcome WHEN 'discarded' THEN reason ELSE receipt END, replay_id FROM {outbox_sent}
     WHERE event_id = $1 AND outcome IN ('published', 'discarded')";

const DEEDS: &str = "SELECT at, action, actor FROM {outbox_audit} WHERE event_id = $1 AND touched > 0";

const ORIGINALS: &str =
    "SELECT seq, payload, payload_bytes, content_type, edited_at, actor FROM {outbox_original}
     WHERE seq = ANY ($1) ORDER BY seq, destination";

/// Writes into the records of one id what happened to them, and what their payloads were.
pub(super) async fn tell(view: &View, id: &EventId, records: &mut [EventRecord]) -> Result<()> {
    let id = storable(id.as_str());
    for record in &mut *records {
        record.timeline = of_routes(record);
    }
    let mut enqueued = std::collections::BTreeSet::new();
    for row in view.client().query(&view.sql(ROWS), &[&id]).await? {
        let seq = row::seq(row.try_get(0)?);
        let at = time(&row, "at")?;
        let replayed = row.try_get::<_, Option<&str>>("replay_id")?.is_some();
        let written = time(&row, "enqueued_at")?.filter(|_| enqueued.insert(seq));
        for record in &mut *records {
            let own = record.seq == seq;
            let written = written.filter(|_| own).map(|at| moment(at, What::Enqueued));
            record.timeline.extend(written);
            let what = match row.try_get::<_, Option<&str>>("outcome")? {
                Some("published") if own => What::Published,
                Some("published") if replayed && record.replay.is_none() => What::Replayed,
                Some("discarded") if own => What::Discarded,
                _ => continue,
            };
            let name: Option<&str> = row.try_get("destination")?;
            let detail: Option<String> = row.try_get("detail")?;
            record.timeline.extend(at.map(|at| Moment {
                destination: name.and_then(destination),
                detail: detail.unwrap_or_default(),
                ..moment(at, what)
            }));
        }
    }
    deeds(view, &id, records).await?;
    originals(view, records).await?;
    for record in records {
        record.timeline.sort_by_key(|moment| (moment.at, moment.what));
    }
    Ok(())
}

fn of_routes(record: &EventRecord) -> Vec<Moment> {
    let mut all = Vec::new();
    for route in &record.routes {
        let mut add = |at: Option<Timestamp>, what, detail: Option<&String>| {
            all.extend(at.map(|at| Moment {
                destination: route.destination.clone(),
                detail: detail.cloned().unwrap_or_default(),
                ..moment(at, what)
            }));
        };
        let (first, last) = route.failed.unzip();
        add(first, What::FirstFailed, route.error.as_ref());
        add(
            last.filter(|_| first != last),
            What::LastFailed,
            route.error.as_ref(),
        );
        add(route.next_attempt_at, What::NextAttempt, None);
    }
    all
}

/// What people did to the one event that they named. That it was discarded, the history says.
async fn deeds(view: &View, id: &str, records: &mut [EventRecord]) -> Result<()> {
    for row in view.client().query(&view.sql(DEEDS), &[&id]).await? {
        let what = match row.try_get::<_, &str>(1)? {
            "redrive" => What::Redriven,
            "edit" => What::Edited,
            "move" => What::Moved,
            _ => continue,
        };
        let at = row.try_get::<_, Micros>(0)?.into();
        let actor: String = row.try_get(2)?;
        for record in records.iter_mut().filter(|record| record.replay.is_none()) {
            record.timeline.push(Moment {
                actor: Some(actor.clone()),
                ..moment(at, what)
            });
        }
    }
    Ok(())
}

async fn originals(view: &View, records: &mut [EventRecord]) -> Result<()> {
    let places: Vec<i64> = records.iter().map(|record| row::place(record.seq)).collect();
    for row in view.client().query(&view.sql(ORIGINALS), &[&places]).await? {
        let seq = row::seq(row.try_get(0)?);
        let original = Original {
            payload: row::payload(row.try_get(1)?, row.try_get(2)?),
            content_type: row.try_get(3)?,
            edited_at: row.try_get::<_, Micros>(4)?.into(),
            actor: row.try_get(5)?,
        };
        for record in records.iter_mut().filter(|record| record.seq == seq) {
            record.original.get_or_insert_with(|| original.clone());
        }
    }
    Ok(())
}

fn moment(at: Timestamp, what: What) -> Moment {
    Moment {
        at,
        what,
        destination: None,
        actor: None,
        detail: String::new(),
    }
}
