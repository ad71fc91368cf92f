//! `cargo xtask services`: a private PostgreSQL and a private RabbitMQ for working by hand.
//!
//! A process of its own keeps both, and they end with it, so there is one process to know and to stop. What it is, and
//! where the servers are, stands in a file beside their data, in the user's cache folder.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::servers::Postgres;
use postrider_testkit::servers::rabbitmq::{PASSWORD, RabbitMq, USER};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::failure::{Doing, Failure, Result};

/// RabbitMQ takes 20 s on a loaded machine.
const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The hidden command that keeps the servers.
const KEEPER: &str = "services-keeper";

/// `cargo xtask services`
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Start them, unless they run, and say where they are
    Up,
    /// Stop them and remove their data
    Down,
    /// Say what runs; exit code 1 if nothing does
    Status,
}

/// What runs, as it is written down.
#[derive(Debug, Deserialize, Serialize)]
struct Running {
    pid: i32,
    /// When the keeper was started, in the kernel's count: an id that was given to another process has another.
    started: u64,
    postgres: String,
    rabbitmq: String,
    management: String,
}

/// Does it; false when nothing runs and that was the question.
pub(crate) fn run(action: Action) -> Result<bool> {
    let folder = folder()?;
    // Of two at once one starts them, and the other finds them running.
    let turn = fs::File::create(folder.join("turn.lock")).doing(|| "taking turns".to_owned())?;
    turn.lock().doing(|| "taking turns".to_owned())?;
    match (action, running(&folder)?) {
        (Action::Up, Some(running)) | (Action::Status, Some(running)) => running.say(),
        (Action::Up, None) => start(&folder)?.say(),
        (Action::Status, None) => {
            println!("nothing runs; start it with: cargo xtask services up");
            return Ok(false);
        }
        (Action::Down, Some(running)) => stop(&folder, &running)?,
        (Action::Down, None) => println!("nothing runs"),
    }
    Ok(true)
}

/// Starts the servers and keeps them until it is told to end. Everything of theirs is removed when this process ends.
pub(crate) fn keep() -> Result<bool> {
    let folder = folder()?;
    let postgres = Postgres::shared();
    let rabbit = RabbitMq::start_for_people().doing(|| "starting RabbitMQ".to_owned())?;
    let database = postgres.database();
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let running = Running {
        pid,
        started: started(pid).ok_or_else(|| Failure::new("this process is not in /proc"))?,
        postgres: database.url,
        rabbitmq: rabbit.url("/"),
        management: rabbit.management_url(),
    };
    // Whole or not at all: somebody waits for it.
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(&serde_json::to_vec(&running)?)?;
    file.persist(state_file(&folder))?;
    loop {
        std::thread::park();
    }
}

/// The user's cache folder. The servers of root run as users who may not enter root's home, so theirs is the system's.
fn folder() -> Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => Some(PathBuf::from(cache)),
        None if rustix::process::geteuid().is_root() => Some(PathBuf::from("/var/cache")),
        None => std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")),
    };
    let cache = cache.ok_or_else(|| {
        Failure::new("neither XDG_CACHE_HOME nor HOME is set: there is no place for the data of the servers")
    })?;
    let folder = cache.join("postrider").join("services");
    fs::create_dir_all(&folder).doing(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

fn state_file(folder: &Path) -> PathBuf {
    folder.join("running.json")
}

/// What runs. A file whose process is gone is no more than a trace of a crash.
fn running(folder: &Path) -> Result<Option<Running>> {
    let file = state_file(folder);
    let Ok(text) = fs::read(&file) else {
        return Ok(None);
    };
    let running: Running = serde_json::from_slice(&text)
        .doing(|| format!("{} cannot be read; remove it if nothing runs", file.display()))?;
    Ok(running.is_alive().then_some(running))
}

impl Running {
    fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    fn say(&self) {
        let Running {
            pid,
            postgres,
            rabbitmq,
            management,
            ..
        } = self;
        println!("PostgreSQL   {postgres}");
        println!("RabbitMQ     {rabbitmq}");
        println!("management   {management} (user {USER}, password {PASSWORD})");
        println!("kept by process {pid}; stop them with: cargo xtask services down");
        println!("\n# postrider.toml\n{}", configuration(postgres, rabbitmq));
    }
}

/// A configuration that runs as it is.
fn configuration(postgres: &str, rabbitmq: &str) -> String {
    format!(
        "[outbox.orders]\nurl = \"{postgres}\"\n\n\
         [broker.rabbit]\nurl = \"{rabbitmq}\"\n\n\
         [broker.rabbit.rabbitmq]\ndeclare = true\npreset = \"notifications\"\n\n\
         [[route]]\n\
         to = [{{ broker = \"rabbit\", exchange = \"notifications.exchange\", \
         routing_key = \"notification.{{aggregate_type|lower}}\" }}]\n"
    )
}

fn start(folder: &Path) -> Result<Running> {
    println!("starting PostgreSQL and RabbitMQ …");
    let log_path = folder.join("log");
    let log = fs::File::create(&log_path)?;
    let mut keeper = Command::new(std::env::current_exe()?);
    keeper
        .arg(KEEPER)
        // The servers keep their data where they are told to keep what is temporary.
        .env("TMPDIR", folder)
        // They are to be private, whatever the tests use.
        .env_remove("POSTRIDER_TEST_POSTGRES_URL")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Whoever interrupts this command must not interrupt them.
        .process_group(0);
    let mut keeper = keeper.spawn().doing(|| "starting the keeper".to_owned())?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(running) = running(folder)? {
            return Ok(running);
        }
        let ended = keeper.try_wait()?;
        if ended.is_some() || Instant::now() > deadline {
            let _ = keeper.kill();
            let said = fs::read_to_string(&log_path).unwrap_or_default();
            return Err(Failure::new(format!("they did not start: {}", said.trim_end())));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stop(folder: &Path, running: &Running) -> Result<()> {
    let pid = Pid::from_raw(running.pid).ok_or_else(|| Failure::new("that is no process"))?;
    kill_process(pid, Signal::TERM).doing(|| format!("stopping process {}", running.pid))?;
    let deadline = Instant::now() + STOP_LIMIT;
    // The process first, then what it kept: that removes its folders when it has ended.
    while running.is_alive() && test_kill_process(pid).is_ok() || !is_cleared(folder)? {
        if Instant::now() > deadline {
            let folder = folder.display();
            return Err(Failure::new(format!(
                "they did not end within {STOP_LIMIT:?}; look into {folder}"
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_file(state_file(folder))?;
    println!("stopped");
    Ok(())
}

/// Whether the folders of both servers are gone, which is the last thing that happens to them. Servers that run as
/// another user empty theirs and may not remove it.
fn is_cleared(folder: &Path) -> Result<bool> {
    let mut cleared = true;
    for entry in fs::read_dir(folder)?.filter_map(std::result::Result::ok) {
        let path = entry.path();
        cleared &= !path.is_dir() || fs::remove_dir(&path).is_ok();
    }
    Ok(cleared)
}

/// When a process was started, in ticks since the machine was; none when there is no such process, or only its remains.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_one_that_had_its_id_before() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut ours = Running {
            pid,
            started: started(pid).unwrap(),
            postgres: String::new(),
            rabbitmq: String::new(),
            management: String::new(),
        };
        assert!(ours.is_alive());
        ours.started += 1;
        assert!(!ours.is_alive());
        assert_eq!(started(i32::MAX), None);
    }

    #[test]
    fn the_file_of_a_process_that_is_gone_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(running(folder.path()).unwrap().is_none());
        let gone = r#"{"pid":2147483647,"started":1,"postgres":"","rabbitmq":"","management":""}"#;
        fs::write(state_file(folder.path()), gone).unwrap();
        assert!(running(folder.path()).unwrap().is_none());
        fs::write(state_file(folder.path()), "{").unwrap();
        assert!(running(folder.path()).is_err());
    }
}
