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

pub(crate) use consumer::{Args as ConsumerArgs, run as consume};
use outcome::Outcome;
pub(crate) use pair::{
    ConsumerArgs as PairConsumerArgs, EmbeddedArgs as PairEmbeddedArgs, ProducerArgs as PairProducerArgs,
    consume as pair_consume, embed as pair_embed, produce as pair_produce,
};
pub(crate) use producer::{Args as ProducerArgs, run as produce};
use stage::Stage;

/// One proof.
struct Scenario {
    name: &'static str,
    what: &'static str,
    play: fn(&Stage) -> Result<Outcome>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "demo",
        what: "the demo: 2,000 orders in 10 s, nothing lost, invented, reordered or done twice",
        play: demo::play,
    },
    Scenario {
        name: "bad-input",
        what: "every kind of bad input gets a clear error and loses nothing",
        play: bad_input::play,
    },
    Scenario {
        name: "crash-points-sqlite",
        what: "the relay ends at every named crash point, again and again, while orders go on",
        play: crash_points_sqlite::play,
    },
    Scenario {
        name: "sqlite-two-processes",
        what: "a producing and a relaying process on one file, the relay killed five times",
        play: sqlite_two_processes::play,
    },
    Scenario {
        name: "sqlite-million",
        what: "a million queued rows are drained in bounded memory, none slower than the first",
        play: sqlite_million::play,
    },
    Scenario {
        name: "drain-null",
        what: "PostgreSQL into nothing: the relay against its own statements in a bare loop",
        play: pg_drain_null::play,
    },
    Scenario {
        name: "held-transaction",
        what: "an unrelated transaction stays open while a million events pass",
        play: pg_held_transaction::play,
    },
    Scenario {
        name: "backlog-growth",
        what: "an event costs no more behind a million others than behind ten thousand",
        play: pg_growth::backlog,
    },
    Scenario {
        name: "history-growth",
        what: "an event costs no more beside five million published ones than beside none",
        play: pg_growth::history,
    },
    Scenario {
        name: "cleanup-under-load",
        what: "a million old rows are removed while services insert and a relay publishes",
        play: cleanup_under_load::play,
    },
    Scenario {
        name: "console-speed",
        what: "every list and count answers at once beside five million published and 100,000 parked",
        play: console_speed::play,
    },
    Scenario {
        name: "producers-beside-relay",
        what: "64 producers keep their rate beside a relay that is rung",
        play: pg_producers::play,
    },
    Scenario {
        name: "pair-steady",
        what: "PostgreSQL to RabbitMQ with two relays and nothing going wrong",
        play: pair_steady::play,
    },
    Scenario {
        name: "kill-relays",
        what: "two relays under load, one killed three times with events in flight, RabbitMQ killed once",
        play: kill_relays::play,
    },
    Scenario {
        name: "embedded-three",
        what: "three relays in one process share store, sink and token and drain 100,000 events",
        play: embedded_three::play,
    },
    Scenario {
        name: "broker-outage",
        what: "RabbitMQ is away for 30 s: nothing is parked, charged or reordered",
        play: broker_outage::play,
    },
    Scenario {
        name: "database-outage",
        what: "PostgreSQL is away for 30 s under load: everyone finds back",
        play: database_outage::play,
    },
    Scenario {
        name: "lost-binding",
        what: "the binding of one of four queues is removed for a minute",
        play: lost_address::play_binding,
    },
    Scenario {
        name: "lost-exchange",
        what: "one of four exchanges is deleted for a minute",
        play: lost_address::play_exchange,
    },
    Scenario {
        name: "zombie-relay",
        what: "a relay frozen past its lease wakes up and settles nothing",
        play: zombie_relay::play,
    },
    Scenario {
        name: "graceful-stop",
        what: "relays are stopped under load: nothing is repeated, the successor publishes within a second",
        play: graceful_stop::play,
    },
    Scenario {
        name: "late-commits",
        what: "64 writers take turns, some hold their transaction: nothing reordered or left behind",
        play: late_commits::play,
    },
    Scenario {
        name: "dead-destination",
        what: "one of two brokers is down: the other gets its own at full rate",
        play: dead_destination::play,
    },
    Scenario {
        name: "fan-out",
        what: "every event to two destinations, one cut off for a while; two outboxes in one relay",
        play: fan_out::play,
    },
    Scenario {
        name: "bad-events",
        what: "three bad events among a thousand: exactly those are parked, with a reason",
        play: bad_events::play,
    },
    Scenario {
        name: "unroutable-exact",
        what: "10,000 events, one of twenty to nobody: not one of those is counted as sent",
        play: unroutable_exact::play,
    },
    Scenario {
        name: "four-queues",
        what: "events of four audiences reach exactly their queues",
        play: four_queues::play,
    },
    Scenario {
        name: "level-one",
        what: "ids that were sent come again, with the same content and with other",
        play: level_one::play,
    },
    Scenario {
        name: "idle-and-latency",
        what: "what a relay asks while nothing happens, and how fast it is when little does",
        play: idle_and_latency::play,
    },
    Scenario {
        name: "memory-million",
        what: "a million queued rows are drained to RabbitMQ by a relay that stays small",
        play: memory_million::play,
    },
    Scenario {
        name: "drain-rabbitmq",
        what: "PostgreSQL into RabbitMQ, beside a program that publishes the same messages without an engine",
        play: drain_rabbitmq::play,
    },
    Scenario {
        name: "poison-key",
        what: "an event that can never be sent, with 10,000 behind it, beside 999 other keys",
        play: poison_key::play,
    },
    Scenario {
        name: "redrive-crash",
        what: "a redrive of 100,000 dead events and the relay that sends them are killed and resumed",
        play: redrive_crash::play,
    },
    Scenario {
        name: "replay-order",
        what: "100,000 sent events are replayed while new ones of their keys arrive",
        play: replay_order::play,
    },
    Scenario {
        name: "schedule-priority",
        what: "scheduled events leave at their time, high ones overtake a million, low ones leave all the same",
        play: schedule_priority::play,
    },
    Scenario {
        name: "archive-restore",
        what: "published events are archived, removed, restored and replayed byte for byte; changed bits are found",
        play: archive_restore::play,
    },
    Scenario {
        name: "once-rabbitmq-postgres",
        what: "every event several times at four listeners, two of them killed: one effect each",
        play: once::play,
    },
    Scenario {
        name: "inbox-overhead",
        what: "a listener with the inbox beside one that does the same transactions without it",
        play: inbox_overhead::play,
    },
    Scenario {
        name: "listener-poison",
        what: "events that no handler can use, one that ends its process, and no place for dead letters at first",
        play: listener_poison::play,
    },
    Scenario {
        name: "notify-scenarios",
        what: "crashes, repeats, races and retries of notifications: nobody is told twice, nobody is left out",
        play: notify::play,
    },
    Scenario {
        name: "notify-broadcast",
        what: "one event for 100,000 people by two channels, and again with a kill in the middle",
        play: notify::broadcast,
    },
    Scenario {
        name: "monitoring-sql",
        what: "the monitoring queries of the documentation give the right numbers",
        play: monitoring_sql::play,
    },
];

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

/// Their verdict is a rate or a time, which means something at full size and on a machine that does nothing else:
/// they are not played by `cargo xtask test`.
const MEASURED: &[&str] = &[
    "drain-null",
    "held-transaction",
    "backlog-growth",
    "history-growth",
    "cleanup-under-load",
    "console-speed",
    "producers-beside-relay",
    "late-commits",
    "idle-and-latency",
    "drain-rabbitmq",
    "poison-key",
    "inbox-overhead",
];

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
    let binary = release_binary("postrider")?;
    let stage = Stage::new(binary, reduced)?;
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
