//! What operators see and do, on a connection of its own: an operator's long listing never delays the relay.

mod act;
mod list;
mod record;
mod sent;
mod stats;
mod writers;

use std::future::Future;
use std::time::Duration;

use postrider_core::{
    Act, BoxFuture, Chunk, Console, Cursor, DestinationName, EventId, EventRecord, Filter, Group, Listing,
    SentPage, Stats, Status, StoreError,
};

pub(crate) use writers::Seen;

use crate::clock::{self, Micros};
use crate::error::Result;
use crate::operator::Work;
use crate::row::{destination_text, storable};
use crate::schema;
use crate::store::PgStore;

/// How long an operator waits at most.
const PATIENCE: Duration = Duration::from_secs(60);

impl Console for PgStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(self.view("counting events", |view| async move { stats::stats(&view).await }))
    }

    fn list(
        &self,
        filter: Filter,
        limit: u32,
        from: Option<Cursor>,
    ) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(self.view("listing events", move |view| async move {
            list::list(&view, &filter, limit, from.as_ref()).await
        }))
    }

    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>> {
        Box::pin(self.view("looking up an event", move |view| async move {
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

    fn pause(
        &self,
        destination: Option<DestinationName>,
        paused: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.view("pausing or resuming", move |view| async move {
            pause(&view, destination.as_ref(), paused).await
        }))
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.view("purging the history", move |view| async move {
            purge(&view, older_than, limit).await
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

    async fn begin(work: Work) -> Result<View> {
        let sql = work.sql("SELECT clock_timestamp(), (SELECT max(version) FROM {outbox_migrations})");
        let row = work.client().query_one(&sql, &[]).await?;
        schema::check(row.try_get(1)?)?;
        let now = row.try_get::<_, Micros>(0)?.0;
        Ok(View { work, now })
    }
}

impl PgStore {
    async fn view<T, F, Fut>(&self, doing: &'static str, look: F) -> Result<T, StoreError>
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
}

/// The bound is the same for the whole statement, and on both sides of the join: partitions that are younger are not
/// opened.
pub(crate) const PURGE: &str = "DELETE FROM {outbox_sent} s USING (
         SELECT o.tableoid AS part, o.ctid AS place FROM {outbox_sent} o
         WHERE o.published_at < now() - make_interval(secs => $1) LIMIT $2
     ) o WHERE s.tableoid = o.part AND s.ctid = o.place AND s.published_at < now() - make_interval(secs => $1)";

/// Removes history row by row; what is older than it is kept goes by whole partitions, and cheaper.
async fn purge(view: &View, older_than: Duration, limit: u32) -> Result<u64> {
    let sql = view.sql(PURGE);
    let gone = view
        .client()
        .execute(&sql, &[&clock::seconds(older_than), &i64::from(limit)])
        .await?;
    if gone > 0 {
        let detail = format!("older than {}s", older_than.as_secs());
        act::audit(view, "-", "purge", &detail, gone, 0).await?;
    }
    Ok(gone)
}

async fn pause(view: &View, destination: Option<&DestinationName>, paused: bool) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_control} AS c (destination, paused) VALUES ($1, $2)
         ON CONFLICT (destination) DO UPDATE SET paused = excluded.paused",
    );
    let name = storable(destination_text(destination));
    view.client().execute(&sql, &[&name, &paused]).await?;
    let action = if paused { "pause" } else { "resume" };
    let what = if name.is_empty() { "the outbox" } else { &*name };
    act::audit(view, "-", action, what, 1, 0).await
}

/// The status of a word that this crate wrote.
pub(crate) fn status(word: &str) -> Status {
    Status::parse(word).unwrap_or(Status::Held)
}

/// The place and destination of a cursor; below everything when there is none.
pub(crate) fn place_of(cursor: Option<&Cursor>) -> Result<(i64, String)> {
    Ok(cursor.map(Cursor::place).transpose()?.unwrap_or_default())
}
