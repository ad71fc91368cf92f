//! What operators do to parked rows, one bounded transaction a step, each written down.

use std::collections::BTreeSet;

use postrider_core::{
    Act, Chunk, Cursor, EventId, EventRecord, Filter, Job, JobId, RecordedRoute, Status, Timestamp, Verb,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::meant::{CREATED, KEY, Meant, Table};
use super::{View, audit, list, place_of, status};
use crate::clock::{self, Micros};
use crate::error::Result;
use crate::row::{self, destination, storable};

/// Rows that one step looks at. A step is one transaction, and a filter that matches little must not make it long.
const VISITS: u32 = 2_000;

/// One step of a verb.
pub(super) async fn step(view: &View, act: &Act) -> Result<Chunk> {
    let stride = Stride {
        verb: &act.verb,
        filter: &act.filter,
        job: None,
        from: act.from.as_ref(),
        bound: i64::MAX,
        limit: act.limit,
    };
    let mut taken = choose(view, &stride).await?;
    let touched = match act.dry_run {
        true => taken.rows.len() as u64,
        false => apply(view, &act.verb, &mut taken).await?,
    };
    let told = taken.rows.iter().map(|row| &row.event_id);
    let told = told.chain(taken.refused.iter().map(|(id, _)| id));
    for id in act.unheard(&told.cloned().collect(), &taken.missed) {
        let records = list::by_id(view, id).await?;
        let heard = act.heard(&records, taken.next.is_none(), Timestamp(view.now));
        taken.refused.extend(heard);
    }
    let chunk = Chunk {
        touched,
        refused: taken.refused,
        next: taken.next,
    };
    if !act.dry_run {
        let deed = audit::Deed {
            actor: &act.actor,
            action: act.verb.as_str(),
            detail: &act.detail(),
            touched: chunk.touched,
            refused: chunk.refused.len() as u64,
            event_id: act.filter.only_id().map(EventId::as_str),
            job: None,
        };
        audit::note(view, deed).await?;
    }
    Ok(chunk)
}

/// Which rows a step may take.
pub(super) struct Stride<'a> {
    pub(super) verb: &'a Verb,
    pub(super) filter: &'a Filter,
    /// The job that it is a step of.
    pub(super) job: Option<&'a Job>,
    /// Behind this place.
    pub(super) from: Option<&'a Cursor>,
    /// At or before this one.
    pub(super) bound: i64,
    pub(super) limit: u32,
}

impl Stride<'_> {
    /// When ages are counted from.
    fn now(&self, view: &View) -> Timestamp {
        self.job.map_or(Timestamp(view.now), |job| job.begun_at)
    }

    fn means(&self, view: &View, found: &Candidate) -> bool {
        match self.job {
            Some(job) => job.means(&found.record, &found.route),
            None => self.filter.matches(&found.record, &found.route, self.now(view)),
        }
    }
}

/// What a step takes.
#[derive(Default)]
pub(super) struct Taken {
    /// Rows that suit the verb; after it, those that it changed.
    rows: Vec<Chosen>,
    /// Events of rows that suited and that a relay took away before.
    missed: BTreeSet<EventId>,
    pub(super) refused: Vec<(EventId, Status)>,
    /// Where to go on; none when all rows were looked at.
    pub(super) next: Option<Cursor>,
    /// Rows that the filter is about.
    seen: u64,
}

/// A row as it was when it was chosen.
struct Chosen {
    place: (i64, String),
    event_id: EventId,
    version: i64,
}

/// The next rows that a verb is about, in the order of their places: what is left undone by a caller that dies is the
/// end of every key. The word of a row costs a look at its key, so it is looked up for the rows of the step alone.
pub(super) async fn choose(view: &View, stride: &Stride<'_>) -> Result<Taken> {
    let mut taken = Taken::default();
    let Some(meant) = Meant::of(stride.filter, Table::Parked, stride.now(view).0, 5) else {
        return Ok(taken);
    };
    let sql = view.sql(&format!(
        "SELECT p.* FROM (
             SELECT seq, destination FROM {{outbox_parked}}
             WHERE (seq, destination) > ($1, $2) AND seq <= $3{} ORDER BY seq, destination LIMIT $4
         ) c CROSS JOIN LATERAL (
             SELECT seq, destination, event_id, event_type, {KEY}, {CREATED}, replay_id, status, failures, error_kind,
                 error_group, error_text, first_failed_at, last_failed_at, {{alone}}, version,
                 CASE WHEN NOT dead THEN next_attempt_at END
             FROM {{outbox_parked_status}} p WHERE p.seq = c.seq AND p.destination = c.destination LIMIT 1
         ) p ORDER BY c.seq, c.destination",
        meant.sql
    ));
    let (place, name) = place_of(stride.from)?;
    let visits = i64::from(VISITS.max(stride.limit));
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&place, &name, &stride.bound, &visits];
    values.extend(meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
    let rows = view.client().query(&sql, &values).await?;
    let mut last = None;
    for row in &rows {
        let found = Candidate::read(row)?;
        if !stride.means(view, &found) {
            continue;
        }
        if taken.seen >= u64::from(stride.limit.max(1)) {
            taken.next = last;
            return Ok(taken);
        }
        taken.seen += 1;
        last = Some(Cursor::at(found.place.0, &found.place.1));
        match stride.verb.suits(found.route.status, found.alone) {
            true => taken.rows.push(Chosen {
                place: found.place,
                event_id: found.record.event_id,
                version: found.version,
            }),
            false => taken.refused.push((found.record.event_id, found.route.status)),
        }
    }
    if let Some(row) = rows.last().filter(|_| rows.len() as u64 >= visits.unsigned_abs()) {
        taken.next = Some(Cursor::at(row.try_get(0)?, row.try_get(1)?));
    }
    Ok(taken)
}

/// A parked row, as far as a filter and a verb look at it.
struct Candidate {
    place: (i64, String),
    record: EventRecord,
    route: RecordedRoute,
    /// Only a row that stands alone has a time of its own.
    alone: bool,
    version: i64,
}

impl Candidate {
    fn read(row: &Row) -> Result<Self> {
        let time = |index| -> Result<Option<Timestamp>> {
            let at: Option<Micros> = row.try_get(index)?;
            Ok(at.map(Timestamp::from))
        };
        let (place, name): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let route = RecordedRoute {
            failures: u32::try_from(row.try_get::<_, i64>(8)?).unwrap_or(u32::MAX),
            error_kind: row.try_get(9)?,
            error_group: row.try_get(10)?,
            error: row.try_get(11)?,
            failed: time(12)?.zip(time(13)?),
            next_attempt_at: time(16)?,
            ..RecordedRoute::new(destination(&name), status(row.try_get(7)?))
        };
        let record = EventRecord {
            seq: row::seq(place),
            event: Err("only what a filter looks at was read".to_owned()),
            bad_payload: None,
            event_id: row.try_get::<_, &str>(2)?.into(),
            event_type: row.try_get(3)?,
            key: row.try_get(4)?,
            created_at: time(5)?.unwrap_or(Timestamp(0)),
            replay: row.try_get::<_, Option<&str>>(6)?.map(JobId::from),
            routes: Vec::new(),
            timeline: Vec::new(),
            original: None,
        };
        Ok(Self {
            place: (place, name),
            record,
            route,
            alone: row.try_get(14)?,
            version: row.try_get(15)?,
        })
    }
}

/// Locked in the order of places, so that two of these never wait for each other in a circle. A settle takes what was
/// sent before what is tried again, and may: the server ends one of the two. A relay repeats its settle, and who drives
/// a job the step; who named an event is told that the database was busy.
const LOCKED: &str = "locked AS MATERIALIZED (
         SELECT p.seq, p.destination, p.version FROM {outbox_parked} p
         WHERE p.seq = ANY ($1::bigint[])
           AND (p.seq, p.destination) IN (SELECT x.* FROM unnest($1::bigint[], $2::text[]) x)
         ORDER BY p.seq, p.destination FOR UPDATE)";

/// A person has decided, so the row gets all its attempts again. Its failure stays for people to read.
pub(super) const AGAIN: &str =
    "dead = false, next_attempt_at = clock_timestamp(), attempts = 0, failures = 0, redriven = true,
     version = o.version + 1, updated_at = clock_timestamp()";

/// Changes rows; answers how many were still as the verb wants them: a relay may have been first. Those that are
/// otherwise by now are refused as they are.
pub(super) async fn apply(view: &View, verb: &Verb, taken: &mut Taken) -> Result<u64> {
    let rows = &taken.rows;
    if rows.is_empty() {
        return Ok(0);
    }
    let places = rows.iter().map(|row| (row.place.0, row.place.1.as_str()));
    let (seqs, names): (Vec<i64>, Vec<&str>) = places.unzip();
    let client = view.client();
    let changed = match verb {
        Verb::Redrive => {
            let sql = view.sql(&format!(
                "WITH {LOCKED} UPDATE {{outbox_parked}} o SET {AGAIN} FROM locked l
                 WHERE o.seq = l.seq AND o.destination = l.destination AND (o.dead OR o.error_kind IS NOT NULL)
                 RETURNING o.seq, o.destination"
            ));
            client.query(&sql, &[&seqs, &names]).await?
        }
        Verb::Move(by) => {
            let sql = view.sql(&format!(
                "WITH {LOCKED} UPDATE {{outbox_parked}} o SET next_attempt_at = t.at, available_at = t.at,
                     version = o.version + 1, updated_at = clock_timestamp()
                 FROM locked l, (SELECT clock_timestamp() + make_interval(secs => $3) AS at) t
                 WHERE o.seq = l.seq AND o.destination = l.destination AND NOT o.dead AND o.error_kind IS NULL
                   AND o.next_attempt_at > clock_timestamp() RETURNING o.seq, o.destination"
            ));
            client.query(&sql, &[&seqs, &names, &clock::seconds(*by)]).await?
        }
        Verb::Discard(reason) => {
            let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
            discard(view, (&seqs, &names, &versions), reason).await?
        }
    };
    let changed: BTreeSet<(i64, String)> = changed
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_>>()?;
    let all = std::mem::take(&mut taken.rows).into_iter();
    let (touched, missed): (Vec<_>, Vec<_>) = all.partition(|row| changed.contains(&row.place));
    taken.refused.extend(still_there(view, &missed).await?);
    taken.missed = missed.into_iter().map(|row| row.event_id).collect();
    taken.rows = touched;
    view.ring().await?;
    Ok(taken.rows.len() as u64)
}

/// Throws rows away as they were when they were chosen: what somebody has sent again or edited since is not what the
/// person who throws it away has seen.
async fn discard(
    view: &View,
    (seqs, names, versions): (&[i64], &[&str], &[i64]),
    reason: &str,
) -> Result<Vec<Row>> {
    let sql = view.sql(&format!(
        "WITH {LOCKED}, p AS (
             DELETE FROM {{outbox_parked}} o
             USING locked l, unnest($1::bigint[], $2::text[], $4::bigint[]) x(seq, destination, version)
             WHERE o.seq = l.seq AND o.destination = l.destination AND l.version = x.version
               AND x.seq = l.seq AND x.destination = l.destination RETURNING o.*), kept AS (
         INSERT INTO {{outbox_sent}} (seq, event_id, {{carried}}, destination, outcome, reason, attempts, failures,
                error_kind, error_text, last_failed_at, published_at)
         SELECT p.seq, p.event_id, {{carried p}}, nullif(p.destination, ''), 'discarded', $3, p.attempts,
         p.failures, p.error_kind, p.error_text, p.last_failed_at, clock_timestamp() FROM p)
         SELECT p.seq, p.destination FROM p"
    ));
    let gone = view
        .client()
        .query(&sql, &[&seqs, &names, &storable(reason), &versions])
        .await?;
    // A slot of the operators' own, so that no relay waits for them.
    let sql = view.sql(
        "INSERT INTO {outbox_counter} AS c (slot, discarded) VALUES (-1, $1)
         ON CONFLICT (slot) DO UPDATE SET discarded = c.discarded + excluded.discarded",
    );
    let count = i64::try_from(gone.len()).unwrap_or(0);
    view.client().execute(&sql, &[&count]).await?;
    Ok(gone)
}

/// Those of these rows that are parked, with how they stand by now.
async fn still_there(view: &View, rows: &[Chosen]) -> Result<Vec<(EventId, Status)>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let places = rows.iter().map(|row| (row.place.0, row.place.1.as_str()));
    let (seqs, names): (Vec<i64>, Vec<&str>) = places.unzip();
    let sql = view.sql(
        "SELECT p.event_id, p.status FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY x(seq, destination, n)
         CROSS JOIN LATERAL (SELECT event_id, status FROM {outbox_parked_status} p
             WHERE p.seq = x.seq AND p.destination = x.destination LIMIT 1) p ORDER BY x.n",
    );
    let rows = view.client().query(&sql, &[&seqs, &names]).await?;
    rows.iter()
        .map(|row| Ok((row.try_get::<_, &str>(0)?.into(), status(row.try_get(1)?))))
        .collect()
}
