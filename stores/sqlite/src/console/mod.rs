//! What operators see and do. Reads have a connection of their own; writes are short transactions of the writer.

mod act;
mod list;
mod record;
mod sent;
mod stats;

use std::time::Duration;

use postrider_core::{
    Act, BoxFuture, Chunk, Console, Cursor, DestinationName, EventId, EventRecord, Filter, Group, Listing,
    SentPage, Stats, Status, StoreError,
};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::error::Result;
use crate::ident::Tables;
use crate::row::destination_text;
use crate::schema::{self, Standing};
use crate::settle;
use crate::store::SqliteStore;

impl Console for SqliteStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(self.view("counting events", |view| stats::stats(&view)))
    }

    fn list(
        &self,
        filter: Filter,
        limit: u32,
        from: Option<Cursor>,
    ) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(self.view("listing events", move |view| {
            list::list(&view, &filter, limit, from.as_ref())
        }))
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
        Box::pin(self.view("grouping failures", |view| stats::groups(&view)))
    }

    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(self.change("changing parked events", move |view| act::step(&view, &act)))
    }

    fn pause(
        &self,
        destination: Option<DestinationName>,
        paused: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.change("pausing or resuming", move |view| {
            pause(&view, destination.as_ref(), paused)
        }))
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.change("purging the history", move |view| {
            let before = schema::since(view.standing.now, older_than);
            let gone = settle::purge(view.tx, view.tables, before, limit as usize)?;
            if gone > 0 {
                act::audit(
                    &view,
                    "-",
                    "purge",
                    &format!("older than {}s", older_than.as_secs()),
                    gone as u64,
                    0,
                )?;
            }
            Ok(gone as u64)
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

    fn begin<'a>(tx: &'a Transaction<'a>, tables: &'a Tables) -> Result<View<'a>> {
        let standing = schema::check(tx, tables)?;
        Ok(View { tx, tables, standing })
    }
}

impl SqliteStore {
    async fn view<T, F>(&self, doing: &'static str, look: F) -> Result<T, StoreError>
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

    async fn change<T, F>(&self, doing: &'static str, write: F) -> Result<T, StoreError>
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
}

fn in_transaction<T>(
    connection: &mut Connection,
    tables: &Tables,
    write: impl FnOnce(View<'_>) -> Result<T>,
) -> Result<T> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let answer = write(View::begin(&tx, tables)?)?;
    tx.commit()?;
    Ok(answer)
}

fn pause(view: &View<'_>, destination: Option<&DestinationName>, paused: bool) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_control} (destination, paused) VALUES (?1, ?2)
         ON CONFLICT (destination) DO UPDATE SET paused = ?2",
    );
    let name = destination_text(destination);
    view.tx.execute(&sql, params![name, paused])?;
    let action = if paused { "pause" } else { "resume" };
    let what = if name.is_empty() { "the outbox" } else { name };
    act::audit(view, "-", action, what, 1, 0)
}

/// The status of a word that this crate wrote.
pub(crate) fn status(word: &str) -> Status {
    Status::parse(word).unwrap_or(Status::Held)
}

/// The place and destination of a cursor; below everything when there is none.
pub(crate) fn place_of(cursor: Option<&Cursor>) -> Result<(i64, String)> {
    Ok(cursor.map(Cursor::place).transpose()?.unwrap_or_default())
}
