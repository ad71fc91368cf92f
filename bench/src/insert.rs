//! Producers: many connections, one event a transaction.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::NoTls;

use crate::Failure;

/// How producers insert.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: u64,
    /// For how long
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// The pause of a client behind an event, on a file
    #[arg(long, default_value_t = 0)]
    pub(crate) pause_ms: u64,
}

const SQL: &str = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
     VALUES ($1, 'OrderCreated', 'ORDER', $2, $3)";

/// Inserts for a while; answers the rate and the slow end of what one insert took.
pub(crate) async fn run(url: &str, args: Args) -> Result<Value, Failure> {
    let mut clients = Vec::new();
    for _ in 0..args.clients {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let statement = client.prepare(SQL).await?;
        clients.push((client, statement));
    }
    let payload = payload();
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(args.seconds);
    // Ids of several runs on one table must not meet.
    let run = std::process::id();
    let workers: Vec<_> = (0..)
        .zip(clients)
        .map(|(worker, (client, statement)): (u64, _)| {
            let payload = payload.clone();
            tokio::spawn(async move {
                let mut count = 0_u64;
                let mut times = Vec::new();
                while Instant::now() < until {
                    let (id, key) = names(run, worker, count);
                    let before = Instant::now();
                    client.execute(&statement, &[&id, &key, &payload]).await?;
                    times.push(before.elapsed());
                    count += 1;
                }
                Ok::<Vec<Duration>, tokio_postgres::Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await??);
    }
    Ok(figures(times, began.elapsed()))
}

/// The id and the key of an event of a run.
pub(crate) fn names(run: u32, worker: u64, count: u64) -> (String, String) {
    (
        format!("{run}-{worker}-{count}"),
        (count * 64 + worker).to_string(),
    )
}

pub(crate) fn payload() -> String {
    format!("{{\"pad\":\"{}\"}}", "x".repeat(220))
}

/// How many there were, how many a second, and the slow end.
pub(crate) fn figures(mut times: Vec<Duration>, took: Duration) -> Value {
    let per_s = times.len() as f64 / took.as_secs_f64();
    times.sort_unstable();
    let slow = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    json!({"events": times.len(), "per_s": per_s, "p99_ms": slow.as_secs_f64() * 1e3})
}
