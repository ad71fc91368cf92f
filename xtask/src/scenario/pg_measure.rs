//! What the measurements on PostgreSQL share: a server that syncs, a filled outbox, and the load as a process.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use postrider_testkit::servers::{Postgres, TestDatabase};
use serde_json::Value;

use super::process::Process;
use super::stage::Stage;
use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};

/// As a server for production has them: every commit is on the disk. The log may grow before it forces a checkpoint, so
/// that checkpoints do not decide which of two arms is the slower one.
pub(super) const SETTINGS: [&str; 5] = [
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
];

/// A private server and the program that puts load on it.
pub(super) struct Measure<'a> {
    stage: &'a Stage,
    program: PathBuf,
    pub(super) server: Postgres,
}

impl<'a> Measure<'a> {
    pub(super) fn new(stage: &'a Stage) -> Result<Self> {
        let program = release_binary("postrider-bench")?;
        let server = Postgres::start_with(&SETTINGS).doing(|| "starting PostgreSQL".to_owned())?;
        Ok(Self {
            stage,
            program,
            server,
        })
    }

    /// A database with empty outbox tables.
    pub(super) fn database(&self) -> Result<TestDatabase> {
        let database = self.server.database();
        self.run(&database, &["migrate"])?;
        Ok(database)
    }

    /// Queues events of about 300 bytes over 5,000 keys, and lets the database come to rest.
    pub(super) fn fill(&self, database: &TestDatabase, events: u64) {
        let sql = format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
             SELECT outbox_make_id(), 'OrderCreated', 'ORDER', (n % 5000)::text,
                    '{{\"order\":' || n || ',\"pad\":\"' || repeat('x', 220) || '\"}}'
                    FROM generate_series(1, {events}) n"
        );
        self.server.sql(&database.name, &sql);
        self.server.sql(&database.name, "VACUUM ANALYZE outbox");
        self.server.sql(&database.name, "CHECKPOINT");
    }

    /// Drops a database that has been measured.
    pub(super) fn done(&self, database: &TestDatabase) {
        self.server.sql(
            "postgres",
            &format!("DROP DATABASE {} WITH (FORCE)", database.name),
        );
    }

    /// Runs the program to its end; gives what it printed.
    pub(super) fn run(&self, database: &TestDatabase, arguments: &[&str]) -> Result<Value> {
        let output = self
            .command(database, arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .doing(|| format!("running {arguments:?}"))?;
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout)?),
            false => Err(Failure::new(format!("{arguments:?} failed"))),
        }
    }

    /// Starts the program beside others; it ends when its standard input does.
    pub(super) fn start(&self, database: &TestDatabase, arguments: &[&str]) -> Result<Process> {
        let log = self.stage.path("bench.log");
        Process::start("the relay", self.command(database, arguments), &log)
    }

    /// Empties a database and checks that it is; gives the figures.
    pub(super) fn drain(&self, database: &TestDatabase, arguments: &[&str], events: u64) -> Result<Drained> {
        let figures = self.run(database, arguments)?;
        let left = self.server.sql(&database.name, "SELECT count(*) FROM outbox");
        if left != "0" || figures["events"].as_u64() != Some(events) {
            return Err(Failure::new(format!("{figures} of {events} events, {left} left")));
        }
        let rate = |name: &str| {
            let rate = figures[name].as_f64().filter(|rate| *rate > 0.0);
            rate.ok_or_else(|| Failure::new(format!("there is no {name} in {figures}")))
        };
        let drained = Drained {
            per_s: rate("per_s")?,
            first: rate("first_tenth_per_s")?,
            last: rate("last_tenth_per_s")?,
        };
        self.stage
            .note(&format!("{events} by {}: {:.0}/s", arguments[0], drained.per_s));
        Ok(drained)
    }

    fn command(&self, database: &TestDatabase, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--url", &database.url]).args(arguments);
        command
    }
}

/// Statements that make the days of the history from so many days back to so many, both included.
pub(super) fn days_of_history(youngest: u64, oldest: u64) -> String {
    format!(
        "DO $$ DECLARE part text; BEGIN FOR back IN {youngest}..{oldest} LOOP
             part := to_char((now() AT TIME ZONE 'UTC')::date - back, 'YYYYMMDD');
             EXECUTE format('CREATE TABLE outbox_sent_%s (LIKE outbox_sent)', part);
             EXECUTE format('ALTER TABLE outbox_sent ATTACH PARTITION outbox_sent_%s FOR VALUES FROM (%L) TO (%L)',
                 part, (part::date)::timestamp AT TIME ZONE 'UTC', (part::date + 1)::timestamp AT TIME ZONE 'UTC');
         END LOOP; END $$"
    )
}

/// Rates of one drain, in events a second.
pub(super) struct Drained {
    pub(super) per_s: f64,
    pub(super) first: f64,
    pub(super) last: f64,
}

/// The middle one: a hiccup of the machine in one run must not decide.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
