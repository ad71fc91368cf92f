//! Long work that a person began: every step is one transaction with the job's own row.

use postrider_core::{
    Cursor, EventId, Job, JobId, JobKind, JobState, JobVerb, NewJob, Status, Step, Timestamp,
};
use rusqlite::{OptionalExtension, Row, params, params_from_iter};

use super::act::Walk;
use super::audit::{Entry, write_down};
use super::{View, count, number, place_of, replay};
use crate::error::Result;
use crate::row::{lossy, lossy_or_none};

/// A job with what only the store knows of it.
pub(crate) struct Filed {
    pub(crate) job: Job,
    /// Rows with a higher place came later and are not meant.
    pub(crate) bound: i64,
}

impl Filed {
    /// A cursor that is no place is that of another kind of job.
    fn by_now(self) -> Job {
        let at = place_of(self.job.cursor.as_ref());
        self.job.by_now(at.is_ok_and(|at| at.0 > self.bound))
    }
}

/// Begins a job, once. Its bound is the highest place that it can mean, so that rows which come later are not meant.
pub(super) fn begin(view: &View<'_>, new: &NewJob) -> Result<Job> {
    new.check()?;
    let sql = view.sql(
        "INSERT INTO {outbox_job} (id, kind, spec, state, actor, bound, begun_at, updated_at)
         VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?6) ON CONFLICT (id) DO NOTHING",
    );
    let (bound, now) = (bound(view, &new.kind)?, view.standing.now);
    let values = params![
        new.id.as_str(),
        new.kind.as_str(),
        new.kind.spec(&new.filter),
        new.actor,
        bound,
        now
    ];
    if view.tx.execute(&sql, values)? > 0 {
        write_down(
            view,
            &Entry {
                touched: 0,
                job: Some(&new.id),
                ..Entry::new(&new.actor, NewJob::BEGUN, &new.detail())
            },
        )?;
    }
    Ok(load(view, &new.id)?.job)
}

fn bound(view: &View<'_>, kind: &JobKind) -> Result<i64> {
    // What is restored may come from another outbox, where places went further: its bound is its own last place.
    let restored = match kind {
        JobKind::Replay(replay) => replay.restored.as_ref(),
        _ => None,
    };
    let places = match kind {
        JobKind::Act(_) => "SELECT max(seq) FROM {outbox_parked}",
        _ if restored.is_some() => "SELECT max(seq) FROM {outbox_restored} WHERE job_id = ?1",
        _ => "SELECT max(seq) FROM {outbox_sent}",
    };
    let ids = params_from_iter(restored.map(JobId::as_str));
    let highest: Option<i64> = view.tx.query_row(&view.sql(places), ids, |row| row.get(0))?;
    // Behind the bound there is a place, which is where a job is that has come to its end.
    Ok(highest.unwrap_or(0).min(i64::MAX - 1))
}

/// One step. A job that is not running, or that is made of files, is answered as it is.
pub(super) fn step(view: &View<'_>, id: &JobId, limit: u32) -> Result<Step> {
    let mut filed = load(view, id)?;
    let mut refused = Vec::new();
    if filed.job.state == JobState::Running {
        match filed.job.kind.clone() {
            JobKind::Act(_) => refused = step_verb(view, &mut filed, limit)?,
            JobKind::Replay(spec) => replay::step(view, &mut filed, &spec, limit)?,
            JobKind::Restore(_) => {}
        }
    }
    let job = load(view, id)?.job;
    Ok(Step { job, refused })
}

fn step_verb(view: &View<'_>, filed: &mut Filed, limit: u32) -> Result<Vec<(EventId, Status)>> {
    let Some(verb) = filed.job.verb(Timestamp(view.standing.now)) else {
        return Ok(Vec::new());
    };
    let walk = Walk {
        verb: &verb,
        filter: &filed.job.filter,
        job: Some(&filed.job),
        from: place_of(filed.job.cursor.as_ref())?,
        bound: filed.bound,
        limit,
        dry_run: false,
    };
    let walked = walk.go(view)?;
    let job = &mut filed.job;
    job.cursor = Some(Cursor::at(walked.at.0, &walked.at.1));
    if walked.done {
        job.state = JobState::Done;
    }
    advance(view, job, walked.touched, walked.refused.len() as u64)?;
    Ok(walked.refused)
}

/// Writes how far a job has come, and what this step of it did.
pub(crate) fn advance(view: &View<'_>, job: &Job, touched: u64, refused: u64) -> Result<()> {
    let ended = matches!(job.state, JobState::Done | JobState::Cancelled);
    let sql = view.sql(
        "UPDATE {outbox_job} SET cursor = ?2, state = ?3, touched = touched + ?4, refused = refused + ?5,
                updated_at = ?6, ended_at = iif(?7, coalesce(ended_at, ?6), NULL)
         WHERE id = ?1",
    );
    view.tx.prepare_cached(&sql)?.execute(params![
        job.id.as_str(),
        job.cursor.as_ref().map(|cursor| cursor.0.as_str()),
        job.state.as_str(),
        number(touched),
        number(refused),
        view.standing.now,
        ended,
    ])?;
    if touched + refused == 0 {
        return Ok(());
    }
    write_down(
        view,
        &Entry {
            touched,
            refused,
            job: Some(&job.id),
            ..Entry::new(&job.actor, job.kind.as_str(), &job.kind.spec(&job.filter))
        },
    )
}

/// Pauses, resumes, cancels or paces.
pub(crate) fn steer(view: &View<'_>, id: &JobId, verb: JobVerb, actor: &str) -> Result<Job> {
    let found = load(view, id)?.by_now();
    let Some(job) = found.after(verb) else {
        return Ok(found);
    };
    advance(view, &job, 0, 0)?;
    let taken_back = match (&job.kind, job.state) {
        (JobKind::Replay(_), JobState::Cancelled) => replay::take_back(view, id)?,
        _ => 0,
    };
    let sql = view.sql("UPDATE {outbox_job} SET spec = ?2, touched = max(touched - ?3, 0) WHERE id = ?1");
    let spec = job.kind.spec(&job.filter);
    view.tx
        .execute(&sql, params![id.as_str(), spec, number(taken_back)])?;
    write_down(
        view,
        &Entry {
            touched: taken_back,
            job: Some(id),
            ..Entry::new(actor, verb.as_str(), &verb.detail())
        },
    )?;
    Ok(load(view, id)?.job)
}

const COLUMNS: &str = "id, kind, spec, state, actor, touched, refused, cursor, begun_at, updated_at, bound,
     iif(kind = 'replay', (SELECT count(*) FROM {outbox_parked} p INDEXED BY {outbox_parked_replay}
         WHERE p.replay_id = j.id AND p.dead = 0), 0)";

/// Jobs, newest first; or the one that is named. One that only another version can read does not hide the others.
pub(super) fn jobs(view: &View<'_>, only: Option<&JobId>, limit: u32) -> Result<Vec<Job>> {
    let sql = view.sql(&format!(
        "SELECT {COLUMNS} FROM {{outbox_job}} j WHERE ?1 IS NULL OR id = ?1 ORDER BY begun_at DESC, id DESC LIMIT ?2"
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let mut rows = statement.query(params![only.map(JobId::as_str), limit])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        match (read(row)?, only) {
            (Some(filed), _) => jobs.push(filed.by_now()),
            (None, Some(id)) => return Err(Job::unreadable(id.as_str()).into()),
            (None, None) => {}
        }
    }
    Ok(jobs)
}

/// Verbs that went or go over many rows, the newest of them.
pub(super) fn verbs(view: &View<'_>) -> Result<Vec<Job>> {
    let sql = view.sql(&format!(
        "SELECT {COLUMNS} FROM {{outbox_job}} j WHERE kind IN ('redrive', 'discard')
         ORDER BY begun_at DESC, id DESC LIMIT 200"
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.extend(read(row)?.map(|filed| filed.job));
    }
    Ok(jobs)
}

/// The job, which must be there.
pub(crate) fn load(view: &View<'_>, id: &JobId) -> Result<Filed> {
    let sql = view.sql(&format!("SELECT {COLUMNS} FROM {{outbox_job}} j WHERE id = ?1"));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let found = statement
        .query_row([id.as_str()], |row| Ok(read(row)))
        .optional()?;
    let filed = found.ok_or_else(|| Job::unknown(id))??;
    Ok(filed.ok_or_else(|| Job::unreadable(id.as_str()))?)
}

/// None: it is of a kind that this version does not know.
fn read(row: &Row<'_>) -> Result<Option<Filed>> {
    let id = lossy(row.get_ref(0)?);
    let [kind, spec, state] = [
        lossy(row.get_ref(1)?),
        lossy(row.get_ref(2)?),
        lossy(row.get_ref(3)?),
    ];
    let known = JobKind::of_spec(&kind, &spec).zip(JobState::parse(&state));
    let Some(((kind, filter), state)) = known else {
        return Ok(None);
    };
    Ok(Some(Filed {
        job: Job {
            id: JobId::from(id.as_str()),
            kind,
            filter,
            state,
            actor: lossy(row.get_ref(4)?),
            touched: count(row.get(5)?),
            refused: count(row.get(6)?),
            cursor: lossy_or_none(row.get_ref(7)?).map(Cursor),
            begun_at: Timestamp(row.get(8)?),
            updated_at: Timestamp(row.get(9)?),
            waiting: count(row.get(11)?),
        },
        bound: row.get(10)?,
    }))
}
