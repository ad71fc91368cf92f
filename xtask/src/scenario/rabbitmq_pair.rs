//! A private PostgreSQL and a private RabbitMQ, with an outbox in the one, a queue in the other and the release binary
//! between them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use postrider_testkit::servers::Postgres;
use postrider_testkit::servers::rabbitmq::RabbitMq;
use serde_json::Value;

use super::process::Process;
use super::stage::Stage;
use crate::cargo::release_example;
use crate::failure::{Doing, Failure, Result};

/// The queue that everything routable ends in.
pub(super) const QUEUE: &str = "orders";
/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// The servers and the directory of one scenario.
pub(super) struct Pair<'a> {
    stage: &'a Stage,
    postgres: Postgres,
    rabbit: RabbitMq,
    raw: PathBuf,
}

/// One outbox: a database with its configuration.
pub(super) struct Outbox<'a> {
    pair: &'a Pair<'a>,
    database: String,
    directory: PathBuf,
}

impl<'a> Pair<'a> {
    pub(super) fn start(stage: &'a Stage) -> Result<Self> {
        let raw = release_example("postrider-rabbitmq", "raw")?;
        stage.note("starting PostgreSQL and RabbitMQ");
        Ok(Self {
            stage,
            postgres: Postgres::start().doing(|| "starting PostgreSQL".to_owned())?,
            rabbit: RabbitMq::start().doing(|| "starting RabbitMQ".to_owned())?,
            raw,
        })
    }

    /// An outbox in a database of its own; `settings` go into its table of the configuration.
    pub(super) fn outbox(&self, name: &str, settings: &str) -> Result<Outbox<'_>> {
        let database = self.postgres.database();
        let directory = self.stage.path(name);
        fs::create_dir_all(&directory)?;
        let configuration = format!(
            "[outbox.shop]\nurl = \"{}\"\n{settings}\n\n\
             [broker.rabbit]\nurl = \"{}\"\n\n\
             [broker.rabbit.rabbitmq]\ndeclare = true\n\
             exchange = [{{ name = \"shop\" }}]\nqueue = [{{ name = \"{QUEUE}\" }}]\n\
             binding = [{{ exchange = \"shop\", queue = \"{QUEUE}\", routing_key = \"order\" }}]\n\n\
             [[route]]\n\
             to = [{{ broker = \"rabbit\", exchange = \"shop\", routing_key = \"{{aggregate_type|lower}}\" }}]\n\n\
             [log]\nlevel = \"warn\"\n",
            database.url,
            self.rabbit.url("/"),
        );
        fs::write(directory.join("postrider.toml"), configuration)?;
        let outbox = Outbox {
            pair: self,
            database: database.name,
            directory,
        };
        outbox.postrider(&["migrate", "up"])?;
        Ok(outbox)
    }

    /// Runs the program without an engine, and gives what it found.
    pub(super) fn raw(&self, mode: &str, messages: u64, rest: &[&str]) -> Result<Value> {
        answer(self.raw_command(mode, messages, rest).stderr(Stdio::inherit()))
    }

    /// Starts it beside something else.
    pub(super) fn watch(&self, messages: u64) -> Result<Process> {
        let command = self.raw_command("watch", messages, &[]);
        Process::start("the watch", command, &self.stage.path("watch.log"))
    }

    fn raw_command(&self, mode: &str, messages: u64, rest: &[&str]) -> Command {
        let mut command = Command::new(&self.raw);
        command
            .args([mode, &self.rabbit.url("/"), QUEUE, &messages.to_string()])
            .args(rest);
        command
    }
}

impl Outbox<'_> {
    /// Runs SQL in its database.
    pub(super) fn sql(&self, sql: &str) -> String {
        self.pair.postgres.sql(&self.database, sql)
    }

    /// A number that SQL gives.
    pub(super) fn number(&self, sql: &str) -> Result<u64> {
        let text = self.sql(sql);
        text.parse().doing(|| format!("{sql} gave {text:?}"))
    }

    /// Queues events of these many keys, each with a number that grows within its key. `aggregate_type` and `key` are
    /// SQL over the number `n`.
    pub(super) fn fill(&self, events: u64, aggregate_type: &str, key: &str) {
        self.sql(&format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload)
             SELECT 'OrderPlaced', {aggregate_type}, {key}, '{{\"n\":' || n || ',\"note\":\"' || repeat('x', 280) || '\"}}'
             FROM generate_series(1, {events}) n"
        ));
        // What the relay meets is a table at rest.
        self.sql("VACUUM ANALYZE outbox");
        self.sql("CHECKPOINT");
    }

    /// Runs a command of the binary to its end and gives what it printed; it must succeed.
    pub(super) fn postrider(&self, arguments: &[&str]) -> Result<String> {
        let output = self.pair.stage.postrider(&self.directory, arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::new(format!(
                "postrider {} ended with {}: {}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    /// Starts the relay.
    pub(super) fn relay(&self, arguments: &[&str]) -> Result<Process> {
        let mut command = self.pair.stage.postrider(&self.directory, &["run"]);
        command.args(arguments);
        Process::start("the relay", command, &self.directory.join("relay.log"))
    }
}

fn answer(command: &mut Command) -> Result<Value> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(Failure::new(format!("raw ended with {}", output.status))),
    }
}
