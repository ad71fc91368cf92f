//! An outbox of either store whose events go to a file, worked with by commands alone: what operators do is the same
//! whichever database it is.

mod placed;
mod queues;
mod statements;

pub(in crate::scenario) use statements::Written;

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use postrider_testkit::ledger::{Arrived, Committed};
use postrider_testkit::servers::Postgres;
use serde::Deserialize;
use serde_json::Value;

pub(super) use placed::Placed;
pub(super) use queues::Queues;

use super::follow::Follow;
use super::pg_measure::SETTINGS;
use super::process::Process;
use super::stage::Stage;
use super::wait::until_every;
use super::watch::Watch;
use crate::failure::{Doing, Failure, Result};

/// The stores that are operated.
pub(super) const STORES: [&str; 2] = ["sqlite", "postgres"];

/// A route that everything takes, and one that nothing does: what has no route is dead at once.
pub(super) const EVERYTHING: &str = "";
pub(super) const NOTHING: &str = "when = { aggregate_type = \"NOBODY\" }";

/// Events of one transaction when many are sent.
const SEND: usize = 10_000;
/// A look starts a process: seldom enough not to be felt.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An outbox and the directory that everything about it is in.
pub(super) struct Operated<'a> {
    stage: &'a Stage,
    store: &'static str,
    directory: PathBuf,
    url: String,
    /// Where events go instead of the file.
    queues: Option<Queues>,
    /// PostgreSQL, which ends with the scenario; none for SQLite.
    server: Option<Postgres>,
}

/// An arrival, as the file has it.
#[derive(Deserialize)]
pub(super) struct Line {
    event_id: String,
    key: String,
    headers: BTreeMap<String, String>,
}

impl Line {
    /// Whether it says that it may have been sent before.
    pub(super) fn is_marked(&self) -> bool {
        self.headers.contains_key("postrider-maybe-duplicate")
    }

    pub(super) fn id(&self) -> &str {
        &self.event_id
    }

    pub(super) fn arrived(&self) -> Arrived {
        Arrived::new(&self.event_id, &self.key, "lines")
    }
}

impl<'a> Operated<'a> {
    /// Makes the tables in a directory of their own; nothing has a route yet.
    pub(super) fn open(stage: &'a Stage, store: &'static str, name: &str) -> Result<Self> {
        Self::make(stage, store, name, None)
    }

    /// The same with a route for everything: SQLite has the file, and PostgreSQL RabbitMQ, with a queue for events of
    /// each of these types of aggregates.
    pub(super) fn open_routed(
        stage: &'a Stage,
        store: &'static str,
        name: &str,
        types: &[&'static str],
    ) -> Result<Self> {
        let queues = match store {
            "postgres" => Some(Queues::of(types)?),
            _ => None,
        };
        Self::open_with(stage, store, name, queues)
    }

    /// The same with these queues, whichever the store is.
    pub(super) fn open_queues(
        stage: &'a Stage,
        store: &'static str,
        name: &str,
        queues: Queues,
    ) -> Result<Self> {
        Self::open_with(stage, store, name, Some(queues))
    }

    fn open_with(stage: &'a Stage, store: &'static str, name: &str, queues: Option<Queues>) -> Result<Self> {
        let operated = Self::make(stage, store, name, queues)?;
        operated.route(EVERYTHING)?;
        Ok(operated)
    }

    fn make(stage: &'a Stage, store: &'static str, name: &str, queues: Option<Queues>) -> Result<Self> {
        let directory = stage.path(name);
        fs::create_dir_all(&directory)?;
        let (url, server) = match store {
            "postgres" => {
                let server = Postgres::start_with(&SETTINGS).doing(|| "starting PostgreSQL".to_owned())?;
                server.sql("postgres", "CREATE DATABASE shop");
                (server.url("shop"), Some(server))
            }
            _ => ("sqlite:shop.db".to_owned(), None),
        };
        let operated = Self {
            stage,
            store,
            directory,
            url,
            queues,
            server,
        };
        operated.route(NOTHING)?;
        operated.ends(&["migrate", "up"], 0)?;
        Ok(operated)
    }

    /// Says what takes the route, for relays that are started from now on.
    pub(super) fn route(&self, when: &str) -> Result<()> {
        self.configure(when, "", "")
    }

    /// Lets everything take the route, with something more about where it goes.
    pub(super) fn route_to(&self, more: &str) -> Result<()> {
        self.configure(EVERYTHING, &format!(", {more}"), "")
    }

    /// Lets everything take the route, with something more beside it.
    pub(super) fn route_beside(&self, more: &str) -> Result<()> {
        self.configure(EVERYTHING, "", more)
    }

    fn configure(&self, when: &str, of_route: &str, beside: &str) -> Result<()> {
        let (url, (broker, to)) = (&self.url, self.destination());
        let text = format!(
            "[outbox.shop]\nurl = \"{url}\"\n\n{broker}\n\n[[route]]\n{when}\nto = [{{ {to}{of_route} }}]\n\n\
             [relay]\nlease = \"3s\"\n\n{beside}\n"
        );
        Ok(fs::write(self.directory.join("postrider.toml"), text)?)
    }

    /// The broker, and how a route names it.
    fn destination(&self) -> (String, &'static str) {
        match &self.queues {
            Some(queues) => (queues.broker(), Queues::ROUTE),
            None => {
                let broker = "[broker.lines]\nurl = \"file:lines.jsonl\"";
                (broker.to_owned(), "broker = \"lines\"")
            }
        }
    }

    /// Gives the queues other bindings, for relays that are started from now on.
    pub(super) fn rebind(&mut self, bindings: Vec<(&'static str, &'static str)>) -> Result<()> {
        if let Some(queues) = &mut self.queues {
            queues.rebind(bindings);
        }
        self.route(EVERYTHING)
    }

    /// Watches what arrives of a type of aggregates.
    pub(super) fn watch(&self, aggregate_type: &str) -> Watch {
        match &self.queues {
            Some(queues) => Watch::queue(queues.url.clone(), aggregate_type.to_owned()),
            None => Watch::file(
                self.directory.join("lines.jsonl"),
                format!("\"aggregate-type\":\"{aggregate_type}\""),
            ),
        }
    }

    /// Events of so many keys in turn, at these places.
    pub(super) fn orders(&self, places: Range<u64>, keys: u64) -> Vec<Placed> {
        let placed = |n: u64| {
            let id = format!("{}-{n:07}", self.store);
            Placed::order(id, format!("{}-{}", self.store, n % keys), n / keys + 1)
        };
        places.map(placed).collect()
    }

    /// Sends events, in their order; gives what was committed.
    pub(super) fn send(&self, events: &[Placed]) -> Result<Vec<Committed>> {
        for some in events.chunks(SEND) {
            let lines: String = some.iter().map(Placed::line).collect();
            let file = self.directory.join("send.jsonl");
            fs::write(&file, lines)?;
            let mut command = self.stage.postrider(&self.directory, &["send", "--lines"]);
            let output = command.stdin(File::open(&file)?).output()?;
            check("send --lines", &output, 0)?;
        }
        Ok(events.iter().map(Placed::committed).collect())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The database, for programs that are started elsewhere.
    pub(super) fn url(&self) -> String {
        match &self.server {
            Some(_) => self.url.clone(),
            None => format!("sqlite:{}", self.directory.join("shop.db").display()),
        }
    }

    pub(super) fn store(&self) -> &'static str {
        self.store
    }

    /// Runs a command to its end.
    pub(super) fn output(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.stage.postrider(&self.directory, arguments);
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// Runs a command that must end with this code, and gives what it printed.
    pub(super) fn ends(&self, arguments: &[&str], code: i32) -> Result<String> {
        let output = self.output(arguments)?;
        check(&arguments.join(" "), &output, code)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The JSON lines that a command prints.
    pub(super) fn values(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let text = self.ends(&[arguments, &["--json"]].concat(), 0)?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Starts a command that goes on beside the scenario.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Process> {
        let command = self.stage.postrider(&self.directory, arguments);
        let name = arguments[0];
        Process::start(name, command, &self.directory.join(format!("{name}.log")))
    }

    /// Waits until the newest job has done so many rows, or is over; gives it as it was then.
    pub(super) fn job(&self, rows: u64, deadline: Duration) -> Result<Value> {
        until_every(
            LOOK_EVERY,
            &format!("a job has done {rows} rows"),
            deadline,
            || {
                let newest = self.values(&["job", "list", "-n", "1"])?.pop();
                let is_far = |job: &Value| job["state"] == "done" || job["touched"].as_u64() >= Some(rows);
                Ok(newest.filter(is_far))
            },
        )
    }

    /// Waits until the newest job has done some rows, and kills who drives it with -9; gives the job as it was left.
    /// The look is at the table itself, because a command would take longer than many a job.
    pub(super) fn kill_in_job(&self, mut driver: Process, rows: u64, deadline: Duration) -> Result<Value> {
        let touched = "SELECT coalesce((SELECT touched FROM outbox_job ORDER BY begun_at DESC LIMIT 1), 0)";
        until_every(
            Duration::from_millis(1),
            "the job has begun its work",
            deadline,
            || {
                let is_over = driver.ended()?.is_some();
                Ok((is_over || self.number(touched)? >= rows).then_some(()))
            },
        )?;
        driver.kill()?;
        self.job(0, deadline)
    }

    /// Waits until nothing is queued any more.
    pub(super) fn emptied(&self, deadline: Duration) -> Result<()> {
        self.nothing_is(&["queued"], deadline)
    }

    /// Waits until nothing is queued or parked any more.
    pub(super) fn drained(&self, deadline: Duration) -> Result<()> {
        self.nothing_is(&["queued", "retrying", "waiting", "held", "dead"], deadline)
    }

    fn nothing_is(&self, states: &[&str], deadline: Duration) -> Result<()> {
        let what = format!("nothing is {}", states.join(", "));
        until_every(LOOK_EVERY, &what, deadline, || {
            let status = self.values(&["status"])?.pop().unwrap_or_default();
            let left: u64 = states.iter().filter_map(|name| status[name].as_u64()).sum();
            Ok((left == 0).then_some(()))
        })
    }

    /// Everything that arrived so far, in its order.
    pub(super) fn lines(&self) -> Result<Vec<Line>> {
        let text = fs::read_to_string(self.directory.join("lines.jsonl"))?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// How many events have arrived, however often each. A line that a kill cut off counts for nothing.
    pub(super) fn arrived(&self) -> Result<u64> {
        let text = fs::read_to_string(self.directory.join("lines.jsonl"))?;
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let ids: HashSet<String> = lines.map(|line| line.event_id).collect();
        Ok(ids.len() as u64)
    }

    /// Follows what arrives, as far as a text is in its line.
    pub(super) fn follow<'t>(&self, text: &'t str) -> Follow<'t> {
        Follow::new(self.directory.join("lines.jsonl"), text)
    }
}

fn check(what: &str, output: &Output, code: i32) -> Result<()> {
    match output.status.code() == Some(code) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "postrider {what} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
