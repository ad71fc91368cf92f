//! What operators see and do. Reads have a connection of their own; writes are short transactions of the writer.

mod act;
mod arm;
mod audit;
mod control;
mod edit;
mod groups;
mod job;
mod line;
mod list;
mod record;
mod replay;
mod seen;
mod sent;
mod stats;
mod tally;
mod timeline;

use postrider_core::{
    Act, AuditPage, BoxFuture, Chunk, Console, Control, Cursor, Edit, EventId, EventRecord, Group, InForce,
    Job, JobId, JobVerb, List, Listing, NewJob, SentPage, Stats, Status, Step, StoreError, crash,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};

pub(crate) use audit::{Entry, write_down};
pub(crate) use job::{advance, load, steer};

use crate::error::Result;
use crate::ident::Tables;
use crate::schema::{self, Standing};
use crate::store::SqliteStore;

impl Console for SqliteStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(self.view("counting events", |view| stats::stats(&view)))
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(self.view("listing events", move |view| list::list(&view, &list)))
    }

    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>> {
        Box::pin(self.view("looking up an event", move |view| list::show(&view, &id)))
    }

    fn sent(
        &self,
        event_type: Option<String>,
        limit: u32,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<SentPage, StoreError>> {
        Box::pin(self.view("reading the history", move |view| {
            sent::sent(&view, event_type.as_deref(), limit, after.as_ref())
        }))
    }

    fn groups(&self) -> BoxFuture<'_, Result<Vec<Group>, StoreError>> {
        Box::pin(self.view("grouping failures", |view| groups::groups(&view)))
    }

    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        const DOING: &str = "changing parked events";
        // Counting waits for nobody who writes, and nobody who writes waits for it.
        match act.dry_run {
            true => Box::pin(self.view(DOING, move |view| act::act(&view, &act))),
            false => Box::pin(self.change(DOING, move |view| act::act(&view, &act))),
        }
    }

    fn edit(&self, edit: Edit) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(self.change("changing a payload", move |view| edit::edit(&view, &edit)))
    }

    fn begin(&self, job: NewJob) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.change("beginning a job", move |view| job::begin(&view, &job)))
    }

    fn step(&self, job: JobId, limit: u32) -> BoxFuture<'_, Result<Step, StoreError>> {
        Box::pin(self.change("going on with a job", move |view| job::step(&view, &job, limit)))
    }

    fn jobs(&self, only: Option<JobId>, limit: u32) -> BoxFuture<'_, Result<Vec<Job>, StoreError>> {
        Box::pin(self.view("looking up jobs", move |view| {
            job::jobs(&view, only.as_ref(), limit)
        }))
    }

    fn steer(&self, job: JobId, verb: JobVerb, actor: String) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.change("steering a job", move |view| {
            job::steer(&view, &job, verb, &actor)
        }))
    }

    fn control(&self, control: Control, actor: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.change("pausing or resuming", move |view| {
            control::decide(&view, &control, &actor)
        }))
    }

    fn controls(&self) -> BoxFuture<'_, Result<Vec<InForce>, StoreError>> {
        Box::pin(self.view("looking up what is paused", |view| control::in_force(&view)))
    }

    fn note(
        &self,
        actor: String,
        action: &'static str,
        detail: String,
        touched: u64,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.change("writing down what was done", move |view| {
            let entry = Entry {
                touched,
                ..Entry::new(&actor, action, &detail)
            };
            write_down(&view, &entry)
        }))
    }

    fn audit(&self, limit: u32, from: Option<Cursor>) -> BoxFuture<'_, Result<AuditPage, StoreError>> {
        Box::pin(self.view("reading the audit", move |view| {
            audit::page(&view, limit, from.as_ref())
        }))
    }
}

/// One transaction of an operator.
pub(crate) struct View<'a> {
    pub(crate) tx: &'a Transaction<'a>,
    pub(crate) tables: &'a Tables,
    pub(crate) standing: Standing,
}

impl View<'_> {
    pub(crate) fn sql(&self, template: &str) -> String {
        self.tables.sql(template)
    }

    pub(crate) fn begin<'a>(tx: &'a Transaction<'a>, tables: &'a Tables) -> Result<View<'a>> {
        let standing = schema::check(tx, tables)?;
        Ok(View { tx, tables, standing })
    }
}

impl SqliteStore {
    pub(crate) async fn view<T, F>(&self, doing: &'static str, look: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(View<'_>) -> Result<T> + Send + 'static,
    {
        let tables = self.tables_shared();
        self.viewer()
            .call(doing, move |session| {
                let tx = session.connection.transaction()?;
                look(View::begin(&tx, &tables)?)
            })
            .await
    }

    /// A change that relays are to hear of.
    pub(crate) async fn change<T, F>(&self, doing: &'static str, write: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(View<'_>) -> Result<T> + Send + 'static,
    {
        let tables = self.tables_shared();
        self.writer()
            .call(doing, move |session| {
                let answer = in_transaction(&mut session.connection, &tables, write)?;
                // The writer does not hear its own commits.
                session.bells.ring();
                Ok(answer)
            })
            .await
    }

    /// A change that gives relays nothing to do.
    pub(crate) async fn tend<T, F>(&self, doing: &'static str, write: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(View<'_>) -> Result<T> + Send + 'static,
    {
        let tables = self.tables_shared();
        self.writer()
            .call(doing, move |session| {
                in_transaction(&mut session.connection, &tables, write)
            })
            .await
    }
}

fn in_transaction<T>(
    connection: &mut Connection,
    tables: &Tables,
    write: impl FnOnce(View<'_>) -> Result<T>,
) -> Result<T> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let answer = write(View::begin(&tx, tables)?)?;
    crash::point("operator.inside");
    tx.commit()?;
    crash::point("operator.after");
    Ok(answer)
}

/// The status of a word that this crate wrote.
pub(crate) fn status(word: &str) -> Status {
    Status::parse(word).unwrap_or(Status::Held)
}

/// The place and destination of a cursor; below everything when there is none.
pub(crate) fn place_of(cursor: Option<&Cursor>) -> Result<(i64, String)> {
    Ok(cursor.map(Cursor::place).transpose()?.unwrap_or_default())
}

/// A count as SQLite has it.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as the core has it.
pub(crate) fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
