//! Jobs: how far a piece of long work has come is written in the transaction that does it, so whoever goes on with it
//! begins exactly where the last one ended.

use postrider_core::{
    Cursor, EventId, Job, JobId, JobKind, JobState, JobVerb, NewJob, Status, Step, Timestamp,
};
use tokio_postgres::Row;

use super::act::{self, Stride};
use super::stretch::last_place;
use super::{View, audit, place_of, replay};
use crate::clock::Micros;
use crate::error::Result;
use crate::row::storable;

const COLUMNS: &str =
    "j.id, j.kind, j.spec, j.state, j.actor, j.touched, j.refused, j.cursor, j.begun_at, j.updated_at,
     j.bound, CASE j.kind WHEN 'replay' THEN
         (SELECT count(*) FROM {outbox_parked} p WHERE p.replay_id = j.id AND NOT p.dead) ELSE 0 END";

/// A job, and the last place that it is about.
pub(crate) struct Filed {
    pub(crate) job: Job,
    pub(crate) bound: i64,
}

impl Filed {
    /// A cursor that is no place is that of another kind of job.
    fn by_now(self) -> Job {
        let at = place_of(self.job.cursor.as_ref());
        self.job.by_now(at.is_ok_and(|at| at.0 > self.bound))
    }
}

/// What a step did.
#[derive(Default)]
pub(crate) struct Done {
    /// How far it came; none: as far as before.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) touched: u64,
    pub(crate) refused: u64,
    /// Whether that was the end.
    pub(crate) ended: bool,
}

/// A replay waits for the removals that did not know of it when they chose what goes, and those that come later know.
const BEFORE_REMOVALS: &str = "LOCK TABLE {outbox_job} IN SHARE ROW EXCLUSIVE MODE";

/// Begins a job, once. What was restored may come from another outbox, where places went further: its bound is its own
/// last place. Behind a bound there is a place, which is where a job is that has come to its end.
pub(super) async fn begin(view: &View, new: &NewJob) -> Result<Job> {
    new.check()?;
    if matches!(new.kind, JobKind::Replay(_)) {
        view.client().batch_execute(&view.sql(BEFORE_REMOVALS)).await?;
    }
    let sql = view.sql(
        "INSERT INTO {outbox_job} (id, kind, spec, state, actor, bound)
         VALUES ($1, $2, $3, $4, $5, least(9223372036854775806, CASE WHEN $6::text IS NULL THEN $7
             ELSE (SELECT coalesce(max(r.seq), 0) FROM {outbox_restored} r WHERE r.job_id = $6) END))
         ON CONFLICT (id) DO NOTHING",
    );
    let restored = match &new.kind {
        JobKind::Replay(replay) => replay.restored.as_ref().map(|id| storable(id.as_str())),
        _ => None,
    };
    let begun = view
        .client()
        .execute(
            &sql,
            &[
                &new.id.as_str(),
                &new.kind.as_str(),
                &storable(&new.kind.spec(&new.filter)),
                &JobState::Running.as_str(),
                &storable(&new.actor),
                &restored,
                &last_place(view).await?,
            ],
        )
        .await?;
    if begun > 0 {
        let deed = audit::Deed {
            actor: &new.actor,
            action: NewJob::BEGUN,
            detail: &new.detail(),
            job: Some(new.id.as_str()),
            ..audit::Deed::default()
        };
        audit::note(view, deed).await?;
    }
    Ok(load(view, &new.id).await?.job)
}

/// Jobs, newest first, or the one that is named. One that only another version can read does not hide the others.
pub(super) async fn jobs(view: &View, only: Option<&JobId>, limit: u32) -> Result<Vec<Job>> {
    let sql = view.sql(&format!(
        "SELECT {COLUMNS} FROM {{outbox_job}} j WHERE $1::text IS NULL OR j.id = $1
         ORDER BY j.begun_at DESC, j.id DESC LIMIT $2"
    ));
    let rows = view
        .client()
        .query(&sql, &[&only.map(|id| storable(id.as_str())), &i64::from(limit)])
        .await?;
    let jobs = rows.iter().filter_map(|row| match (read(row), only) {
        (Ok(Some(filed)), _) => Some(Ok(filed.by_now())),
        (Ok(None), Some(id)) => Some(Err(Job::unreadable(id.as_str()).into())),
        (Ok(None), None) => None,
        (Err(error), _) => Some(Err(error)),
    });
    jobs.collect()
}

/// Verbs that went or go over many rows, the newest of them.
pub(super) async fn verbs(view: &View) -> Result<Vec<Job>> {
    let sql = view.sql(&format!(
        "SELECT {COLUMNS} FROM {{outbox_job}} j WHERE j.kind IN ('redrive', 'discard')
         ORDER BY j.begun_at DESC, j.id DESC LIMIT 200"
    ));
    let rows = view.client().query(&sql, &[]).await?;
    let jobs = rows.iter().map(|row| Ok(read(row)?.map(|filed| filed.job)));
    jobs.filter_map(Result::transpose).collect()
}

/// One step of a verb's or a replay's job. Of two who step the same one, the second waits for the first.
pub(super) async fn step(view: &View, id: &JobId, limit: u32) -> Result<Step> {
    let filed = locked(view, id).await?;
    let mut refused = Vec::new();
    if filed.job.state == JobState::Running {
        match &filed.job.kind {
            JobKind::Act(_) => refused = step_verb(view, &filed, limit).await?,
            JobKind::Replay(spec) => {
                let done = replay::step(view, &filed, spec, limit).await?;
                advance(view, &filed.job, &done).await?;
            }
            JobKind::Restore(_) => {}
        }
    }
    let job = load(view, id).await?.job;
    Ok(Step { job, refused })
}

async fn step_verb(view: &View, filed: &Filed, limit: u32) -> Result<Vec<(EventId, Status)>> {
    let Some(verb) = filed.job.verb(Timestamp(view.now)) else {
        return Ok(Vec::new());
    };
    let stride = Stride {
        verb: &verb,
        filter: &filed.job.filter,
        job: Some(&filed.job),
        from: filed.job.cursor.as_ref(),
        bound: filed.bound,
        limit,
    };
    let mut taken = act::choose(view, &stride).await?;
    let touched = act::apply(view, &verb, &mut taken).await?;
    let done = Done {
        ended: taken.next.is_none(),
        cursor: taken.next,
        touched,
        refused: taken.refused.len() as u64,
    };
    advance(view, &filed.job, &done).await?;
    Ok(taken.refused)
}

/// Locked in the order of places, so that two of these never wait for each other in a circle. A settle takes what was
/// sent before what is tried again, and may: the server ends one of the two. A relay repeats its settle; who cancels is
/// told that the database was busy, and nothing is cancelled.
const TAKE_BACK: &str = "WITH locked AS MATERIALIZED (
         SELECT seq, destination FROM {outbox_parked} WHERE replay_id = $1 ORDER BY seq, destination FOR UPDATE)
     DELETE FROM {outbox_parked} o USING locked l WHERE o.seq = l.seq AND o.destination = l.destination";

/// Pauses, resumes, cancels or paces a job.
pub(super) async fn steer(view: &View, id: &JobId, verb: JobVerb, actor: &str) -> Result<Job> {
    let found = locked(view, id).await?.by_now();
    let Some(job) = found.after(verb) else {
        return Ok(found);
    };
    let ended = job.state == JobState::Cancelled;
    let mut back = 0;
    if ended {
        back = view
            .client()
            .execute(&view.sql(TAKE_BACK), &[&job.id.as_str()])
            .await?;
    }
    let sql = view.sql(
        "UPDATE {outbox_job} SET state = $2, spec = $3, touched = greatest(touched - $4, 0),
         updated_at = clock_timestamp(), ended_at = CASE WHEN $5 THEN clock_timestamp() END WHERE id = $1",
    );
    let spec = job.kind.spec(&job.filter);
    let taken_back = i64::try_from(back).unwrap_or(i64::MAX);
    view.client()
        .execute(
            &sql,
            &[
                &job.id.as_str(),
                &job.state.as_str(),
                &storable(&spec),
                &taken_back,
                &ended,
            ],
        )
        .await?;
    let deed = audit::Deed {
        actor,
        action: verb.as_str(),
        detail: &verb.detail(),
        touched: back,
        job: Some(job.id.as_str()),
        ..audit::Deed::default()
    };
    audit::note(view, deed).await?;
    Ok(load(view, id).await?.job)
}

/// Writes down what a step did, in the job and in the audit.
pub(crate) async fn advance(view: &View, job: &Job, done: &Done) -> Result<()> {
    move_on(view, job, done).await?;
    if done.touched + done.refused == 0 {
        return Ok(());
    }
    let deed = audit::Deed {
        actor: &job.actor,
        action: job.kind.as_str(),
        detail: &job.kind.spec(&job.filter),
        touched: done.touched,
        refused: done.refused,
        job: Some(job.id.as_str()),
        event_id: None,
    };
    audit::note(view, deed).await
}

/// Writes into the job how far it has come.
async fn move_on(view: &View, job: &Job, done: &Done) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_job} SET cursor = coalesce($2, cursor), touched = touched + $3, refused = refused + $4,
             updated_at = clock_timestamp(), state = CASE WHEN $5 THEN 'done' ELSE state END,
             ended_at = CASE WHEN $5 THEN clock_timestamp() END
         WHERE id = $1",
    );
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    view.client()
        .execute(
            &sql,
            &[
                &job.id.as_str(),
                &done.cursor.as_ref().map(|cursor| storable(&cursor.0)),
                &number(done.touched),
                &number(done.refused),
                &done.ended,
            ],
        )
        .await?;
    Ok(())
}

/// A job that nobody else changes until the end of the transaction. It is read by a statement of its own: the one that
/// waits for the lock counts the copies that wait as they were before somebody else made more.
pub(crate) async fn locked(view: &View, id: &JobId) -> Result<Filed> {
    let sql = view.sql("SELECT 1 FROM {outbox_job} WHERE id = $1 FOR UPDATE");
    view.client().query(&sql, &[&storable(id.as_str())]).await?;
    load(view, id).await
}

/// A job as it is.
pub(crate) async fn load(view: &View, id: &JobId) -> Result<Filed> {
    let sql = view.sql(&format!("SELECT {COLUMNS} FROM {{outbox_job}} j WHERE j.id = $1"));
    let row = view
        .client()
        .query_opt(&sql, &[&storable(id.as_str())])
        .await?
        .ok_or_else(|| Job::unknown(id))?;
    Ok(read(&row)?.ok_or_else(|| Job::unreadable(id.as_str()))?)
}

/// None: it is of a kind that this version does not know.
fn read(row: &Row) -> Result<Option<Filed>> {
    let count = |index| -> Result<u64> { Ok(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0)) };
    let (id, kind, spec): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let state = JobState::parse(row.try_get(3)?);
    let Some(((kind, filter), state)) = JobKind::of_spec(kind, spec).zip(state) else {
        return Ok(None);
    };
    Ok(Some(Filed {
        job: Job {
            id: id.into(),
            kind,
            filter,
            state,
            actor: row.try_get(4)?,
            touched: count(5)?,
            refused: count(6)?,
            waiting: count(11)?,
            cursor: row.try_get::<_, Option<String>>(7)?.map(Cursor),
            begun_at: row.try_get::<_, Micros>(8)?.into(),
            updated_at: row.try_get::<_, Micros>(9)?.into(),
        },
        bound: row.try_get(10)?,
    }))
}
