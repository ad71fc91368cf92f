//! `postrider demo`: the main job on one screen, with nothing installed.
//!
//! A service commits orders and events to one SQLite file, a relay carries the events over a broker in memory, and a
//! consumer with an inbox writes their effects to another file. At the end the two files are compared.

mod account;
mod board;
mod consumer;
mod screen;
mod service;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use postrider_core::Schema;
use postrider_memory::MemoryBroker;
use postrider_relay::Relay;
use postrider_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use self::account::Account;
use self::board::Board;
use self::screen::Screen;
use crate::args::DemoArgs;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::signal;

/// The name of the outbox in logs.
const OUTBOX: &str = "shop";
/// How long everything that was committed may take to arrive once the service has stopped.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages that the broker holds before it makes the relay wait: what keeps the demo's memory bounded.
const BROKER_CAPACITY: usize = 10_000;

/// The files of a run.
pub struct Files {
    pub service: PathBuf,
    pub consumer: PathBuf,
    folder: Option<TempDir>,
}

impl Files {
    fn new(dir: Option<&Path>) -> Result<Files, Failure> {
        let (folder, temp) = match dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)?;
                (dir.to_owned(), None)
            }
            None => {
                let temp = tempfile::Builder::new().prefix("postrider-demo-").tempdir()?;
                (temp.path().to_owned(), Some(temp))
            }
        };
        let files = Files {
            service: folder.join("service.db"),
            consumer: folder.join("consumer.db"),
            folder: temp,
        };
        match files.service.exists() || files.consumer.exists() {
            true => Err(
                Failure::input(format!("{} has the files of another run", folder.display()))
                    .advice("give an empty --dir"),
            ),
            false => Ok(files),
        }
    }

    /// Where the files are, for people.
    fn folder(&self) -> String {
        self.service
            .parent()
            .unwrap_or(Path::new("."))
            .display()
            .to_string()
    }

    /// Leaves the files of a run that went wrong for whoever wants to look.
    fn keep(&mut self) {
        if let Some(folder) = self.folder.take() {
            let _ = folder.keep();
        }
    }
}

pub async fn demo(out: Output, args: &DemoArgs) -> Result<Done, Failure> {
    let mut files = Files::new(args.dir.as_deref())?;
    let account = run(out, args, &files).await?;
    if !account.is_clean() {
        files.keep();
    }
    account.report(out, &files.folder())?;
    match account.is_clean() {
        true => Ok(Done::Fine),
        false => Ok(Done::Found),
    }
}

async fn run(out: Output, args: &DemoArgs, files: &Files) -> Result<Account, Failure> {
    let store = SqliteStore::open(&files.service, SqliteOptions::default())
        .map_err(|error| Failure::store(OUTBOX, &error))?;
    store.up().await.map_err(|error| Failure::store(OUTBOX, &error))?;
    let broker = MemoryBroker::queue(BROKER_CAPACITY);
    let relay = Relay::builder()
        .name(OUTBOX)
        .store(Arc::new(store))
        .sink(Arc::new(broker.clone()))
        .build()
        .map_err(|error| Failure::input("the relay cannot be put together").because(&error))?;
    let board = Arc::new(Board::default());

    let stop_relay = CancellationToken::new();
    let relaying = tokio::spawn({
        let (relay, stop) = (relay.clone(), stop_relay.clone());
        async move { relay.run(stop).await }
    });
    let consumer = consumer::Consumer::open(&files.consumer, broker.source(), board.clone())?;
    let consuming = consumer.start(stop_relay.clone());
    let stop_service = signal::stop_token();
    let service = service::Service::open(&files.service, board.clone(), relay.nudger())?;
    let serving = service.start(args.rate, stop_service.clone());

    let mut screen = Screen::new(out, files.folder(), board.clone());
    let began = Instant::now();
    while !stop_service.is_cancelled() && !serving.is_finished() {
        let left = args
            .duration
            .map_or(Duration::MAX, |all| all.saturating_sub(began.elapsed()));
        if left.is_zero() {
            stop_service.cancel();
            break;
        }
        let tick = tokio::time::sleep(screen.interval().min(left));
        if stop_service.run_until_cancelled(tick).await.is_some() {
            screen.draw("")?;
        }
    }
    stop_service.cancel();
    join(serving).await?;
    drain(&board, &mut screen).await?;
    stop_relay.cancel();
    // The relay reports its own trouble in the log; what it failed to do shows in the account.
    let _ = relaying.await;
    join(consuming).await?;
    Account::take(files, &board)
}

/// Waits until everything that was committed has taken effect, or it is clear that it never will.
async fn drain(board: &Board, screen: &mut Screen) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while board.behind() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
        screen.draw_if_due("draining")?;
    }
    screen.draw("drained")
}

async fn join(thread: thread::JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    let ended = tokio::task::spawn_blocking(move || thread.join()).await;
    match ended {
        Ok(Ok(result)) => result,
        _ => Err(Failure::backend(
            "a thread of the demo ended by a mistake of its own",
        )),
    }
}

/// Opens one of the files the way a service should: a commit is on the disk when it returns.
fn open(path: &Path) -> Result<rusqlite::Connection, Failure> {
    let failed =
        |error: rusqlite::Error| Failure::backend(format!("cannot use {}", path.display())).because(&error);
    let connection = rusqlite::Connection::open(path).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
    connection
        .pragma_update(None, "journal_mode", "wal")
        .map_err(failed)?;
    connection
        .pragma_update(None, "synchronous", "full")
        .map_err(failed)?;
    Ok(connection)
}
