//! Work that has time goes along with the next settle, in its transaction.
//!
//! There is one write lock, and SQLite lets a producer that finds it taken sleep for milliseconds. A cleanup that took
//! it for half a millisecond, fifty times a second, more than doubled the slow end of the inserts beside it (from 1.4
//! to 3.4 ms). What goes along with the settles of the relay is not to be seen, as long as it does not make them much
//! longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use postrider_core::crash;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::Result;

/// How long one waits for a settle before it takes the lock for itself.
pub(crate) const PATIENCE: Duration = Duration::from_millis(25);

/// In whose transaction it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// In that of a settle.
    Settle,
    /// In one of its own, because no settle came.
    Nobody,
}

/// Something to do in a transaction. Whoever waits for it is told once that is written.
pub(crate) type Errand = Box<dyn FnOnce(&Transaction<'_>, Company) -> Told + Send>;

/// Tells whoever waits; dropped instead, it tells that nothing was written.
pub(crate) type Told = Box<dyn FnOnce() + Send>;

/// What waits for a settle.
#[derive(Default)]
pub(crate) struct Errands {
    waiting: VecDeque<(Instant, Errand)>,
}

impl Errands {
    pub(crate) fn push(&mut self, errand: Errand) {
        self.waiting.push_back((Instant::now(), errand));
    }

    /// How long the first still waits; none: there is none.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let (since, _) = self.waiting.front()?;
        Some(PATIENCE.saturating_sub(since.elapsed()))
    }

    /// Does the first one in a transaction that is about to be committed.
    pub(crate) fn go_along(&mut self, tx: &Transaction<'_>) -> Option<Told> {
        let (_, errand) = self.waiting.pop_front()?;
        Some(errand(tx, Company::Settle))
    }

    /// Does the first one by itself if it has waited long enough.
    pub(crate) fn go_alone(&mut self, connection: &mut Connection) -> Result<()> {
        if self.wait().is_none_or(|wait| !wait.is_zero()) {
            return Ok(());
        }
        // Taken out first: one that cannot be done must not be tried for ever.
        let Some((_, errand)) = self.waiting.pop_front() else {
            return Ok(());
        };
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let told = errand(&tx, Company::Nobody);
        crash::point("operator.inside");
        tx.commit()?;
        crash::point("operator.after");
        told();
        Ok(())
    }
}

/// Does a piece of work that leaves nothing behind where it fails, and the transaction as it was.
pub(crate) fn apart<T>(tx: &Transaction<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    tx.execute_batch("SAVEPOINT errand")?;
    let done = work();
    if done.is_err() {
        tx.execute_batch("ROLLBACK TO errand")?;
    }
    tx.execute_batch("RELEASE errand")?;
    done
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use postrider_core::StoreErrorKind;

    use super::*;
    use crate::error::Error;

    fn table() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n)").unwrap();
        connection
    }

    fn numbers(connection: &Connection) -> Vec<i64> {
        let mut all = connection.prepare("SELECT n FROM t ORDER BY n").unwrap();
        let all = all.query_map([], |row| row.get(0)).unwrap();
        all.collect::<rusqlite::Result<_>>().unwrap()
    }

    /// An errand that writes a number, and fails behind that or not; what is told of it comes out of the channel.
    fn writes(number: i64, fails: bool) -> (Errand, mpsc::Receiver<bool>) {
        let (tell, told) = mpsc::channel();
        let errand: Errand = Box::new(move |tx, _| {
            let done = apart(tx, || {
                tx.execute("INSERT INTO t VALUES (?1)", [number])?;
                match fails {
                    true => Err(Error::new(StoreErrorKind::Other, "it cannot be done")),
                    false => Ok(()),
                }
            });
            Box::new(move || tell.send(done.is_ok()).unwrap())
        });
        (errand, told)
    }

    #[test]
    fn one_that_fails_leaves_what_it_went_along_with_whole() {
        let (mut connection, mut errands) = (table(), Errands::default());
        let (errand, told) = writes(1, true);
        errands.push(errand);
        let tx = connection.transaction().unwrap();
        tx.execute("INSERT INTO t VALUES (2)", []).unwrap();
        let tell = errands.go_along(&tx).unwrap();
        assert!(told.try_recv().is_err(), "nobody is told before it is written");
        tx.commit().unwrap();
        tell();
        assert_eq!((told.recv().unwrap(), numbers(&connection)), (false, vec![2]));
    }

    #[test]
    fn whoever_waits_is_told_when_nothing_was_written() {
        let (mut connection, mut errands) = (table(), Errands::default());
        let (errand, told) = writes(1, false);
        errands.push(errand);
        let tx = connection.transaction().unwrap();
        let tell = errands.go_along(&tx).unwrap();
        tx.rollback().unwrap();
        drop(tell);
        assert!(told.recv().is_err(), "the reply was dropped");
        assert_eq!(numbers(&connection), [] as [i64; 0]);
    }

    #[test]
    fn one_goes_alone_where_no_settle_comes() {
        let (mut connection, mut errands) = (table(), Errands::default());
        let (errand, told) = writes(1, false);
        assert_eq!(errands.wait(), None);
        errands.push(errand);
        while errands.wait().is_some() {
            errands.go_alone(&mut connection).unwrap();
        }
        assert_eq!((told.recv().unwrap(), numbers(&connection)), (true, vec![1]));
    }
}
