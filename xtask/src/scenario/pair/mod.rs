//! The pair: a service on a private PostgreSQL, relays, and consumers on a private RabbitMQ, each a process of its own.
//!
//! A scenario on it reads as what happens:
//!
//! ```ignore
//! pub(super) fn play(stage: &Stage) -> Result<Outcome> {
//!     let pair = Pair::open(stage, &Setup { relay: "lease = \"2s\"".into(), ..Setup::default() })?;
//!     let consumer = pair.consumer()?;
//!     let relay = pair.relay("relay-1")?;
//!     let producer = pair.producer(&Load { events: Some(stage.size(100_000, 4_000)), ..Load::default() })?;
//!     relay.kill()?; // … or pair.rabbit().stop(), pair.postgres().restart(), pair.topology().unbind(0) …
//!     let relay = pair.relay("relay-1")?;
//!     let counts = pair.produced(producer)?;
//!     let settled = pair.settled(PATIENCE);
//!     relay.terminate()?;
//!     pair.consumed(consumer)?;
//!     let mut outcome = Outcome::of(pair.account()?);
//!     outcome.went_well(settled);
//!     outcome.figure("rolled_back", counts.rolled_back);
//!     Ok(outcome)
//! }
//! ```
//!
//! and is entered in `SCENARIOS` of `scenario/mod.rs`. What there is:
//!
//! - [`Setup`]: how many queues, lines of `[relay]` and `[outbox.shop]`. There is one topic exchange and a quorum queue
//!   `shopN` for each line of business; the relay declares them.
//! - [`Load`] and `pair.producer()`: the service, on as many connections as wanted. A transaction locks a customer (the
//!   key), writes an order and its event; some are rolled back, some are held open. `pair.fill()` queues many at once.
//! - `pair.consumer()`: writes down what arrives in arrived.jsonl, lets it take effect once, then acknowledges.
//! - `pair.relay()`, `pair.relay_by()`: `postrider run` with a log of its own; by a `Proxy` of its own or as a database
//!   user of its own, when a fault or a proof needs it.
//! - `pair.arrivals()`: follows what arrives; `pair.latencies()`: from the end of a commit to the arrival.
//! - `pair.catch_in_flight()`: brings a relay to where a kill repeats at least so many events, and proves it.
//! - `pair.settled()`: everything is published and has taken effect; `pair.account()`: the ledger's verdict.
//!
//! RabbitMQ takes long to start, so all scenarios of a process share one, each in a virtual host of its own;
//! PostgreSQL is started for each. Both may be stopped, killed and frozen: scenarios are played one at a time.

mod account;
mod apart;
mod arrivals;
mod configuration;
mod consumer;
mod database;
mod embedded;
mod in_flight;
mod messages;
mod orders;
mod producer;
mod relay;
mod topology;

use std::net::TcpStream;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider_testkit::servers::Postgres;
use postrider_testkit::servers::rabbitmq::RabbitMq;
use tokio::runtime::Runtime;

pub(in crate::scenario) use apart::{Apart, arrival};
pub(in crate::scenario) use arrivals::Arrivals;
pub(in crate::scenario) use configuration::{Exchanges, Setup};
pub(crate) use consumer::{Args as ConsumerArgs, run as consume};
pub(in crate::scenario) use database::Database;
pub(crate) use embedded::{Args as EmbeddedArgs, run as embed};
pub(in crate::scenario) use messages::Message;
pub(in crate::scenario) use orders::Order;
pub(in crate::scenario) use producer::Load;
pub(crate) use producer::{Args as ProducerArgs, run as produce};
pub(in crate::scenario) use relay::{Relay, Way};
pub(in crate::scenario) use topology::Topology;

use super::effects;
use super::pg_measure::SETTINGS;
use super::process::Process;
use super::producer::{Counts, counts};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::{Doing, Result};

/// Between two looks at the database: often enough for a wait, too seldom to be felt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A shop on real servers, and the processes around it.
pub(in crate::scenario) struct Pair<'a> {
    stage: &'a Stage,
    runtime: Runtime,
    postgres: Postgres,
    rabbit: &'static RabbitMq,
    vhost: String,
    queues: usize,
    exchanges: Exchanges,
    database: Database,
}

impl<'a> Pair<'a> {
    /// Starts the servers, writes postrider.toml, and makes all tables.
    pub(in crate::scenario) fn open(stage: &'a Stage, setup: &Setup) -> Result<Self> {
        stage.note("starting PostgreSQL and RabbitMQ");
        let (rabbit, vhost) = own_vhost()?;
        let postgres = Postgres::start_with(&SETTINGS)?;
        postgres.sql("postgres", "CREATE DATABASE shop");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let database = Database::new(postgres.url("shop"), runtime.handle().clone());
        let pair = Self {
            stage,
            runtime,
            postgres,
            rabbit,
            vhost,
            queues: setup.queues,
            exchanges: setup.exchanges,
            database,
        };
        pair.reconfigure(setup)?;
        pair.postrider(&["migrate", "up"])?;
        pair.database.execute(producer::TABLES)?;
        stage.note("the servers are up");
        Ok(pair)
    }

    pub(in crate::scenario) fn directory(&self) -> &Path {
        self.stage.directory()
    }

    pub(in crate::scenario) fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    pub(in crate::scenario) fn rabbit(&self) -> &RabbitMq {
        self.rabbit
    }

    /// The url of this scenario's virtual host.
    pub(in crate::scenario) fn rabbit_url(&self) -> String {
        self.rabbit.url(&self.vhost)
    }

    pub(in crate::scenario) fn database(&self) -> &Database {
        &self.database
    }

    /// A further connection to a database of the server, for whoever holds a transaction open.
    pub(in crate::scenario) fn another(&self, database: &str) -> Database {
        Database::new(self.postgres.url(database), self.runtime.handle().clone())
    }

    /// The exchange, the queues and the bindings, for whoever takes them away.
    pub(in crate::scenario) fn topology(&self) -> Topology<'_> {
        Topology::new(self.runtime.handle(), self.rabbit_url(), self.exchanges)
    }

    /// The names of the queues.
    pub(in crate::scenario) fn queues(&self) -> Vec<String> {
        (0..self.queues).map(configuration::queue).collect()
    }

    /// Starts the service.
    pub(in crate::scenario) fn producer(&self, load: &Load) -> Result<Process> {
        let mut command = self.stage.helper()?;
        command.args(["pair-producer", "--url", self.database.url()]);
        command.arg("--directory").arg(self.directory());
        command.args(load.arguments(self.queues));
        let log = self.directory().join("producer.log");
        Process::start("the producer", command, &log)
    }

    /// Waits until the service has done what it was asked for.
    pub(in crate::scenario) fn produced(&self, mut producer: Process, deadline: Duration) -> Result<Counts> {
        producer.wait(deadline)?;
        self.stop_producing(producer)
    }

    /// Tells a service without an end to stop after its transactions under way.
    pub(in crate::scenario) fn stop_producing(&self, producer: Process) -> Result<Counts> {
        counts(&producer.finish(Duration::from_secs(60))?)
    }

    /// Starts a consumer of all queues.
    pub(in crate::scenario) fn consumer(&self) -> Result<Process> {
        let mut command = self.stage.helper()?;
        command.args(["pair-consumer", "--url", &self.rabbit_url()]);
        command.arg("--directory").arg(self.directory());
        for queue in self.queues() {
            command.args(["--queue", &queue]);
        }
        Process::start("the consumer", command, &self.directory().join("consumer.log"))
    }

    /// Lets the consumer take what is still in the queues, and ends it.
    pub(in crate::scenario) fn consumed(&self, consumer: Process) -> Result<()> {
        consumer.finish(Duration::from_secs(120)).map(drop)
    }

    /// Starts a service that has several relays in its own process.
    pub(in crate::scenario) fn embedded(&self, relays: usize) -> Result<Process> {
        let mut command = self.stage.helper()?;
        command.args(["pair-embedded", "--database", self.database.url()]);
        command.args(["--rabbit", &self.rabbit_url(), "--relays", &relays.to_string()]);
        let log = self.directory().join("embedded.log");
        Process::start("the service with its relays", command, &log)
    }

    /// Follows what arrives from now on.
    pub(in crate::scenario) fn arrivals(&self) -> Result<Arrivals> {
        Arrivals::from_now(&self.directory().join("arrived.jsonl"))
    }

    /// Waits until nothing is queued or parked and every order has taken effect.
    pub(in crate::scenario) fn settled(&self, deadline: Duration) -> Result<()> {
        let mut seen = (0, 0, 0, 0);
        let settled = until_every(LOOK_EVERY, "everything has taken effect", deadline, || {
            let (queued, parked) = self.waiting()?;
            let orders = self.database.number("SELECT count(*) FROM orders")?;
            seen = (queued, parked, effects::effect_count(self.directory())?, orders);
            Ok((queued + parked == 0 && seen.2 >= orders).then_some(()))
        });
        let (queued, parked, effects, orders) = seen;
        settled.doing(|| format!("{queued} queued, {parked} parked, {effects} of {orders} effects"))
    }

    /// How many rows are queued and how many are parked.
    pub(in crate::scenario) fn waiting(&self) -> Result<(u64, u64)> {
        let queued = self.database.number("SELECT count(*) FROM outbox")?;
        let parked = self.database.number("SELECT count(*) FROM outbox_parked")?;
        Ok((queued, parked))
    }
}

/// The url of a virtual host of its own, for scenarios without a pair.
pub(in crate::scenario) fn vhost() -> Result<String> {
    let (rabbit, vhost) = own_vhost()?;
    Ok(rabbit.url(&vhost))
}

fn own_vhost() -> Result<(&'static RabbitMq, String)> {
    static VHOSTS: AtomicU32 = AtomicU32::new(0);
    let vhost = format!("scenario-{}", VHOSTS.fetch_add(1, Ordering::Relaxed));
    let rabbit = rabbit()?;
    rabbit.add_vhost(&vhost)?;
    Ok((rabbit, vhost))
}

/// The RabbitMQ of all scenarios of this process. It ends with the process.
fn rabbit() -> Result<&'static RabbitMq> {
    static RABBIT: OnceLock<RabbitMq> = OnceLock::new();
    let Some(rabbit) = RABBIT.get() else {
        let started = RabbitMq::start().doing(|| "starting RabbitMQ".to_owned())?;
        return Ok(RABBIT.get_or_init(|| started));
    };
    // A scenario that broke off may have left it stopped.
    if TcpStream::connect(("127.0.0.1", rabbit.port())).is_err() {
        rabbit.start_again()?;
    }
    Ok(rabbit)
}
