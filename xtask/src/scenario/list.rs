//! All of them, in the order in which they are played.

use super::outcome::Outcome;
use super::stage::Stage;
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
        play: super::demo::play,
    },
    Scenario {
        name: "bad-input",
        what: "every kind of bad input gets a clear error and loses nothing",
        play: super::bad_input::play,
    },
    Scenario {
        name: "crash-points-sqlite",
        what: "the relay ends at every named crash point, again and again, while orders go on",
        play: super::crash_points_sqlite::play,
    },
    Scenario {
        name: "sqlite-two-processes",
        what: "a producing and a relaying process on one file, the relay killed five times",
        play: super::sqlite_two_processes::play,
    },
    Scenario {
        name: "sqlite-million",
        what: "a million queued rows are drained in bounded memory, none slower than the first",
        play: super::sqlite_million::play,
    },
    Scenario {
        name: "drain-null",
        what: "PostgreSQL into nothing: the relay against its own statements in a bare loop",
        play: super::pg_drain_null::play,
    },
    Scenario {
        name: "held-transaction",
        what: "an unrelated transaction stays open while a million events pass",
        play: super::pg_held_transaction::play,
    },
    Scenario {
        name: "backlog-growth",
        what: "an event costs no more behind a million others than behind ten thousand",
        play: super::pg_growth::backlog,
    },
    Scenario {
        name: "history-growth",
        what: "an event costs no more beside five million published ones than beside none",
        play: super::pg_growth::history,
    },
    Scenario {
        name: "cleanup-under-load",
        what: "a million old rows are removed while services insert and a relay publishes",
        play: super::cleanup_under_load::play,
    },
    Scenario {
        name: "console-speed",
        what: "every list and count answers at once beside five million published and 100,000 parked",
        play: super::console_speed::play,
    },
    Scenario {
        name: "producers-beside-relay",
        what: "64 producers keep their rate beside a relay that is rung",
        play: super::pg_producers::play,
    },
    Scenario {
        name: "pair-steady",
        what: "PostgreSQL to RabbitMQ with two relays and nothing going wrong",
        play: super::pair_steady::play,
    },
    Scenario {
        name: "kill-relays",
        what: "two relays under load, one killed three times with events in flight, RabbitMQ killed once",
        play: super::kill_relays::play,
    },
    Scenario {
        name: "embedded-three",
        what: "three relays in one process share store, sink and token and drain 100,000 events",
        play: super::embedded_three::play,
    },
    Scenario {
        name: "broker-outage",
        what: "RabbitMQ is away for 30 s: nothing is parked, charged or reordered",
        play: super::broker_outage::play,
    },
    Scenario {
        name: "database-outage",
        what: "PostgreSQL is away for 30 s under load: everyone finds back",
        play: super::database_outage::play,
    },
    Scenario {
        name: "lost-binding",
        what: "the binding of one of four queues is removed for a minute",
        play: super::lost_address::play_binding,
    },
    Scenario {
        name: "lost-exchange",
        what: "one of four exchanges is deleted for a minute",
        play: super::lost_address::play_exchange,
    },
    Scenario {
        name: "zombie-relay",
        what: "a relay frozen past its lease wakes up and settles nothing",
        play: super::zombie_relay::play,
    },
    Scenario {
        name: "graceful-stop",
        what: "relays are stopped under load: nothing is repeated, the successor publishes within a second",
        play: super::graceful_stop::play,
    },
    Scenario {
        name: "late-commits",
        what: "64 writers take turns, some hold their transaction: nothing reordered or left behind",
        play: super::late_commits::play,
    },
    Scenario {
        name: "dead-destination",
        what: "one of two brokers is down: the other gets its own at full rate",
        play: super::dead_destination::play,
    },
    Scenario {
        name: "fan-out",
        what: "every event to two destinations, one cut off for a while; two outboxes in one relay",
        play: super::fan_out::play,
    },
    Scenario {
        name: "bad-events",
        what: "three bad events among a thousand: exactly those are parked, with a reason",
        play: super::bad_events::play,
    },
    Scenario {
        name: "unroutable-exact",
        what: "10,000 events, one of twenty to nobody: not one of those is counted as sent",
        play: super::unroutable_exact::play,
    },
    Scenario {
        name: "four-queues",
        what: "events of four audiences reach exactly their queues",
        play: super::four_queues::play,
    },
    Scenario {
        name: "level-one",
        what: "ids that were sent come again, with the same content and with other",
        play: super::level_one::play,
    },
    Scenario {
        name: "idle-and-latency",
        what: "what a relay asks while nothing happens, and how fast it is when little does",
        play: super::idle_and_latency::play,
    },
    Scenario {
        name: "memory-million",
        what: "a million queued rows are drained to RabbitMQ by a relay that stays small",
        play: super::memory_million::play,
    },
    Scenario {
        name: "drain-rabbitmq",
        what: "PostgreSQL into RabbitMQ, beside a program that publishes the same messages without an engine",
        play: super::drain_rabbitmq::play,
    },
    Scenario {
        name: "poison-key",
        what: "an event that can never be sent, with 10,000 behind it, beside 999 other keys",
        play: super::poison_key::play,
    },
    Scenario {
        name: "redrive-crash",
        what: "a redrive of 100,000 dead events and the relay that sends them are killed and resumed",
        play: super::redrive_crash::play,
    },
    Scenario {
        name: "replay-order",
        what: "100,000 sent events are replayed while new ones of their keys arrive",
        play: super::replay_order::play,
    },
    Scenario {
        name: "schedule-priority",
        what: "scheduled events leave at their time, high ones overtake a million, low ones leave all the same",
        play: super::schedule_priority::play,
    },
    Scenario {
        name: "archive-restore",
        what: "published events are archived, removed, restored and replayed byte for byte; changed bits are found",
        play: super::archive_restore::play,
    },
    Scenario {
        name: "once-rabbitmq-postgres",
        what: "every event several times at four listeners, two of them killed: one effect each",
        play: super::once::play,
    },
    Scenario {
        name: "inbox-overhead",
        what: "a listener with the inbox beside one that does the same transactions without it",
        play: super::inbox_overhead::play,
    },
    Scenario {
        name: "listener-poison",
        what: "events that no handler can use, one that ends its process, and no place for dead letters at first",
        play: super::listener_poison::play,
    },
    Scenario {
        name: "notify-scenarios",
        what: "crashes, repeats, races and retries of notifications: nobody is told twice, nobody is left out",
        play: super::notify::play,
    },
    Scenario {
        name: "notify-broadcast",
        what: "one event for 100,000 people by two channels, and again with a kill in the middle",
        play: super::notify::broadcast,
    },
    Scenario {
        name: "monitoring-sql",
        what: "the monitoring queries of the documentation give the right numbers",
        play: super::monitoring_sql::play,
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
