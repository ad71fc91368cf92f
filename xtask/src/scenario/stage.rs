//! Where a scenario plays: a directory with the shop's database, the configuration, the lines and the logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use super::account::{Books, Report};
use super::effects;
use super::process::Process;
use super::shop;
use super::wait::until;
use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};

/// Where a scenario plays.
pub(super) struct Stage {
    binary: PathBuf,
    /// Whether to play at the size for `cargo xtask test`.
    pub(super) reduced: bool,
    directory: TempDir,
    began: Instant,
}

impl Stage {
    pub(super) fn new(binary: PathBuf, reduced: bool) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("postrider-scenario-").tempdir()?;
        Ok(Self {
            binary,
            reduced,
            directory,
            began: Instant::now(),
        })
    }

    /// One of two sizes.
    pub(super) fn size<T>(&self, full: T, reduced: T) -> T {
        if self.reduced { reduced } else { full }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Tells whoever waits.
    pub(super) fn note(&self, text: &str) {
        eprintln!("[{:6.1} s] {text}", self.began.elapsed().as_secs_f64());
    }

    /// A shop of its own in a directory below this one.
    pub(super) fn shop(&self, name: &str, relay: &str) -> Result<Shop<'_>> {
        Shop::open(self, self.path(name), relay)
    }

    /// The command `postrider` with this configuration and these arguments.
    pub(super) fn postrider(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(directory);
        command
    }

    /// This very program as the producer or consumer of a fast pair: optimised, so that the relay is what is measured.
    pub(super) fn helper(&self) -> Result<Command> {
        Ok(Command::new(release_binary("xtask")?))
    }

    /// The binary, for scenarios that need it elsewhere.
    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Copies what was committed and what arrived.
    pub(super) fn keep(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        for name in ["committed.jsonl", "arrived.jsonl"] {
            let (from, to) = (self.path(name), directory.join(name));
            // A scenario that broke off may have neither.
            if from.exists() {
                fs::copy(&from, &to).doing(|| format!("keeping {}", to.display()))?;
            }
        }
        Ok(())
    }

    /// Leaves everything where it is.
    pub(super) fn leave(self) -> PathBuf {
        self.directory.keep()
    }
}

/// A database with the business tables and an outbox, and the processes around it.
pub(super) struct Shop<'a> {
    stage: &'a Stage,
    directory: PathBuf,
}

impl<'a> Shop<'a> {
    fn open(stage: &'a Stage, directory: PathBuf, relay: &str) -> Result<Self> {
        fs::create_dir_all(&directory)?;
        let configuration = format!(
            "[outbox.shop]\nurl = \"sqlite:shop.db\"\n\n[broker.lines]\nurl = \"file:lines.jsonl\"\n\n\
             [[route]]\nto = [{{ broker = \"lines\" }}]\n\n[relay]\n{relay}\n"
        );
        fs::write(directory.join("postrider.toml"), configuration)?;
        let shop = Shop { stage, directory };
        shop.expect(&["migrate", "up"])?;
        shop::create(&shop.connection()?)?;
        Ok(shop)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn database(&self) -> PathBuf {
        self.directory.join("shop.db")
    }

    pub(super) fn lines(&self) -> PathBuf {
        self.directory.join("lines.jsonl")
    }

    /// How many bytes of lines there are.
    pub(super) fn lines_length(&self) -> u64 {
        fs::metadata(self.lines()).map_or(0, |found| found.len())
    }

    pub(super) fn connection(&self) -> Result<Connection> {
        shop::open(&self.database())
    }

    /// Runs a command of the binary that must succeed.
    pub(super) fn expect(&self, arguments: &[&str]) -> Result<()> {
        let output = self.stage.postrider(&self.directory, arguments).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "postrider {} ended with {}: {}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    /// Starts the relay, which may be told to end at a crash point.
    pub(super) fn relay(&self, arguments: &[&str], crash_at: Option<(&str, u64)>) -> Result<Process> {
        let mut command = self.stage.postrider(&self.directory, &["run"]);
        command.args(arguments);
        if let Some((point, n)) = crash_at {
            command.env("POSTRIDER_CRASH_AT", format!("{point}:{n}"));
        }
        Process::start("the relay", command, &self.directory.join("relay.log"))
    }

    /// Starts the consumer, which reads the lines from the first on.
    pub(super) fn consumer(&self) -> Result<Process> {
        let mut command = ourselves();
        command.arg("consumer").arg("--lines").arg(self.lines());
        command.arg("--directory").arg(&self.directory);
        Process::start("the consumer", command, &self.directory.join("consumer.log"))
    }

    /// Starts a process that takes orders.
    pub(super) fn producer(&self, args: &super::ProducerArgs) -> Result<Process> {
        let mut command = ourselves();
        command.arg("producer").arg("--database").arg(&args.database);
        if let Some(orders) = args.orders {
            command.args(["--orders", &orders.to_string()]);
        }
        command.args([
            "--customers",
            &args.customers.to_string(),
            "--rate",
            &args.rate.to_string(),
        ]);
        command.args(["--rollback-every", &args.rollback_every.to_string()]);
        Process::start("the producer", command, &self.directory.join("producer.log"))
    }

    /// Waits until nothing is queued or parked and the consumer has dealt with every order.
    pub(super) fn settled(&self, deadline: Duration) -> Result<()> {
        let connection = self.connection()?;
        let orders = shop::number(&connection, "SELECT count(*) FROM orders")?;
        let mut seen = (0, 0, 0);
        let settled = until("everything has been published and taken effect", deadline, || {
            let (queued, parked) = shop::waiting(&connection)?;
            seen = (queued, parked, effects::effect_count(&self.directory)?);
            Ok((queued + parked == 0 && seen.2 >= orders).then_some(()))
        });
        let (queued, parked, effects) = seen;
        settled.doing(|| format!("{queued} queued, {parked} parked, {effects} of {orders} effects"))
    }

    /// Compares the business tables with what arrived, and leaves both lists where `--keep` looks for them.
    pub(super) fn account(&self) -> Result<Report> {
        let (service, consumer) = (self.connection()?, effects::database(&self.directory)?);
        let books = Books {
            service: (&service, "SELECT id, customer, n FROM orders ORDER BY rowid"),
            consumer: (&consumer, "SELECT id FROM effects"),
        };
        let report = books.settle(&self.directory)?;
        for name in ["committed.jsonl", "arrived.jsonl"] {
            fs::copy(self.directory.join(name), self.stage.path(name))?;
        }
        Ok(report)
    }
}

/// This very program, also when cargo has replaced the file it was started from.
fn ourselves() -> Command {
    let running = Path::new("/proc/self/exe");
    match running.exists() {
        true => Command::new(running),
        false => Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into())),
    }
}
