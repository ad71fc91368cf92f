//! How far everything is decided: what a floor may move to.
//!
//! Places are given before transactions commit, so a row may turn up below rows that were seen long ago. Whoever has a
//! place has held a lock on `outbox` since before it was given. So all places up to the last one given are decided once
//! every transaction that held such a lock after that has ended: the locks are sampled, and a later sample that
//! shares no transaction with the first one is the proof. Transactions that never touched `outbox` hold nothing up.
//!
//! A server that recovers from a crash may give places again that were given to transactions which never committed:
//! nobody had waited until that was written. It recovers without a restart when one of its processes is killed, and by
//! the next look the places may have come further than before. So a place counts as given once the log of the server is
//! flushed as far as it was written when the place was seen: no recovery takes that back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::StoreErrorKind;
use tokio::time::Instant;

use crate::clock::Micros;
use crate::console::Seen;
use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::overdue::Overdue;
use crate::session::Session;

/// How often locks are looked at. The floor follows the queue at about twice this.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// A writer that is waited for so long is named, and again every so often.
const OVERDUE_AFTER: Duration = Duration::from_secs(10);
const OVERDUE_EVERY: Duration = Duration::from_secs(60);

/// What the names of prepared transactions begin with: they have no process.
const PREPARED: &str = "-1/";

/// A prepared transaction keeps its number; after a restart of the server it has another, which is why everything
/// starts from nothing then. When the server was started is asked with the locks, because a pooler may hide a
/// restart.
pub(crate) const WRITERS: &str = "SELECT pg_catalog.array_agg(l.virtualtransaction),
    pg_catalog.pg_postmaster_start_time()
     FROM pg_catalog.pg_locks l
     WHERE l.locktype = 'relation' AND l.relation = '{outbox}'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())";

/// How far the log of the server is written, and how far it is flushed.
const LOG: &str = "(pg_catalog.pg_current_wal_insert_lsn() - '0/0')::bigint,
    (pg_catalog.pg_current_wal_flush_lsn() - '0/0')::bigint";

/// For services that do not tell: they are believed to keep what they gave.
const NO_LOG: &str = "0::bigint, 0::bigint";

/// What the samples have proven so far.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    state: Mutex<State>,
    /// Who was writing when somebody looked.
    seen: Arc<Seen>,
}

/// One look at the locks.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When the server was started, in microseconds.
    started: i64,
    /// The transactions that hold a writer's lock.
    writers: HashSet<String>,
    /// How far the log of the server was written.
    written: i64,
    /// How far it was flushed.
    flushed: i64,
}

#[derive(Debug, Default)]
struct State {
    session: Option<u64>,
    /// When the server that the last sample is from was started.
    started: Option<i64>,
    /// Everything at or below is decided.
    decided: i64,
    /// The last place that was given when the last read looked.
    given: i64,
    /// The file that the outbox was in when the last read looked.
    file: Option<i64>,
    candidate: Option<Candidate>,
    /// The session is new, and no sample has said which server it is on.
    unproven: bool,
    sampled_at: Option<Instant>,
    /// When writers were last said to be overdue.
    warned_at: Option<Instant>,
}

/// A place that is decided when some writers have ended, and the log is flushed.
#[derive(Debug)]
struct Candidate {
    place: i64,
    waits_for: HashSet<String>,
    /// How far the log was written when the place was given.
    written: i64,
    since: Instant,
}

impl Candidate {
    /// A transaction that is prepared for a two-phase commit goes on under another name. Which of the new names is
    /// whose is not told, so when one that is waited for has gone, all that are new are waited for: they do not
    /// change again.
    fn follow(&mut self, writers: &HashSet<String>) {
        let prepared = |name: &&String| name.starts_with(PREPARED);
        if self
            .waits_for
            .iter()
            .any(|name| !prepared(&name) && !writers.contains(name))
        {
            self.waits_for.retain(|name| writers.contains(name));
            self.waits_for.extend(writers.iter().filter(prepared).cloned());
        }
    }
}

impl State {
    fn forget(&mut self) {
        *self = State {
            session: self.session,
            started: self.started,
            warned_at: self.warned_at,
            ..State::default()
        };
    }

    /// Whether it is time to name the writers that are waited for.
    fn overdue(&mut self, writers: &HashSet<String>) -> Option<Overdue> {
        let candidate = self.candidate.as_ref()?;
        let waited = candidate.since.elapsed();
        let rested = self.warned_at.is_none_or(|at| at.elapsed() >= OVERDUE_EVERY);
        if waited < OVERDUE_AFTER || !rested {
            return None;
        }
        self.warned_at = Some(Instant::now());
        Some(Overdue {
            writers: candidate.waits_for.intersection(writers).cloned().collect(),
            waited,
        })
    }
}

impl Horizon {
    /// One that says whom it saw.
    pub(crate) fn telling(seen: Arc<Seen>) -> Self {
        Self {
            seen,
            ..Self::default()
        }
    }

    /// Whether a sample is due on this session. Nothing is sampled while nothing lies above what is decided.
    pub(crate) fn wants_sample(&self, session: &Session) -> bool {
        let mut state = self.lock();
        if state.session.replace(session.id) != Some(session.id) {
            // It may be another server: until a sample has told, nothing of what is known is used.
            state.candidate = None;
            state.sampled_at = None;
            state.unproven = true;
        }
        let rested = state.sampled_at.is_none_or(|at| at.elapsed() >= SAMPLE_EVERY);
        state.unproven || (state.given > state.decided && rested)
    }

    /// Takes a sample that was begun after [`Horizon::saw`] and ended before the snapshot that the answer is for.
    /// Gives the writers that are to be named, because they have been waited for too long.
    pub(crate) fn sampled(&self, sample: Sample) -> Option<Overdue> {
        let Sample {
            started,
            writers,
            written,
            flushed,
        } = sample;
        self.seen.longest(started, writers.iter().cloned());
        let mut state = self.lock();
        if state
            .started
            .replace(started)
            .is_some_and(|before| before != started)
        {
            state.forget();
        }
        state.sampled_at = Some(Instant::now());
        state.unproven = false;
        if let Some(candidate) = &mut state.candidate {
            candidate.follow(&writers);
        }
        if let Some(candidate) = &state.candidate {
            if !candidate.waits_for.is_disjoint(&writers) {
                return state.overdue(&writers);
            }
            if candidate.written > flushed {
                return None;
            }
            state.decided = state.decided.max(candidate.place);
            state.candidate = None;
        }
        if state.given > state.decided {
            match writers.is_empty() && written <= flushed {
                true => state.decided = state.given,
                false => {
                    state.candidate = Some(Candidate {
                        place: state.given,
                        waits_for: writers,
                        written,
                        since: Instant::now(),
                    });
                }
            }
        }
        None
    }

    /// What is decided for a snapshot taken from now on.
    pub(crate) fn decided(&self) -> i64 {
        self.lock().decided
    }

    /// The last place that was given when the last read looked; zero before any has.
    pub(crate) fn given(&self) -> i64 {
        self.lock().given
    }

    /// Takes the last place given and the file of the table, as a read saw them. Places that begin anew, in a table
    /// that was emptied or made again, prove that nothing which is known is about them. They may have come further
    /// than before by the time of the next look, but an emptied table is in another file. So is one that was only
    /// rewritten, which costs a read from the beginning.
    pub(crate) fn saw(&self, given: i64, file: Option<i64>) {
        let mut state = self.lock();
        if given < state.given || state.file.is_some_and(|before| Some(before) != file) {
            state.forget();
        }
        (state.given, state.file) = (given, file);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statement that [`writers`] asks on this session.
pub(crate) fn sql(session: &Session, tables: &Tables) -> String {
    let log = if session.tells_log { LOG } else { NO_LOG };
    tables.sql(&format!("SELECT w.*, {log} FROM ({WRITERS}) w"))
}

/// Whether the server behind a new session tells how far its log is flushed. Some services that speak PostgreSQL's
/// language keep no such log.
pub(crate) async fn tells_log(session: &Session) -> bool {
    let row = session
        .client
        .query_typed_one(&format!("SELECT {LOG}"), &[])
        .await;
    row.is_ok_and(|row| row.try_get::<_, i64>(1).is_ok())
}

/// Who holds a writer's lock on the outbox.
pub(crate) async fn writers(session: &Session, tables: &Tables) -> Result<Sample> {
    let rows = session.ask("writers", &sql(session, tables), &[]).await?;
    let row = rows.first().ok_or_else(|| {
        Error::new(
            StoreErrorKind::Other,
            "the database said nothing of who writes to the outbox",
        )
    })?;
    let writers: Option<Vec<String>> = row.try_get(0)?;
    Ok(Sample {
        started: row.try_get::<_, Micros>(1)?.0,
        writers: writers.unwrap_or_default().into_iter().collect(),
        written: row.try_get(2)?,
        flushed: row.try_get(3)?,
    })
}

#[cfg(test)]
mod tests;
