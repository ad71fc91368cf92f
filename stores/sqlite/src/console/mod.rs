//! What operators see and do. Reads have a connection of their own; writes are short transactions of the writer.

mod act;
mod control;
mod list;
mod record;
mod sent;
mod stats;

use postrider_core::{
    Act, BoxFuture, Chunk, Console, Control, Cursor, EventId, EventRecord, Group, List, Listing, SentPage,
    Stats, Status, StoreError,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};

pub(crate) use act::audit;

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
        Box::pin(self.view("grouping failures", |view| stats::groups(&view)))
    }

    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(self.change("changing parked events", move |view| act::step(&view, &act)))
    }

    fn control(&self, control: Control, actor: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.change("pausing or resuming", move |view| {
            control::decide(&view, &control, &actor)
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

/// The status of a word that this crate wrote.
pub(crate) fn status(word: &str) -> Status {
    Status::parse(word).unwrap_or(Status::Held)
}

/// The place and destination of a cursor; below everything when there is none.
pub(crate) fn place_of(cursor: Option<&Cursor>) -> Result<(i64, String)> {
    Ok(cursor.map(Cursor::place).transpose()?.unwrap_or_default())
}
