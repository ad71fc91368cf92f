//! Load and comparisons: each command does one thing to an outbox or a queue that exists and prints one JSON line
//! about it.
//!
//! It is built in release mode and run as a process of its own by the scenarios of `cargo xtask scenario`, which start
//! the servers and judge the figures.

mod bare;
mod console;
mod copies;
mod drain;
mod insert;
mod insert_sqlite;
mod listen;
mod null;
mod rabbitmq;
mod rates;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use postrider_core::Console;
use postrider_postgres::{PgOptions, PgStore};
use postrider_sqlite::{SqliteOptions, SqliteStore};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Args {
    /// The database, `postgres://…` or `sqlite:FILE`
    #[arg(long, global = true, default_value = "")]
    url: String,
    /// Keep the history and look for duplicates in it, as the defaults do
    #[arg(long, global = true)]
    history: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Makes the tables
    Migrate,
    /// Empties the outbox through a relay into a sink that discards
    Drain,
    /// Empties the outbox by the same statements in one loop, without an engine
    Bare,
    /// Relays into a sink that discards until standard input ends
    Relay,
    /// Asks what people ask, and times it
    Console(console::Args),
    /// Inserts one event a transaction from many connections
    Insert(insert::Args),
    /// Waits until a queue of RabbitMQ is filled
    WatchQueue(rabbitmq::Queue),
    /// Takes what is in a queue of RabbitMQ and publishes it again, without an engine
    PublishAgain(rabbitmq::Again),
    /// Fills a queue of RabbitMQ with events, some of them several times
    Copies(copies::Args),
    /// Listens to a queue of RabbitMQ until standard input ends: one row for each event
    Listen(listen::Args),
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{}", postrider_core::causes(&*failure));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<serde_json::Value, Failure> {
    let store = || {
        let mut options = PgOptions::default();
        if !args.history {
            options.history = None;
        }
        PgStore::lazy(&args.url, options)
    };
    let file = args.url.strip_prefix("sqlite:").map(Path::new);
    match args.command {
        Command::Migrate => {
            postrider_core::Schema::up(&store()?).await?;
            Ok(serde_json::json!({}))
        }
        Command::Drain => drain::until_empty(store()?).await,
        Command::Bare => bare::drain(&store()?).await,
        Command::Relay => drain::until_told(store()?).await,
        Command::Console(how) => {
            let console: Arc<dyn Console> = match file {
                Some(file) => Arc::new(SqliteStore::open(file, SqliteOptions::default())?),
                None => Arc::new(store()?),
            };
            console::ask(&*console, how).await
        }
        Command::Insert(how) => match file {
            Some(file) => insert_sqlite::run(file, &how),
            None => insert::run(&args.url, how).await,
        },
        Command::WatchQueue(queue) => rabbitmq::watch(queue).await,
        Command::PublishAgain(again) => rabbitmq::publish_again(again).await,
        Command::Copies(copies) => copies::publish(copies).await,
        Command::Listen(listen) => listen::until_told(&args.url, listen).await,
    }
}
