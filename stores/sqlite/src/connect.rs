//! Connections, and the threads that own them.
//!
//! SQLite's calls block, so each connection lives on a thread of its own and takes jobs one after the other: one thread
//! writes, one reads for the engine, one reads for operators. A reader never waits for a writer, and an operator's long
//! listing never delays the relay.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use postrider_core::{StoreError, StoreErrorKind};
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::oneshot;

use crate::config::SqliteOptions;
use crate::doorbell::Bells;
use crate::errand::{self, Company, Errand, Errands, Told};
use crate::error::{self, Result, store_error};
use crate::patience;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that writes.
    Writer,
    /// One that cannot write, even by mistake.
    Reader,
}

/// Opens a connection with the settings that the promises rest on.
pub(crate) fn open(path: &Path, options: &SqliteOptions, role: Role) -> Result<Connection, StoreError> {
    // Every connection to such a path would see a database of its own.
    if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
        let text = "an outbox needs a file: a database in memory cannot be shared between the writer and the readers";
        return Err(StoreError::new(StoreErrorKind::Unreachable, text));
    }
    let doing = format!("opening the SQLite database {}", path.display());
    connect(path, options, role).map_err(|error| store_error(error, &doing))
}

fn connect(path: &Path, options: &SqliteOptions, role: Role) -> rusqlite::Result<Connection> {
    // No URI flag: a file whose name begins with `file:` is just a file.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if options.create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "foreign_keys", false)?;
    match role {
        Role::Writer => {
            write_ahead(&connection, options.busy_timeout)?;
            // NORMAL may lose the last commits in a power cut: a settle, which repeats messages, or worse, an event.
            connection.pragma_update(None, "synchronous", "FULL")?;
            // After a burst the log would keep its largest size for ever.
            connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        }
        Role::Reader => connection.pragma_update(None, "query_only", true)?,
    }
    Ok(connection)
}

/// Switches to the write-ahead log. The switch needs the file for itself and does not wait by `busy_timeout`, so two
/// processes that open a new file together would fail without this loop.
fn write_ahead(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let switched =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match switched {
            Err(error) if error::is_busy(&error) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// A connection on its thread, with the doorbells that watch it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) bells: Bells,
    pub(crate) errands: Errands,
}

type Job = Box<dyn FnOnce(&mut Session) + Send>;

/// The way to a thread that owns a connection. The thread ends when the last handle is gone.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
}

impl Worker {
    /// Starts the thread. While a doorbell is armed it looks at the database every so often.
    pub(crate) fn spawn(
        name: &str,
        connection: Connection,
        options: &SqliteOptions,
    ) -> Result<Self, StoreError> {
        let (busy_timeout, look_every) = (options.busy_timeout, options.data_version_every);
        let (jobs, inbox) = mpsc::channel();
        let session = Session {
            connection,
            bells: Bells::default(),
            errands: Errands::default(),
        };
        thread::Builder::new()
            .name(format!("postrider-sqlite-{name}"))
            .spawn(move || {
                // A connection that cannot wait this way waits as SQLite does: slower, but not wrong.
                let _ = patience::install(&session.connection, busy_timeout);
                work(session, &inbox, look_every);
            })
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Other, "cannot start a thread for the database")
                    .with_source(error)
            })?;
        Ok(Self { jobs })
    }

    /// Runs a job and answers with its result. A call that is dropped before its turn is not run at all; one that has
    /// begun is finished, because a half-done transaction would be rolled back and tells nobody anything.
    pub(crate) async fn call<T, F>(&self, doing: &'static str, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Session) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |session| {
            if !reply.is_closed() {
                // Nobody may be waiting any more, and that is fine.
                let _ = reply.send(job(session));
            }
        });
        let gone = || {
            let text = format!("{doing}: the database thread has ended or the call panicked");
            StoreError::new(StoreErrorKind::Other, text)
        };
        self.jobs.send(job).map_err(|_| gone())?;
        match answer.await {
            Ok(result) => result.map_err(|error| error.while_doing(doing)),
            Err(_) => Err(gone()),
        }
    }

    /// Does something that has time: with the next settle, or soon by itself. Says beside how long it took, without the
    /// commit: that of the settle comes anyway.
    pub(crate) async fn errand<T, F>(
        &self,
        doing: &'static str,
        errand: F,
    ) -> Result<(T, Duration), StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>, Company) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let errand: Errand = Box::new(move |tx, company| {
            if reply.is_closed() {
                return Box::new(|| {}) as Told;
            }
            let began = Instant::now();
            let done = errand::apart(tx, || errand(tx, company));
            let took = began.elapsed();
            Box::new(move || {
                let _ = reply.send(done.map(|done| (done, took)));
            })
        });
        self.call(doing, move |session| {
            session.errands.push(errand);
            Ok(())
        })
        .await?;
        match answer.await {
            Ok(result) => result.map_err(|error| error.while_doing(doing)),
            Err(_) => {
                let text = format!("{doing}: the transaction that it went along with was not written");
                Err(StoreError::new(StoreErrorKind::Busy, text))
            }
        }
    }
}

fn work(mut session: Session, jobs: &mpsc::Receiver<Job>, look_every: Duration) {
    loop {
        let look = session.bells.are_armed().then_some(look_every);
        let job = match [look, session.errands.wait()].into_iter().flatten().min() {
            Some(wait) => match jobs.recv_timeout(wait) {
                Ok(job) => Some(job),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            },
            None => match jobs.recv() {
                Ok(job) => Some(job),
                Err(mpsc::RecvError) => return,
            },
        };
        if let Some(job) = job {
            // One call that panics must not take the outbox down with it. Its transaction is rolled back by unwinding,
            // and its caller learns of it by the reply that never comes.
            let _ = catch_unwind(AssertUnwindSafe(|| job(&mut session)));
        }
        // Whoever waits for it is told by the reply that never comes.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            session.errands.go_alone(&mut session.connection)
        }));
        session.bells.look(&session.connection);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider_core::{
        Event, Heartbeat, Lane, Leaves, Range, Read, RelayId, Schema, Seq, Settle, SettleQueued, Settled,
        Shard, Store,
    };

    use super::*;
    use crate::{Outbox, SqliteStore};

    async fn store(folder: &tempfile::TempDir) -> SqliteStore {
        let store = SqliteStore::open(folder.path().join("shop.db"), SqliteOptions::default()).unwrap();
        store.up().await.unwrap();
        store
    }

    /// Bounds the file, as a disk does.
    async fn limit_pages(store: &SqliteStore, pages: &'static str) {
        let limit = move |session: &mut Session| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            session
                .connection
                .query_row(&sql, [], |row| row.get::<_, i64>(0))?;
            Ok(())
        };
        store.writer().call("limiting", limit).await.unwrap();
    }

    /// Fault A15.
    #[tokio::test]
    async fn a_full_disk_is_said_to_be_full_and_heals() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let mut connection = Connection::open(folder.path().join("shop.db")).unwrap();
        let tx = connection.transaction().unwrap();
        let event = Event::builder("T")
            .aggregate("A", 1)
            .bytes(vec![7; 200_000])
            .build()
            .unwrap();
        Outbox::default().enqueue(&tx, &event).unwrap();
        tx.commit().unwrap();
        let settle = claim_and_send(&store).await;

        // The least that SQLite accepts is what the file has already.
        limit_pages(&store, "1").await;
        let error = store.settle(Arc::clone(&settle)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Full);
        assert!(error.kind().advice().contains("disk space"), "{error}");
        assert_eq!(store.status().await.unwrap().queued, 1, "nothing is lost");
        limit_pages(&store, "1000000").await;
        assert_eq!(store.settle(settle).await.unwrap(), [Settled::Done]);
    }

    /// A settle that sends the first queued row.
    async fn claim_and_send(store: &SqliteStore) -> Arc<Settle> {
        let beat = Heartbeat {
            relay: RelayId("one".into()),
            term: Duration::from_secs(60),
            held: vec![],
            release: vec![],
            claim: true,
            window: 1,
            suspects: vec![],
        };
        let lease = store.heartbeat(beat).await.unwrap().leases.remove(0);
        let read = Read {
            ranges: vec![Range {
                shard: Shard(0),
                lane: Lane::Normal,
                floor: Seq(0),
                skip: vec![],
                limit: 1,
            }],
            ..Read::default()
        };
        let row = store.read(read).await.unwrap().queued.remove(0);
        Arc::new(Settle {
            fence: vec![(Shard(0), lease.token)],
            queued: vec![SettleQueued {
                shard: Shard(0),
                seq: row.seq,
                event_id: row.event_id,
                key: row.key,
                leaves: Leaves::Decided {
                    sent: vec![("d".into(), Default::default())],
                    parked: vec![],
                },
            }],
            parked: vec![],
        })
    }

    /// Fault C7.
    #[tokio::test]
    async fn a_call_that_panics_leaves_the_store_at_work() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let panicked: Result<(), _> = store
            .writer()
            .call("panicking", |session| {
                let _tx = session.connection.transaction()?;
                panic!("a bug");
            })
            .await;
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
        assert_eq!(store.up().await.unwrap(), [] as [u32; 0]);
    }

    /// Fault A33.
    #[tokio::test]
    async fn readers_cannot_write_and_the_writer_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        let write = |session: &mut Session| Ok(session.connection.execute_batch("CREATE TABLE x (y)")?);
        assert!(store.viewer().call("writing", write).await.is_err());
        let ask = |session: &mut Session| {
            let ask = |name| {
                session
                    .connection
                    .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            };
            let mode: String = session
                .connection
                .pragma_query_value(None, "journal_mode", |row| row.get(0))?;
            Ok((mode, ask("synchronous")?, ask("foreign_keys")?))
        };
        let settings = store.writer().call("asking", ask).await.unwrap();
        assert_eq!(settings, ("wal".to_owned(), 2, 0));
    }
}
