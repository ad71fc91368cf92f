//! All scenarios by name, and those that only measure.

use super::outcome::Outcome;
use super::stage::Stage;
use super::{
    archive_restore, bad_events, bad_input, broker_outage, cleanup_under_load, console_speed,
    crash_points_sqlite, database_outage, dead_destination, demo, drain_rabbitmq, embedded_three, fan_out,
    four_queues, graceful_stop, idle_and_latency, inbox_overhead, kill_relays, late_commits, level_one,
    listener_poison, lost_address, memory_million, monitoring_sql, notify, once, pair_steady, pg_drain_null,
    pg_growth, pg_held_transaction, pg_producers, poison_key, redrive_crash, replay_order, schedule_priority,
    sqlite_million, sqlite_two_processes, unroutable_exact, zombie_relay,
};
use crate::failure::Result;

/// One proof.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) play: fn(&Stage) -> Result<Outcome>,
}

pub(super) const SCENARIOS: &[Scenario] = &[
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

/// Their verdict is a rate or a time, which means something at full size and on a machine that does nothing else:
/// they are not played by `cargo xtask test`.
pub(super) const MEASURED: &[&str] = &[
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
