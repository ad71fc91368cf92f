//! The handle that implements the traits.

use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use postrider_core::{
    BoxFuture, Console, Doorbell, EnqueueError, Event, Heartbeat, JobVerb, Kept, Page, Purge, Read, Settle,
    Settled, Standing, Store, StoreError, StoreErrorKind, Upkeep, causes,
};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::clock;
use crate::config::PgOptions;
use crate::connect::Role;
use crate::console::Seen;
use crate::doorbell::{Bell, Handle};
use crate::error::Error;
use crate::heads::Round;
use crate::horizon::Horizon;
use crate::ident::Tables;
use crate::identity::Identity;
use crate::operator::{Operator, Work};
use crate::produce::Outbox;
use crate::supervise::Link;
use crate::tls::{Address, CORRECT};
use crate::{durability, lease, read, settle, upkeep};

/// How often the partitions of the history are looked after.
const MAINTAIN_EVERY: Duration = Duration::from_secs(3_600);

/// How long what operators threw away is kept where no history is: partitions must not gather for ever.
const KEEP_DISCARDED: Duration = Duration::from_secs(86_400);

/// A term for one who only makes partitions: a century.
const NOTHING_IS_OLDER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Below this nothing could be published, and PostgreSQL takes 0 for no limit at all.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// An outbox in PostgreSQL. Clones are handles to the same three connections.
#[derive(Clone, Debug)]
pub struct PgStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tables: Arc<Tables>,
    options: PgOptions,
    reads: Arc<Link>,
    writes: Arc<Link>,
    operator: Operator,
    bell: Option<Arc<Bell>>,
    reads_by: read::Statements,
    /// How large the table of parked rows was when the last read looked.
    parked_pages: AtomicI64,
    settles_by: settle::Statements,
    identity: Arc<Identity>,
    horizon: Horizon,
    /// Where the search for due heads goes on at the next read.
    round: Round,
    /// One read at a time, as the contract has it: what a sample proves is for the snapshot behind it.
    reading: Mutex<()>,
    maintained: Mutex<Option<Instant>>,
    /// Its name, for the log.
    database: String,
}

impl PgStore {
    /// Connects and checks that the server can hold an outbox: a primary, in UTF-8. Makes no tables: that is what
    /// [`Schema::up`](postrider_core::Schema::up) is for.
    pub async fn connect(url: &str, options: PgOptions) -> Result<PgStore, StoreError> {
        let store = Self::lazy(url, options)?;
        store.inner.reads.session("connecting to the database").await?;
        Ok(store)
    }

    /// The same without connecting: connections come about when they are needed. Fails for a url that cannot be read.
    pub fn lazy(url: &str, options: PgOptions) -> Result<PgStore, StoreError> {
        let address = Address::parse(url, &options)?.read_again_from(options.url_file.as_ref());
        let tables = Tables::new(&options.schema, &options.prefix).map_err(|error| {
            StoreError::new(StoreErrorKind::Other, error.to_string()).with_advice(CORRECT)
        })?;
        let tables = Arc::new(tables);
        if options.statement_timeout < SHORTEST_TIMEOUT {
            let text =
                "a statement_timeout below 10 milliseconds lets no statement end; 3 seconds is the default";
            return Err(StoreError::new(StoreErrorKind::Other, text).with_advice(CORRECT));
        }
        let direct = match &options.listen_url {
            Some(url) => {
                let address = Address::parse(url.expose(), &options)?;
                Some(address.read_again_from(options.listen_url_file.as_ref()))
            }
            None => None,
        };
        let pooled = options.poll_only || direct.is_some();
        let identity = Arc::new(Identity::default());
        let seen = Arc::<Seen>::default();
        let link = |address: &Address, role, pooled| {
            let link = Link::new(address.clone(), role, &options, Arc::clone(&identity));
            Arc::new(link.behind_pooler(pooled))
        };
        let reads = link(&address, Role::Relay, pooled);
        let aside = match &direct {
            Some(direct) => link(direct, Role::Operator, false),
            None => link(&address, Role::Operator, pooled),
        };
        // The reader has nothing else to do while the relay goes to sleep. Behind a pooler the direct connection is the
        // only one with sessions.
        let sleeper = if direct.is_some() { &aside } else { &reads };
        let bell =
            (!options.poll_only).then(|| Arc::new(Bell::new(Arc::clone(sleeper), Arc::clone(&tables))));
        Ok(Self {
            inner: Arc::new(Inner {
                reads_by: read::Statements::new(&tables, &options),
                parked_pages: AtomicI64::new(0),
                settles_by: settle::Statements::new(&tables, options.history.is_some()),
                writes: link(&address, Role::Relay, pooled),
                operator: Operator::new(aside, Arc::clone(&seen)),
                reads,
                bell,
                identity,
                horizon: Horizon::telling(seen),
                round: Round::default(),
                reading: Mutex::default(),
                maintained: Mutex::default(),
                database: address.config.get_dbname().unwrap_or_default().to_owned(),
                tables,
                options,
            }),
        })
    }

    /// The settings that the store was opened with.
    pub fn options(&self) -> &PgOptions {
        &self.inner.options
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.inner.tables
    }

    /// Looks after the partitions of the history beside the relay's work. A failure is not the relay's: the next hour
    /// is another chance, and partitions are made a week ahead.
    async fn maintain_in_time(&self) {
        let mut last = self.inner.maintained.lock().await;
        if last.is_some_and(|at| at.elapsed() < MAINTAIN_EVERY) {
            return;
        }
        *last = Some(Instant::now());
        drop(last);
        let store = self.clone();
        tokio::spawn(async move {
            if let Err(error) = store.maintain().await {
                tracing::warn!(
                    error = causes(&error),
                    "the partitions of the history could not be looked after"
                );
            }
            for weakness in store.weaknesses().await.unwrap_or_default() {
                let (database, table) = (&*store.inner.database, store.tables().sql("{outbox}"));
                tracing::warn!(database, table, "{weakness}");
            }
        });
    }

    /// Makes the partitions of the coming days, and removes those that are older than the history is kept unless that
    /// is [left to others](PgOptions::trim) or a replay has still to read them; answers how many were removed.
    /// Without a history only what operators threw away is in them, and goes after a day. A relay does this by itself,
    /// once an hour.
    pub async fn maintain(&self) -> Result<u64, StoreError> {
        let options = &self.inner.options;
        let keep = match options.history {
            None => KEEP_DISCARDED,
            Some(_) => NOTHING_IS_OLDER,
        };
        let removed = upkeep::maintain(self, clock::seconds(keep)).await?;
        match options.history.filter(|_| options.trim) {
            Some(term) => self.trim(term).await,
            None => Ok(removed),
        }
    }

    /// Removes the days that are past their term. A replay that keeps them for too long is cancelled first, so that it
    /// does not end as if it had read them.
    async fn trim(&self, term: Duration) -> Result<u64, StoreError> {
        let old = Purge {
            in_bulk: true,
            ..Purge::of(Kept::History, term, 1)
        };
        if !upkeep::is_any_due(self, &old).await? {
            return Ok(0);
        }
        while let Some(job) = self.forgotten(Purge::longest(term)).await? {
            self.steer(job.clone(), JobVerb::Cancel, "relay".to_owned())
                .await?;
            tracing::warn!(%job, "{}", Purge::FORGOTTEN);
        }
        let drop_old = |view| async move { upkeep::drop_old(&view, &old).await };
        let (days, purged) = self.view("looking after the history", drop_old).await?;
        if let Some(held) = purged.held {
            tracing::warn!(held, "days of the history are past their term and stay");
        }
        Ok(days)
    }

    /// Runs one statement that is a transaction by itself.
    pub(crate) async fn ask(
        &self,
        doing: &'static str,
        limit: Duration,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, StoreError> {
        self.inner.operator.ask(doing, limit, sql, parameters).await
    }

    /// What the server's settings take from the promises, one sentence each; nothing when they can be kept. A relay
    /// warns of it when it starts.
    pub async fn weaknesses(&self) -> Result<Vec<String>, StoreError> {
        let doing = "looking at the server's settings";
        self.operate(doing, Duration::from_secs(10), |work| async move {
            durability::weaknesses(work.client()).await
        })
        .await
    }

    /// Commits events in a transaction of their own, all of them or none: for tools and for trying things out. A
    /// service uses an [`Outbox`](crate::Outbox), in the transaction that the events belong to.
    pub async fn send(&self, events: &[Event]) -> Result<(), EnqueueError> {
        let outbox = Outbox::of(self.tables().clone());
        let refused = std::sync::Mutex::new(None);
        let done = self
            .operate("sending events", Duration::from_secs(30), |work| {
                let (outbox, refused) = (&outbox, &refused);
                async move {
                    let events: Vec<&Event> = events.iter().collect();
                    outbox.insert(work.client(), &events).await.map_err(|error| {
                        *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        Error::new(StoreErrorKind::Other, "the events were refused")
                    })
                }
            })
            .await;
        match (done, refused.into_inner().unwrap_or_else(PoisonError::into_inner)) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(EnqueueError::from(error)),
        }
    }

    /// Does a piece of an operator's work in one transaction.
    pub(crate) async fn operate<T, F, Fut>(
        &self,
        doing: &'static str,
        limit: Duration,
        work: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = crate::error::Result<T>> + Send,
        T: Send,
    {
        let inner = &self.inner;
        inner
            .operator
            .run(doing, limit, &inner.tables, &inner.options, work)
            .await
    }

    /// Runs statements that may be in no transaction.
    pub(crate) async fn outside(
        &self,
        doing: &'static str,
        limit: Duration,
        statements: &[String],
    ) -> Result<(), StoreError> {
        self.inner.operator.outside(doing, limit, statements).await
    }
}

impl Store for PgStore {
    fn longest_call(&self) -> Option<Duration> {
        Some(self.options().statement_timeout)
    }

    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let standing =
                inner
                    .writes
                    .run("renewing the lease", inner.writes.limit(), |session| async move {
                        let (identity, server) = (&inner.identity, session.server);
                        if identity.is_past(server) {
                            let text = "the database was replaced: this connection leads to the one before";
                            return Err(Error::new(StoreErrorKind::Unreachable, text));
                        }
                        if !beat.held.is_empty() && identity.is_doubted(&beat.relay, server) {
                            lease::doubt(&session, &inner.tables, &beat).await?;
                        }
                        let standing = lease::heartbeat(&session, &inner.tables, &beat).await?;
                        match beat.claim || !beat.held.is_empty() {
                            true => identity.trust(&beat.relay, server, beat.term),
                            false => identity.forget(&beat.relay),
                        }
                        Ok(standing)
                    });
            let standing = standing.await?;
            self.maintain_in_time().await;
            Ok(standing)
        })
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let _one = inner.reading.lock().await;
            let dedup = inner.options.dedup_window();
            let page = inner
                .reads
                .run("reading the outbox", inner.reads.limit(), |session| async move {
                    if inner.identity.are_doubted(session.server) {
                        let text = "the database was replaced: the leases are renewed first";
                        return Err(Error::new(StoreErrorKind::Busy, text));
                    }
                    session
                        .keep_up(inner.parked_pages.load(Ordering::Relaxed))
                        .await?;
                    let (page, pages) = read::read(
                        &session,
                        &inner.tables,
                        &inner.reads_by,
                        dedup,
                        &inner.horizon,
                        &inner.round,
                        &read,
                    )
                    .await?;
                    inner.parked_pages.store(pages, Ordering::Relaxed);
                    Ok(page)
                });
            page.await
        })
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let settled = inner
                .writes
                .run("settling a batch", inner.writes.limit(), |session| async move {
                    session
                        .keep_up(inner.parked_pages.load(Ordering::Relaxed))
                        .await?;
                    settle::settle(&session, &inner.tables, &inner.settles_by, &settle).await
                });
            settled.await
        })
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        let bell = self.inner.bell.as_ref()?;
        Some(Arc::new(Handle(Arc::clone(bell))))
    }
}
