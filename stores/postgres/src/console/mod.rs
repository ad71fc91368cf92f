//! What operators see and do, on a connection of its own: an operator's long listing never delays the relay.

mod act;
mod audit;
mod control;
mod edge;
mod edit;
mod job;
mod line;
mod list;
mod meant;
mod past;
mod record;
mod replay;
mod sent;
mod stats;
mod stretch;
mod timeline;
mod walk;
mod writers;

use std::future::Future;
use std::time::Duration;

use postrider_core::{
    Act, AuditPage, BoxFuture, Chunk, Console, Control, Cursor, Edit, EventId, EventRecord, Group, InForce,
    Job, JobId, JobVerb, List, Listing, NewJob, SentPage, Stats, Status, Step, StoreError,
};

pub(crate) use audit::{Deed, note};
pub(crate) use job::{Done, advance, load, locked};
#[cfg(test)]
pub(crate) use stats::{COUNTED, GROUPS, HEADS};
pub(crate) use stretch::{Budget, STRETCH, Way, last_place, next_place};
pub(crate) use writers::Seen;

use crate::clock::Micros;
use crate::error::Result;
use crate::operator::Work;
use crate::schema;
use crate::store::PgStore;

/// How long an operator waits at most. Below the minute after which an archive takes the history for complete: a
/// discard is written with the time at which it is made.
const PATIENCE: Duration = Duration::from_secs(50);

impl Console for PgStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(self.view("counting events", |view| async move { stats::stats(&view).await }))
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(self.still("listing events", move |view| async move {
            list::list(&view, &list).await
        }))
    }

    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>> {
        Box::pin(self.still("looking up an event", move |view| async move {
            list::show(&view, &id).await
        }))
    }

    fn sent(
        &self,
        event_type: Option<String>,
        limit: u32,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<SentPage, StoreError>> {
        Box::pin(self.view("reading the history", move |view| async move {
            sent::sent(&view, event_type.as_deref(), limit, after.as_ref()).await
        }))
    }

    fn groups(&self) -> BoxFuture<'_, Result<Vec<Group>, StoreError>> {
        Box::pin(self.view(
            "grouping failures",
            |view| async move { stats::groups(&view).await },
        ))
    }

    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(self.view("changing parked events", move |view| async move {
            act::step(&view, &act).await
        }))
    }

    fn edit(&self, edit: Edit) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(self.view("changing a payload", move |view| async move {
            edit::edit(&view, &edit).await
        }))
    }

    fn begin(&self, job: NewJob) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.view("beginning a job", move |view| async move {
            job::begin(&view, &job).await
        }))
    }

    fn step(&self, job: JobId, limit: u32) -> BoxFuture<'_, Result<Step, StoreError>> {
        Box::pin(self.view("going on with a job", move |view| async move {
            job::step(&view, &job, limit).await
        }))
    }

    fn jobs(&self, only: Option<JobId>, limit: u32) -> BoxFuture<'_, Result<Vec<Job>, StoreError>> {
        Box::pin(self.view("listing jobs", move |view| async move {
            job::jobs(&view, only.as_ref(), limit).await
        }))
    }

    fn steer(&self, job: JobId, verb: JobVerb, actor: String) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.view("steering a job", move |view| async move {
            job::steer(&view, &job, verb, &actor).await
        }))
    }

    fn control(&self, control: Control, actor: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.view("pausing or resuming", move |view| async move {
            control::decide(&view, &control, &actor).await
        }))
    }

    fn controls(&self) -> BoxFuture<'_, Result<Vec<InForce>, StoreError>> {
        Box::pin(self.view("looking at what is paused", |view| async move {
            control::controls(&view).await
        }))
    }

    fn note(
        &self,
        actor: String,
        action: &'static str,
        detail: String,
        touched: u64,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.view("writing down what was done", move |view| async move {
            let deed = Deed {
                actor: &actor,
                action,
                detail: &detail,
                touched,
                ..Deed::default()
            };
            note(&view, deed).await
        }))
    }

    fn audit(&self, limit: u32, from: Option<Cursor>) -> BoxFuture<'_, Result<AuditPage, StoreError>> {
        Box::pin(self.view("reading the audit", move |view| async move {
            audit::audit(&view, limit, from.as_ref()).await
        }))
    }
}

/// One transaction of an operator.
pub(crate) struct View {
    pub(crate) work: Work,
    /// The database's clock at its beginning.
    pub(crate) now: i64,
}

impl View {
    pub(crate) fn sql(&self, template: &str) -> String {
        self.work.sql(template)
    }

    pub(crate) fn client(&self) -> &tokio_postgres::Client {
        self.work.client()
    }

    /// Wakes relays that sleep: what a person let go should not wait for their next look. A queue of notifications that
    /// is half full is left alone, because a full one fails every commit.
    pub(crate) async fn ring(&self) -> Result<()> {
        let sql = self.sql(
            "SELECT pg_notify('postrider_' || '{outbox}'::regclass::oid, '') WHERE pg_notification_queue_usage() < 0.5",
        );
        self.client().execute(&sql, &[]).await?;
        Ok(())
    }

    /// Plans are made for tables that grow, whatever the planner knows of them: they were empty when it last looked.
    async fn begin(work: Work) -> Result<View> {
        let sql = work.sql(
            "SELECT clock_timestamp(), (SELECT max(version) FROM {outbox_migrations}),
                    set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
                    set_config('max_parallel_workers_per_gather', '0', true)",
        );
        let row = work.client().query_one(&sql, &[]).await?;
        schema::check(row.try_get(1)?)?;
        let now = row.try_get::<_, Micros>(0)?.0;
        Ok(View { work, now })
    }
}

impl PgStore {
    pub(crate) async fn view<T, F, Fut>(&self, doing: &'static str, look: F) -> Result<T, StoreError>
    where
        T: Send,
        F: FnOnce(View) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
    {
        self.operate(doing, PATIENCE, |work| async move {
            let view = View::begin(work).await?;
            look(view).await
        })
        .await
    }

    /// The same with one moment for all its statements: what moves from table to table between two of them is missed
    /// by none, whichever table is asked first. It may only look.
    async fn still<T, F, Fut>(&self, doing: &'static str, look: F) -> Result<T, StoreError>
    where
        T: Send,
        F: FnOnce(View) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
    {
        self.operate(doing, PATIENCE, |work| async move {
            let one_moment = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
            work.client().batch_execute(one_moment).await?;
            let view = View::begin(work).await?;
            look(view).await
        })
        .await
    }
}

/// The status of a word that this crate wrote.
pub(crate) fn status(word: &str) -> Status {
    Status::parse(word).unwrap_or(Status::Held)
}

/// The place and destination of a cursor; below everything when there is none.
pub(crate) fn place_of(cursor: Option<&Cursor>) -> Result<(i64, String)> {
    Ok(cursor.map(Cursor::place).transpose()?.unwrap_or_default())
}
