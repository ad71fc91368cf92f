//! Producers on a file: a few connections, one event a transaction, with a pause behind each.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

use crate::Failure;
use crate::insert::{self, Args};

/// How long a producer waits for the one writer that a file has.
const BUSY: Duration = Duration::from_secs(30);

const SQL: &str = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
     VALUES (?1, 'OrderCreated', 'ORDER', ?2, ?3)";

/// Inserts for a while; answers the rate and the slow end of what one insert took, with the wait for its turn.
pub(crate) fn run(path: &Path, args: &Args) -> Result<Value, Failure> {
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(args.seconds);
    let workers: Vec<_> = (0..args.clients)
        .map(|worker| {
            let (path, pause) = (path.to_owned(), Duration::from_millis(args.pause_ms));
            thread::spawn(move || insert(path, worker, until, pause))
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.join().map_err(|_| "a producer panicked")??);
    }
    Ok(insert::figures(times, began.elapsed()))
}

fn insert(path: PathBuf, worker: u64, until: Instant, pause: Duration) -> rusqlite::Result<Vec<Duration>> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    let (payload, run) = (insert::payload(), std::process::id());
    let mut times = Vec::new();
    while Instant::now() < until {
        let count = times.len() as u64;
        let (id, key) = insert::names(run, worker, count);
        let before = Instant::now();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.prepare_cached(SQL)?.execute((&id, &key, &payload))?;
        transaction.commit()?;
        times.push(before.elapsed());
        // The rate itself is what is waited for.
        thread::sleep(pause);
    }
    Ok(times)
}
