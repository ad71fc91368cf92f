//! The service of the pair: connections that take orders side by side, until there are enough or standard input is
//! closed.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::Pair;
use super::account::COMMITS;
use super::database::connect;
use crate::failure::Result;
use crate::scenario::producer::stop_at_end_of_input;
use crate::scenario::shop::now_us;

/// What the database said to it.
type Placed<T> = std::result::Result<T, tokio_postgres::Error>;

/// The business tables.
pub(super) const TABLES: &str = "
    CREATE TABLE customers (name text PRIMARY KEY, orders bigint NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE orders (
        id       text PRIMARY KEY,
        customer text NOT NULL,
        n        bigint NOT NULL, -- 1 for the customer's first order, and so on
        UNIQUE (customer, n)
    )";

/// Takes the customer's row, so that orders of one customer are placed one after another, places the order and says so.
const PLACE: &str = "
    WITH turn AS (
        INSERT INTO customers (name, orders) VALUES ($2, 1)
        ON CONFLICT (name) DO UPDATE SET orders = customers.orders + 1 RETURNING orders
    ), placed AS (
        INSERT INTO orders (id, customer, n) SELECT $1, $2, orders FROM turn RETURNING n
    )
    INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
    SELECT $1, 'OrderPlaced', $3, $2, '{\"n\":' || n || ',\"text\":\"' || $4::text || '\"}' FROM placed";

/// What the service does.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Load {
    /// Tells producers apart; order ids begin with it.
    pub(in crate::scenario) name: &'static str,
    /// Orders to take; none: until the producer is told to stop.
    pub(in crate::scenario) events: Option<u64>,
    /// Customers who place them.
    pub(in crate::scenario) keys: u64,
    /// Transactions at a time.
    pub(in crate::scenario) connections: u64,
    /// Transactions per second, at most.
    pub(in crate::scenario) rate: u64,
    /// Every so manieth transaction is rolled back; 0: none.
    pub(in crate::scenario) rollback_every: u64,
    /// Every so manieth transaction stays open for [`Load::hold_ms`] before it ends; 0: none.
    pub(in crate::scenario) hold_every: u64,
    pub(in crate::scenario) hold_ms: u64,
    /// Bytes of text in a payload.
    pub(in crate::scenario) payload: usize,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            name: "order",
            events: None,
            keys: 1_000,
            connections: 8,
            rate: 2_000,
            rollback_every: 50,
            hold_every: 0,
            hold_ms: 20,
            payload: 200,
        }
    }
}

impl Load {
    pub(super) fn arguments(&self, queues: usize) -> Vec<String> {
        let numbers = [
            ("--keys", self.keys),
            ("--connections", self.connections),
            ("--rate", self.rate),
            ("--rollback-every", self.rollback_every),
            ("--hold-every", self.hold_every),
            ("--hold-ms", self.hold_ms),
            ("--payload", self.payload as u64),
            ("--queues", queues as u64),
        ];
        let events = self.events.map(|events| ("--events", events));
        let numbers = numbers.into_iter().chain(events);
        ["--name".to_owned(), self.name.to_owned()]
            .into_iter()
            .chain(numbers.flat_map(|(flag, number)| [flag.to_owned(), number.to_string()]))
            .collect()
    }
}

/// `cargo xtask pair-producer`: a [`Load`] as arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    url: String,
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    name: String,
    #[arg(long)]
    events: Option<u64>,
    #[arg(long)]
    keys: u64,
    #[arg(long)]
    connections: u64,
    #[arg(long)]
    rate: u64,
    #[arg(long)]
    rollback_every: u64,
    #[arg(long)]
    hold_every: u64,
    #[arg(long)]
    hold_ms: u64,
    #[arg(long)]
    payload: usize,
    #[arg(long)]
    queues: u64,
}

/// Takes orders; prints how many transactions were committed and how many rolled back.
pub(crate) fn run(args: &Args) -> Result<()> {
    let log = args.directory.join(COMMITS);
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let service = Arc::new(Service {
        args: args.clone(),
        text: "x".repeat(args.payload),
        stop: stop_at_end_of_input(),
        tried: AtomicU64::new(0),
        committed: AtomicU64::new(0),
        rolled_back: AtomicU64::new(0),
        log: Mutex::new(BufWriter::new(log)),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clerks = (0..args.connections).map(|number| service.clone().work(number));
        futures_util::future::join_all(clerks).await;
    });
    service.log().flush()?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("{} {}", count(&service.committed), count(&service.rolled_back));
    Ok(())
}

struct Service {
    args: Args,
    text: String,
    stop: Arc<AtomicBool>,
    tried: AtomicU64,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    log: Mutex<BufWriter<File>>,
}

impl Service {
    /// Takes orders on one connection, which is opened again whenever it is lost.
    async fn work(self: Arc<Self>, number: u64) {
        let pause = Duration::from_secs_f64(self.args.connections as f64 / self.args.rate as f64);
        let mut due = Instant::now() + pause.mul_f64(number as f64 / self.args.connections as f64);
        let mut session = None;
        while !self.is_done() {
            let (client, place) = match session.take() {
                Some(session) => session,
                None => match open(&self.args.url).await {
                    Ok(session) => session,
                    Err(error) => {
                        eprintln!("no connection: {error}");
                        // Between two attempts while the server is away.
                        sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            // What was missed while the database was away is not made up for.
            due = due.max(Instant::now() - Duration::from_millis(500)) + pause;
            match self.place(&client, &place).await {
                Ok(()) => session = Some((client, place)),
                // Whether a commit without an answer took place is in the table of orders, which is what counts.
                Err(error) => eprintln!("an order failed: {error}"),
            }
            sleep_until(due).await;
        }
    }

    fn is_done(&self) -> bool {
        let enough = |events| self.committed.load(Ordering::Relaxed) >= events;
        self.args.events.is_some_and(enough) || self.stop.load(Ordering::Relaxed)
    }

    async fn place(&self, client: &Client, place: &Statement) -> Placed<()> {
        let args = &self.args;
        let tried = self.tried.fetch_add(1, Ordering::Relaxed) + 1;
        // Multiplying by a prime visits the customers in an order that repeats late and favours none.
        let customer = tried * 7_919 % args.keys;
        let id = format!("{}-{tried:08}", args.name);
        let (name, line) = (customer_name(customer), line_name(customer, args.queues));
        let is_turn = |every: u64| every > 0 && tried.is_multiple_of(every);
        if !is_turn(args.hold_every) && !is_turn(args.rollback_every) {
            // One round trip, as a service that cares for its latency does it; what counts is that the order was
            // placed.
            let values: [&(dyn ToSql + Sync); 4] = [&id, &name, &line, &self.text];
            let (begun, placed, committed) = tokio::join!(
                client.batch_execute("BEGIN"),
                client.execute(place, &values),
                client.batch_execute("COMMIT")
            );
            begun.and(placed)?;
            committed?;
            self.committed(&id);
            return Ok(());
        }
        client.batch_execute("BEGIN").await?;
        client.execute(place, &[&id, &name, &line, &self.text]).await?;
        if is_turn(args.hold_every) {
            // A transaction that stays open for so long is what was asked for.
            sleep(Duration::from_millis(args.hold_ms)).await;
        }
        if is_turn(args.rollback_every) {
            client.batch_execute("ROLLBACK").await?;
            self.rolled_back.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        client.batch_execute("COMMIT").await?;
        self.committed(&id);
        Ok(())
    }

    fn committed(&self, id: &str) {
        let at = now_us();
        self.committed.fetch_add(1, Ordering::Relaxed);
        // A full disk would show as latencies that are missing.
        let _ = writeln!(self.log(), "{id}\t{at}");
    }

    fn log(&self) -> std::sync::MutexGuard<'_, BufWriter<File>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open(url: &str) -> Placed<(Client, Statement)> {
    let client = connect(url).await?;
    let place = client.prepare(PLACE).await?;
    Ok((client, place))
}

fn customer_name(customer: u64) -> String {
    format!("customer-{customer:05}")
}

/// The line of business of a customer, as the aggregate's type.
fn line_name(customer: u64, queues: u64) -> String {
    format!("SHOP{}", customer % queues)
}

impl Pair<'_> {
    /// Takes many orders at once, without a producer: `events` of `keys` customers, in order, in one transaction.
    pub(in crate::scenario) fn fill(&self, name: &str, events: u64, keys: u64) -> Result<()> {
        let queues = self.queues;
        self.database().execute(&format!(
            "BEGIN;
             CREATE TEMPORARY TABLE filling ON COMMIT DROP AS
                SELECT '{name}-' || lpad(i::text, 9, '0') AS id, i % {keys} AS customer,
                       i / {keys} + 1 + coalesce(c.orders, 0) AS n, i
                FROM generate_series(0, {events} - 1) i
                LEFT JOIN customers c ON c.name = 'customer-' || lpad((i % {keys})::text, 5, '0');
             INSERT INTO customers (name, orders)
                SELECT 'customer-' || lpad(customer::text, 5, '0'), max(n) FROM filling GROUP BY customer
                ON CONFLICT (name) DO UPDATE SET orders = excluded.orders;
             INSERT INTO orders (id, customer, n)
                SELECT id, 'customer-' || lpad(customer::text, 5, '0'), n FROM filling;
             INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
                SELECT id, 'OrderPlaced', 'SHOP' || customer % {queues}, 'customer-' || lpad(customer::text, 5, '0'),
                       '{{\"n\":' || n || ',\"text\":\"' || repeat('x', 200) || '\"}}'
                FROM filling ORDER BY i;
             COMMIT"
        ))
    }
}
