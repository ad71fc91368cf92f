//! How far everything is decided: what a floor may move to.
//!
//! Places are given before transactions commit, so a row may turn up below rows that were seen long ago. Whoever has a
//! place has held a lock on `outbox` since before it was given. So all places up to the last one given are decided once
//! every transaction that held such a lock after that has ended: the locks are sampled, and a later sample that
//! shares no transaction with the first one is the proof. Transactions that never touched `outbox` hold nothing up.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::StoreErrorKind;
use tokio::time::Instant;

use crate::clock::Micros;
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

/// What the samples have proven so far.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    state: Mutex<State>,
}

/// One look at the locks.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When the server was started, in microseconds.
    started: i64,
    /// The transactions that hold a writer's lock.
    writers: HashSet<String>,
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

/// A place that is decided when some writers have ended.
#[derive(Debug)]
struct Candidate {
    place: i64,
    waits_for: HashSet<String>,
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
    pub(crate) fn sampled(&self, Sample { started, writers }: Sample) -> Option<Overdue> {
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
            state.decided = state.decided.max(candidate.place);
            state.candidate = None;
        }
        if state.given > state.decided {
            match writers.is_empty() {
                true => state.decided = state.given,
                false => {
                    state.candidate = Some(Candidate {
                        place: state.given,
                        waits_for: writers,
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

/// Who holds a writer's lock on the outbox.
pub(crate) async fn writers(session: &Session, tables: &Tables) -> Result<Sample> {
    let rows = session.ask("writers", &tables.sql(WRITERS), &[]).await?;
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Sample {
        Sample {
            started: 1,
            writers: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Fault A6. Named after a while, not before, and not at every sample.
    #[tokio::test(start_paused = true)]
    async fn a_writer_that_stays_is_named_now_and_then() {
        let horizon = Horizon::default();
        horizon.saw(10, Some(1));
        assert_eq!(horizon.sampled(set(&["3/1", "4/7"])), None);
        tokio::time::advance(OVERDUE_AFTER / 2).await;
        assert_eq!(horizon.sampled(set(&["3/1"])), None);
        tokio::time::advance(OVERDUE_AFTER / 2).await;
        let named = horizon.sampled(set(&["3/1", "9/9"])).expect("it is named");
        assert_eq!(
            (named.writers, named.waited),
            (vec!["3/1".to_owned()], OVERDUE_AFTER)
        );
        tokio::time::advance(OVERDUE_EVERY / 2).await;
        assert_eq!(horizon.sampled(set(&["3/1"])), None);
        tokio::time::advance(OVERDUE_EVERY / 2).await;
        assert!(horizon.sampled(set(&["3/1"])).is_some(), "it is still there");
        horizon.sampled(set(&["9/9"]));
        assert_eq!(horizon.decided(), 10);
    }

    /// Fault A25.
    #[test]
    fn places_that_begin_anew_are_not_decided() {
        let horizon = Horizon::default();
        horizon.saw(50, Some(1));
        horizon.sampled(set(&[]));
        assert_eq!(horizon.decided(), 50);
        horizon.saw(3, Some(1));
        assert_eq!(horizon.decided(), 0);
        horizon.sampled(set(&["3/1"]));
        assert_eq!(horizon.decided(), 0, "somebody writes");
        horizon.sampled(set(&[]));
        assert_eq!(horizon.decided(), 3);
    }

    /// Fault A25. Emptied and filled again further than before, between two looks.
    #[test]
    fn places_of_another_file_are_not_decided() {
        let horizon = Horizon::default();
        horizon.saw(50, Some(1));
        horizon.sampled(set(&[]));
        assert_eq!(horizon.decided(), 50);
        horizon.saw(200, Some(2));
        assert_eq!(horizon.decided(), 0);
        horizon.saw(200, Some(2));
        horizon.sampled(set(&[]));
        assert_eq!(horizon.decided(), 200);
    }

    /// After a restart a prepared transaction has another number, so that it is not among the new ones proves nothing.
    #[test]
    fn a_sample_of_a_restarted_server_proves_nothing_of_the_last() {
        let horizon = Horizon::default();
        horizon.saw(10, Some(1));
        horizon.sampled(set(&["-1/7"]));
        horizon.sampled(Sample {
            started: 2,
            ..set(&["-1/9"])
        });
        assert_eq!(horizon.decided(), 0);
        horizon.saw(10, Some(1));
        horizon.sampled(Sample {
            started: 2,
            ..set(&["-1/9"])
        });
        assert_eq!(horizon.decided(), 0, "it is still open");
    }

    #[test]
    fn a_writer_that_is_prepared_is_still_waited_for() {
        let horizon = Horizon::default();
        horizon.saw(7, Some(1));
        horizon.sampled(set(&["3/45", "-1/700"]));
        horizon.sampled(set(&["-1/812", "-1/700"]));
        assert_eq!(horizon.decided(), 0, "it is one of the prepared now");
        horizon.sampled(set(&["-1/812", "-1/900"]));
        assert_eq!(horizon.decided(), 0, "it has not ended");
        horizon.sampled(set(&["-1/900"]));
        assert_eq!(horizon.decided(), 7, "what was prepared later was not waited for");
    }

    #[test]
    fn a_place_is_decided_when_all_who_could_have_it_have_ended() {
        let horizon = Horizon::default();
        horizon.saw(10, Some(1));
        horizon.sampled(set(&["3/1", "4/7"]));
        assert_eq!(horizon.decided(), 0);
        horizon.saw(20, Some(1));
        horizon.sampled(set(&["4/7", "5/1"]));
        assert_eq!(horizon.decided(), 0, "one of them is still there");
        horizon.sampled(set(&["5/1"]));
        assert_eq!(horizon.decided(), 10, "what came later was not waited for");
        horizon.sampled(set(&["6/1"]));
        assert_eq!(horizon.decided(), 20);
    }

    #[test]
    fn without_writers_everything_given_is_decided() {
        let horizon = Horizon::default();
        horizon.saw(7, Some(1));
        horizon.sampled(set(&[]));
        assert_eq!(horizon.decided(), 7);
    }
}
