//! A parked row that is routed anew: it is replaced by rows for other destinations, and those behind it follow.

use postrider_core::Park;
use rusqlite::params;

use super::{Writer, Written, insert};
use crate::error::Result;
use crate::row::destination_text;

/// Whether another event stands at the place of the row at ?2, for the destination ?3: a sequence that was set back
/// gives places out again. The same event may be there already, and then it is owed there once.
pub(crate) const FIND_OTHER: &str = "SELECT 1 FROM {outbox_parked} o JOIN {outbox_parked} b ON b.seq = o.seq
     WHERE o.seq = ?1 AND o.destination = ?2 AND b.destination = ?3
       AND (b.event_id IS NOT o.event_id OR b.enqueued_at IS NOT o.enqueued_at)";

/// A row that cannot go where it was to go: it stays, for a person.
pub(crate) const REFUSE_PARKED: &str =
    "UPDATE {outbox_parked} SET version = version + 1, dead = 1, failures = failures + 1, redriven = 0, updated_at = ?3,
            next_attempt_at = ?3, error_kind = ?4, error_text = ?5, error_group = ?6,
            first_failed_at = coalesce(first_failed_at, ?3), last_failed_at = ?3
     WHERE seq = ?1 AND destination = ?2";

/// The row at ?11 as a row for another destination. Where the event stands there already, only what a person has
/// changed of it is written, as if it had been changed there, unless somebody has changed that. How it had failed stays
/// for people to read: without a kind, because one that has a kind is being refused, and without the time of the first
/// failure, because it has not failed there.
pub(crate) const PARK_PARKED: &str =
    "INSERT INTO {outbox_parked} (seq, destination, lane, order_key, event_id, version, dead, next_attempt_at, attempts,
            failures, maybe_sent, error_kind, error_text, first_failed_at, last_failed_at, updated_at, error_group,
            edited, {carried})
     SELECT seq, ?2, lane, order_key, event_id, version + 1, ?3, ?4, ?5, ?6, ?7, ?8,
            iif(?8 IS NULL, iif(error_kind IS NULL, error_text, error_kind || ': ' || error_text), ?9),
            iif(?8 IS NULL, NULL, ?10), iif(?8 IS NULL, last_failed_at, ?10), ?10, ?12,
            iif(edited IS NULL, NULL, version + 1), {carried}
     FROM {outbox_parked} WHERE seq = ?1 AND destination = ?11
     ON CONFLICT (seq, destination) DO UPDATE SET payload = excluded.payload, payload_bytes = excluded.payload_bytes,
            content_type = excluded.content_type, version = version + 1, edited = version + 1
     WHERE excluded.edited IS NOT NULL AND edited IS NULL";

/// Keeps what stands at ?2 and is to get the payload of the row at ?3, as an edit does: a relay may be sending it. Who
/// and when are those of the latest edit of the place.
pub(crate) const KEEP_ORIGINAL: &str =
    "INSERT OR REPLACE INTO {outbox_original}
         (seq, destination, version, payload, payload_bytes, content_type, actor, edited_at)
     SELECT t.seq, t.destination, t.version + 1, t.payload, t.payload_bytes, t.content_type, o.actor, o.edited_at
     FROM {outbox_parked} t INDEXED BY {outbox_parked_place}
     CROSS JOIN {outbox_parked} f INDEXED BY {outbox_parked_place}
     CROSS JOIN {outbox_original} o
     WHERE t.seq = ?1 AND t.destination = ?2 AND t.edited IS NULL
       AND f.seq = ?1 AND f.destination = ?3 AND f.edited IS NOT NULL AND o.seq = ?1
     ORDER BY o.edited_at DESC LIMIT 1";

/// The next row of the line of the row at ?1 for ?2 goes on as if it were redriven itself. Whoever had the first of a
/// key routed anew means those that wait behind it; each leads the next one, because all of them at once may be many.
pub(crate) const LEAD_NEXT: &str =
    "UPDATE {outbox_parked} INDEXED BY {outbox_parked_place} SET redriven = 1, version = version + 1, updated_at = ?3
     WHERE destination = ?2 AND seq = (
         SELECT n.seq FROM {outbox_parked} o INDEXED BY {outbox_parked_place}
         CROSS JOIN {outbox_parked} n INDEXED BY {outbox_parked_line}
         WHERE o.seq = ?1 AND o.destination = ?2 AND n.order_key = o.order_key AND n.lane = o.lane
           AND n.destination = ?2 AND n.dead = 0 AND n.seq > ?1
         ORDER BY n.seq LIMIT 1)";

impl Writer<'_> {
    /// Puts others in the place of a row; answers whether the row is to go, which it is not where another event stands
    /// in its way.
    pub(super) fn route_anew(&mut self, place: i64, destination: &str, parks: &[Park]) -> Result<bool> {
        if self.goes_to_another(place, destination, parks)? {
            self.refuse(place, destination)?;
            return Ok(false);
        }
        for park in parks {
            self.split(place, destination, park)?;
        }
        self.counts.dropped += i64::from(parks.is_empty());
        if !destination.is_empty() {
            self.lead_next
                .execute(params![place, destination, self.standing.now])?;
        }
        Ok(true)
    }

    /// Whether another event stands where one of the rows that replace a row is to go.
    fn goes_to_another(&mut self, place: i64, from: &str, parks: &[Park]) -> Result<bool> {
        for park in parks {
            let to = destination_text(park.destination.as_ref());
            if self.find_other.exists(params![place, from, to])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn refuse(&mut self, place: i64, destination: &str) -> Result<()> {
        let park = Park::place_taken(None);
        let written = Written::of(&park, self.standing.now);
        self.refuse_parked.execute(params![
            place,
            destination,
            self.standing.now,
            written.error_kind,
            written.error_text,
            written.error_group,
        ])?;
        Ok(())
    }

    /// Puts one of the rows that replace a row in place. Where the event is parked for that destination already, that
    /// row stays: it has attempts behind it, and the event is owed there once.
    fn split(&mut self, place: i64, from: &str, park: &Park) -> Result<()> {
        let to = destination_text(park.destination.as_ref());
        self.keep_original.execute(params![place, to, from])?;
        insert(&mut self.park_parked, place, park, self.standing.now, from)
    }
}
