//! Waiting for the write lock of another process.
//!
//! SQLite's own waiting sleeps for up to 100 ms between two looks. Beside a service that writes all the time the lock
//! is free only for the moment between two of its transactions, and whoever looks ten times a second keeps missing
//! it: with 1,000 transactions a second of one producer a relay could not renew its lease for half a minute. Looking
//! every millisecond meets that moment within milliseconds.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// The pause between two looks. A settle takes about as long, so looking more often would gain nothing.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// SQLite calls the handler on the thread that waits, and hands it nothing but a count: what else it needs is here.
    static LIMIT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets a connection wait in short steps, for this long at most. To be called on the thread that uses the connection.
pub(crate) fn install(connection: &Connection, limit: Duration) -> rusqlite::Result<()> {
    LIMIT.set(limit);
    connection.busy_handler(Some(wait))
}

/// Whether to look again.
fn wait(looks: i32) -> bool {
    let now = Instant::now();
    let began = match (looks, BEGAN.get()) {
        (1.., Some(began)) => began,
        _ => now,
    };
    BEGAN.set(Some(began));
    if now - began >= LIMIT.get() {
        return false;
    }
    thread::sleep(PAUSE);
    true
}

#[cfg(test)]
mod tests {
    use rusqlite::TransactionBehavior;

    use super::*;
    use crate::error::is_busy;

    /// Fault A33.
    #[test]
    fn a_lock_that_is_held_too_long_is_given_up_in_time_and_one_that_is_released_is_met() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let mut holder = Connection::open(&path).unwrap();
        let mut waiter = Connection::open(&path).unwrap();
        install(&waiter, Duration::from_millis(100)).unwrap();

        let held = holder
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        for _ in 0..2 {
            let began = Instant::now();
            let refused = waiter.transaction_with_behavior(TransactionBehavior::Immediate);
            assert!(is_busy(&refused.unwrap_err()));
            assert!(began.elapsed() >= Duration::from_millis(100));
        }
        thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                install(&waiter, Duration::from_secs(60)).unwrap();
                waiter
                    .transaction_with_behavior(TransactionBehavior::Immediate)
                    .map(drop)
            });
            thread::sleep(Duration::from_millis(20));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }
}
