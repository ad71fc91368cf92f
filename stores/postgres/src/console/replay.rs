//! Sent events that are sent again: copies, parked beside the live flow.
//!
//! A copy is a parked row of a line of its own, the replay's and the key's: it keeps order among the copies, and no new
//! event waits for it or makes it wait. Copies are made from the history by place, a few at a time, and how far that
//! came is written with them.

use postrider_core::{Cursor, Job, Replay};
use tokio_postgres::types::ToSql;

use super::job::{Done, Filed};
use super::meant::{Meant, Table};
use super::stretch::{Budget, STRETCH, Way, next_place};
use super::{View, place_of};
use crate::clock;
use crate::error::Result;
use crate::row::storable;

/// The most places that one look takes.
const LONGEST: i64 = 65_536;

/// What is copied comes from one statement, so that nothing can be removed between finding and copying it. Edited while
/// it was being sent, an event was sent twice: the last is what people wanted. Of several destinations the first by
/// name is copied where all go to a single one. Another event may have the same place, after the sequence was set back
/// or a backup was put back: both go, in one step, because the next one begins behind the place.
const COPY: &str = "WITH chosen AS MATERIALIZED (
         SELECT * FROM (
             SELECT DISTINCT ON ({one}, s.event_id) s.seq, s.destination, s.event_id, {carried s} FROM {table} s
             WHERE s.seq >= $1 AND s.seq < $3 AND s.seq <= $4 AND (s.seq, s.destination) > ($1, $2){only}{meant}
             ORDER BY {one}, s.event_id, s.destination, s.published_at DESC) s
         ORDER BY {one} FETCH FIRST $5 ROWS WITH TIES),
     named AS MATERIALIZED (
         SELECT c.*, coalesce(c.event_key, c.aggregate_type || E'\\x1f' || c.aggregate_id) AS own FROM chosen c
         ORDER BY c.seq, c.destination, c.event_id),
     copied AS (
         INSERT INTO {outbox_parked} (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, event_key, payload, payload_bytes, content_type, headers, priority,
             available_at, created_at, replay_id, enqueued_at, version, dead, next_attempt_at, attempts, failures,
             maybe_sent, updated_at)
         SELECT nextval('{outbox_seq}'::regclass), coalesce($6::text, n.destination),
             (('x' || substr(md5(n.own), 1, 4))::bit(16)::integer
                 % (SELECT count(*) FROM {outbox_shard})::integer)::smallint,
             sign(coalesce(n.priority, 0))::smallint, E'\\x1freplay\\x1f' || $7::text || E'\\x1f' || n.own,
             md5(E'\\x1freplay\\x1f' || $7::text || E'\\x1f' || n.own)::uuid, n.event_id, n.event_type,
             n.aggregate_type, n.aggregate_id, n.event_key, n.payload, n.payload_bytes, n.content_type, n.headers,
             n.priority, n.available_at, coalesce(n.created_at, n.enqueued_at), $7::text, clock_timestamp(), 1, false,
             clock_timestamp(), 0, 0, false, clock_timestamp()
         FROM named n)
     SELECT (SELECT count(*) FROM chosen), c.seq, c.destination FROM chosen c
     ORDER BY c.seq DESC, c.destination DESC LIMIT 1";

/// Whether a stretch holds anything that is still to be copied.
const LEFT: &str = "SELECT EXISTS (
         SELECT 1 FROM {table} s
         WHERE s.seq >= $1 AND s.seq < $3 AND s.seq <= $4 AND (s.seq, s.destination) > ($1, $2){only}{meant})";

/// One step of a replay.
pub(super) async fn step(view: &View, filed: &Filed, replay: &Replay, limit: u32) -> Result<Done> {
    let job = &filed.job;
    let mut done = Done::default();
    let stuck = stuck(view, job).await?;
    let mut room = i64::from(limit.min(Replay::room(job.waiting, stuck)));
    let Some(source) = Source::of(view, filed, replay) else {
        done.ended = job.waiting == 0;
        return Ok(done);
    };
    let mut at = place_of(job.cursor.as_ref())?;
    let mut budget = Budget::default();
    let mut size = STRETCH;
    while at.0 <= filed.bound && !budget.is_spent() {
        let made = match room {
            0 if job.waiting + done.touched > 0 => break,
            // The last step may have filled its room exactly, and whoever drove it may be gone: that nothing is left
            // behind it is seen here.
            0 if source.has_more(view, filed, &at, size).await? => break,
            0 => None,
            _ => source.copy(view, filed, &at, size, room).await?,
        };
        budget.spend(size);
        match made {
            Some((count, last)) if count >= room => {
                done.touched += count.unsigned_abs();
                // Sent elsewhere, an event goes once, wherever it had gone.
                at = if replay.to.is_some() {
                    (last.0 + 1, String::new())
                } else {
                    last
                };
                break;
            }
            Some((count, _)) => {
                done.touched += count.unsigned_abs();
                room -= count;
                at = (at.0.saturating_add(size), String::new());
            }
            None => {
                let behind = at.0.saturating_add(size);
                let next =
                    next_place(view, source.table, &source.own, Way::Up, behind - 1, filed.bound).await?;
                at = (next.unwrap_or(filed.bound) + 1, String::new());
            }
        }
        size = (size * 2).min(LONGEST);
    }
    if done.touched > 0 {
        view.ring().await?;
    }
    done.ended = at.0 > filed.bound && job.waiting + done.touched == 0;
    done.cursor = Some(Cursor::at(at.0, &at.1));
    Ok(done)
}

/// Copies that wait behind a dead one of their key.
const STUCK: &str = "SELECT count(*) FROM {outbox_parked} p
     WHERE p.replay_id = $1 AND NOT p.dead AND EXISTS (
         SELECT 1 FROM {outbox_parked} d
         WHERE d.line = p.line AND d.lane = p.lane AND d.destination = p.destination AND d.dead AND d.seq < p.seq)";

/// How many there are; counted only where they matter.
async fn stuck(view: &View, job: &Job) -> Result<u64> {
    if job.waiting < u64::from(Replay::BESIDE) {
        return Ok(0);
    }
    let row = view
        .client()
        .query_one(&view.sql(STUCK), &[&job.id.as_str()])
        .await?;
    Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
}

/// Where copies come from.
struct Source {
    table: &'static str,
    /// Which rows of the table there are at all for this replay.
    own: String,
    sql: String,
    meant: Meant,
    left: String,
    to: Option<String>,
}

impl Source {
    /// Ages are those of the job's beginning, however late somebody goes on with it.
    fn of(view: &View, filed: &Filed, replay: &Replay) -> Option<Self> {
        let meant = |first| Meant::of(&filed.job.filter, Table::Sent, filed.job.begun_at.0, first);
        let (table, own) = match &replay.restored {
            Some(id) => (
                "{outbox_restored}",
                format!(" AND job_id = {}", literal(id.as_str())),
            ),
            None => ("{outbox_sent}", String::new()),
        };
        let mut only = format!("{own} AND outcome = 'published' AND replay_id IS NULL AND destination <> ''");
        if let Some(since) = replay.since {
            only.push_str(&format!(" AND published_at >= {}", clock::moment(since.0)));
        }
        if let Some(until) = replay.until(filed.job.begun_at) {
            only.push_str(&format!(" AND published_at < {}", clock::moment(until.0)));
        }
        let one = match replay.to {
            Some(_) => "s.seq",
            None => "s.seq, s.destination",
        };
        let sql = |text: &str, meant: &Meant| {
            let text = text.replace("{one}", one).replace("{table}", table);
            view.sql(&text.replace("{only}", &only).replace("{meant}", &meant.sql))
        };
        let left = sql(LEFT, &meant(5)?);
        let meant = meant(8)?;
        let to = replay
            .to
            .as_ref()
            .map(|name| storable(name.as_str()).into_owned());
        Some(Self {
            table,
            own,
            sql: sql(COPY, &meant),
            meant,
            left,
            to,
        })
    }

    async fn has_more(
        &self,
        view: &View,
        filed: &Filed,
        (place, name): &(i64, String),
        size: i64,
    ) -> Result<bool> {
        let end = place.saturating_add(size);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![place, name, &end, &filed.bound];
        values.extend(self.meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
        Ok(view.client().query_one(&self.left, &values).await?.try_get(0)?)
    }

    /// Copies what a stretch holds; answers how many and the last of them.
    async fn copy(
        &self,
        view: &View,
        filed: &Filed,
        (place, name): &(i64, String),
        size: i64,
        room: i64,
    ) -> Result<Option<(i64, (i64, String))>> {
        let end = place.saturating_add(size);
        let id = filed.job.id.as_str();
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![place, name, &end, &filed.bound, &room, &self.to, &id];
        values.extend(self.meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
        let row = view.client().query_opt(&self.sql, &values).await?;
        row.map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?))))
            .transpose()
    }
}

/// The id of a job as SQL. It is one that this crate made, but it came back from the spec of a job.
fn literal(id: &str) -> String {
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-' || *letter == '_';
    format!("'{}'", id.chars().filter(plain).collect::<String>())
}
