//! Whom a parked row stands behind.

use postrider_core::{DestinationName, EventId, EventRecord, Head};
use rusqlite::params;

use super::{View, status};
use crate::error::Result;
use crate::row;

/// The first place of the line that the row at ?1 for ?2 stands in: one look at the index for each of the four
/// stretches that the line is kept in, however long it is.
const FIRST: &str = "SELECT min(first) FROM (
         SELECT (SELECT min(b.seq) FROM {outbox_parked} b INDEXED BY {outbox_parked_line}
                 WHERE b.order_key = p.order_key AND b.lane = p.lane AND b.destination = w.destination
                   AND b.dead = w.dead AND b.seq > 0) AS first
         FROM {outbox_parked} p, (SELECT '' AS destination, 0 AS dead UNION ALL SELECT '', 1
                                  UNION ALL SELECT ?2, 0 UNION ALL SELECT ?2, 1) w
         WHERE p.seq = ?1 AND p.destination = ?2)";

const HEAD: &str = "SELECT event_id, destination, status FROM {outbox_parked_status}
     WHERE seq = ?1 AND destination IN ('', ?2) ORDER BY destination LIMIT 1";

/// Writes into the parked routes of an event whom they stand behind.
pub(super) fn tell(view: &View<'_>, record: &mut EventRecord) -> Result<()> {
    let place = row::place(record.seq);
    for route in record.routes.iter_mut().filter(|route| route.status.is_parked()) {
        let own = route.destination.as_ref().map_or("", |name| name.as_str());
        let mut statement = view.tx.prepare_cached(&view.sql(FIRST))?;
        let first: Option<i64> = statement.query_row(params![place, own], |row| row.get(0))?;
        if let Some(first) = first.filter(|first| *first < place) {
            route.behind = head(view, first, own)?;
        }
    }
    Ok(())
}

fn head(view: &View<'_>, place: i64, own: &str) -> Result<Option<Head>> {
    let mut statement = view.tx.prepare_cached(&view.sql(HEAD))?;
    let mut rows = statement.query(params![place, own])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let event_id = match row.get_ref(0)?.as_str() {
        Ok(id) => EventId::from(id),
        Err(_) => row::derived_id(&view.standing.outbox_id, place),
    };
    let destination: String = row.get(1)?;
    Ok(Some(Head {
        event_id,
        destination: (!destination.is_empty()).then(|| DestinationName::from(destination)),
        status: status(&row.get::<_, String>(2)?),
    }))
}
