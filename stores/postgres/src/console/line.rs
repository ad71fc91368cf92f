//! Whom a parked row stands behind.

use postrider_core::{EventRecord, Head};

use super::{View, status};
use crate::error::Result;
use crate::row::{self, destination};

/// The first of each line: one look at the index for each of the four stretches that a line is kept in, however long it
/// is.
const HEADS: &str = "SELECT p.seq, p.destination, h.event_id, h.destination, h.status
     FROM {outbox_parked} p
     CROSS JOIN LATERAL (
         SELECT min(f.seq) AS seq
         FROM (VALUES ('', false), ('', true), (p.destination, false), (p.destination, true)) w(destination, dead)
         CROSS JOIN LATERAL (
             SELECT b.seq FROM {outbox_parked} b
             WHERE b.line = p.line AND b.lane = p.lane AND b.destination = w.destination AND b.dead = w.dead
               AND b.seq > 0
             ORDER BY b.seq LIMIT 1) f
     ) first
     CROSS JOIN LATERAL (
         SELECT s.event_id, s.destination, s.status FROM {outbox_parked_status} s
         WHERE s.seq = first.seq AND s.destination IN ('', p.destination) ORDER BY s.destination LIMIT 1
     ) h
     WHERE p.seq = ANY ($1) AND first.seq < p.seq";

/// Writes into the parked routes of events whom they stand behind.
pub(super) async fn tell(view: &View, records: &mut [EventRecord]) -> Result<()> {
    let places: Vec<i64> = records.iter().map(|record| row::place(record.seq)).collect();
    for row in view.client().query(&view.sql(HEADS), &[&places]).await? {
        let seq = row::seq(row.try_get(0)?);
        let own = destination(row.try_get(1)?);
        let head = Head {
            event_id: row.try_get::<_, &str>(2)?.into(),
            destination: destination(row.try_get(3)?),
            status: status(row.try_get(4)?),
        };
        let routes = records.iter_mut().filter(|record| record.seq == seq);
        let mut routes = routes.flat_map(|record| &mut record.routes);
        if let Some(route) = routes.find(|route| route.status.is_parked() && route.destination == own) {
            route.behind = Some(head);
        }
    }
    Ok(())
}
