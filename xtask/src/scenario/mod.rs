//! End-to-end proofs: a service, the real `postrider` process and a consumer, with something going wrong in between.
//!
//! Every scenario takes orders in a business table, lets the release binary publish them, reads what arrived in another
//! process, and compares the two. `cargo xtask scenario --list` names them all; `--keep DIR` leaves what was committed
//! and what arrived, so that anyone can count again.

mod account;
mod archive_restore;
mod bad_events;
mod bad_input;
mod broker_outage;
mod cleanup_under_load;
mod console_speed;
mod consumer;
mod crash_points_sqlite;
mod database_outage;
mod dead_destination;
mod demo;
mod drain_rabbitmq;
mod effects;
mod embedded_three;
mod fan_out;
mod follow;
mod four_queues;
mod graceful_stop;
mod idle_and_latency;
mod inbox_overhead;
mod kill_relays;
mod late_commits;
mod level_one;
mod list;
mod listener_poison;
mod listeners;
mod lost_address;
mod memory_million;
mod monitoring_sql;
mod notify;
mod once;
mod operated;
mod outcome;
mod pair;
mod pair_steady;
mod percentiles;
mod pg_drain_null;
mod pg_growth;
mod pg_held_transaction;
mod pg_measure;
mod pg_producers;
mod poison_key;
mod process;
mod producer;
mod redrive_crash;
mod replay_order;
mod schedule_priority;
mod shop;
mod sqlite_million;
mod sqlite_two_processes;
mod stage;
mod unroutable_exact;
mod wait;
mod watch;
mod zombie_relay;

use std::path::PathBuf;

use crate::cargo::release_binary;
use crate::failure::{Failure, Result};
use crate::tools;

pub(crate) use consumer::{Args as ConsumerArgs, run as consume};
use list::{MEASURED, SCENARIOS, Scenario};
use outcome::Outcome;
pub(crate) use pair::{
    ConsumerArgs as PairConsumerArgs, EmbeddedArgs as PairEmbeddedArgs, ProducerArgs as PairProducerArgs,
    consume as pair_consume, embed as pair_embed, produce as pair_produce,
};
pub(crate) use producer::{Args as ProducerArgs, run as produce};
use stage::Stage;

/// `cargo xtask scenario`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which one
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Name them all
    #[arg(long)]
    list: bool,
    /// Print nothing but the JSON line on standard output
    #[arg(long)]
    json: bool,
    /// Leave committed.jsonl and arrived.jsonl in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The size that `cargo xtask test` runs
    #[arg(long)]
    reduced: bool,
}

/// Runs one scenario or lists them; false if it is not ok.
pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.list {
        for scenario in SCENARIOS {
            println!("{:<22} {}", scenario.name, scenario.what);
        }
        return Ok(true);
    }
    let scenario = find(args.name.as_deref().unwrap_or_default())?;
    if !args.json {
        println!("{}: {}", scenario.name, scenario.what);
    }
    let outcome = play(scenario, args.reduced, args.keep.as_deref());
    // Whoever reads the last line gets one in any case.
    let outcome = outcome.unwrap_or_else(|failure| Outcome::broken(&failure));
    for problem in outcome.problems() {
        eprintln!("problem: {problem}");
    }
    println!("{}", outcome.json(scenario.name));
    Ok(outcome.is_ok())
}

pub(crate) fn tested() -> impl Iterator<Item = &'static str> {
    names().filter(|name| !MEASURED.contains(name))
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name)
}

/// How often a scenario is played at the reduced size while nothing but a rate or a time is out of its bound. Over the
/// few seconds that it takes, a busy machine alone can do that; a fault of ours does it every time.
const PLAYS: usize = 3;

/// Runs one scenario at the reduced size, for `cargo xtask test`.
pub(crate) fn reduced(name: &str) -> Result<String> {
    let scenario = find(name)?;
    let mut outcome = play(scenario, true, None)?;
    for _ in 1..PLAYS {
        if !outcome.is_only_slow() {
            break;
        }
        println!("again   scenario {name}: {}", outcome.json(scenario.name));
        outcome = play(scenario, true, None)?;
    }
    let line = outcome.json(scenario.name);
    match outcome.problems().next() {
        None => Ok(line),
        Some(problem) => Err(Failure::new(format!("{problem}; {line}"))),
    }
}

fn find(name: &str) -> Result<&'static Scenario> {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = names().collect();
            Failure::new(format!(
                "there is no scenario {name:?}; there are: {}",
                known.join(", ")
            ))
        })
}

fn play(scenario: &Scenario, reduced: bool, keep: Option<&std::path::Path>) -> Result<Outcome> {
    tools::ensure_servers()?;
    let binary = release_binary("postrider")?;
    let stage = Stage::new(binary, reduced)?;
    if !reduced {
        // A build just before leaves gigabytes to be written, and every commit of a database waits behind them.
        rustix::fs::sync();
    }
    let outcome = (scenario.play)(&stage);
    if let Some(keep) = keep {
        stage.keep(keep)?;
    }
    if !outcome.as_ref().is_ok_and(Outcome::is_ok) {
        // What happened is in the logs and databases: they are worth more than a clean temporary directory.
        eprintln!("the files are left in {}", stage.leave().display());
    }
    outcome
}
