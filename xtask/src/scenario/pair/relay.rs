//! The relays of the pair.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq::{PASSWORD, USER};
use serde_json::Value;

use super::Pair;
use crate::failure::{Failure, Result};
use crate::scenario::process::Process;
use crate::scenario::wait::until;

/// How long a relay may take to stop: its own deadline for the drain, and some more.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// `postrider run`, with a log of its own.
pub(in crate::scenario) struct Relay {
    process: Process,
    log: PathBuf,
    /// How long the log was before.
    begins: usize,
}

/// How a relay reaches the servers, where that is not the plain way.
#[derive(Default)]
pub(in crate::scenario) struct Way<'a> {
    /// It reaches RabbitMQ through this.
    pub(in crate::scenario) proxy: Option<&'a Proxy>,
    /// It is this user in PostgreSQL, so that triggers know who writes; made when it does not exist.
    pub(in crate::scenario) user: Option<&'a str>,
}

impl Pair<'_> {
    /// Starts a relay; its log is appended to NAME.log.
    pub(in crate::scenario) fn relay(&self, name: &str) -> Result<Relay> {
        self.relay_by(name, &Way::default())
    }

    /// Starts a relay that reaches the servers in its own way.
    pub(in crate::scenario) fn relay_by(&self, name: &str, way: &Way<'_>) -> Result<Relay> {
        let mut command = self.stage.postrider(self.directory(), &["run"]);
        if let Some(proxy) = way.proxy {
            let login = format!("{USER}:{PASSWORD}");
            let url = self.rabbit().url_by(&login, proxy.port(), &self.vhost);
            command.env("POSTRIDER__BROKER__RABBIT__URL", url);
        }
        if let Some(user) = way.user {
            self.add_user(user)?;
            let url = self.database().url().replace("postgres@", &format!("{user}@"));
            command.env("POSTRIDER__OUTBOX__SHOP__URL", url);
        }
        let log = self.directory().join(format!("{name}.log"));
        let begins = fs::read(&log).map_or(0, |text| text.len());
        let process = Process::start(name, command, &log)?;
        Ok(Relay { process, log, begins })
    }

    /// A proxy in front of RabbitMQ.
    pub(in crate::scenario) fn proxy(&self) -> Result<Proxy> {
        Ok(self.runtime.block_on(Proxy::start(self.rabbit().port()))?)
    }

    fn add_user(&self, user: &str) -> Result<()> {
        self.database().execute(&format!(
            "DO $$ BEGIN CREATE ROLE {user} LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        ))
    }
}

impl Relay {
    /// Its id, by which the database knows it: what it said when it started.
    pub(in crate::scenario) fn id(&self) -> Result<String> {
        until("the relay has said who it is", Duration::from_secs(20), || {
            let lines = self.lines()?;
            let mut started = lines.iter().filter(|line| line["message"] == "relay started");
            Ok(started.find_map(|line| line["relay"].as_str().map(str::to_owned)))
        })
    }

    /// How often it has said something.
    pub(in crate::scenario) fn said(&self, message: &str) -> Result<usize> {
        let lines = self.lines()?;
        Ok(lines.iter().filter(|line| line["message"] == message).count())
    }

    /// Whether it has reached its broker, and has not lost it since. A new connection after a loss is not enough: the
    /// first event on it goes alone, and the others follow its confirm.
    pub(in crate::scenario) fn is_connected(&self) -> Result<bool> {
        let lines = self.lines()?;
        let said: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
        let circuit = said.iter().rfind(|said| said.starts_with("circuit "));
        Ok(said.contains(&"connected to RabbitMQ") && circuit != Some(&"circuit open"))
    }

    /// Its log since it was started.
    fn lines(&self) -> Result<Vec<Value>> {
        let text = fs::read(&self.log)?;
        let text = String::from_utf8_lossy(&text[self.begins..]);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(lines.collect())
    }

    /// Ends it as a power cut would.
    pub(in crate::scenario) fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// Asks it to stop (SIGTERM) and expects exit code 0.
    pub(in crate::scenario) fn terminate(self) -> Result<()> {
        self.process.terminate(STOP_LIMIT)
    }

    pub(in crate::scenario) fn freeze(&mut self) -> Result<()> {
        self.process.freeze()
    }

    pub(in crate::scenario) fn thaw(&mut self) -> Result<()> {
        self.process.thaw()
    }

    /// Fails if it has ended by itself.
    pub(in crate::scenario) fn expect_alive(&mut self) -> Result<()> {
        match self.process.ended()? {
            None => Ok(()),
            Some(status) => Err(Failure::new(format!("{} ended: {status}", self.log.display()))),
        }
    }

    pub(in crate::scenario) fn peak_rss_mib(&self) -> Option<u64> {
        self.process.peak_rss_mib()
    }
}
