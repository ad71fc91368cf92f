//! [poison-key] One event in the middle of a key is refused by its broker for good, and 10,000 follow it, while 999
//! other keys carry 100,000 events: the others are as fast as without it, memory does not grow with what waits, and
//! after the cause is mended and the event redriven the key is in order.
//!
//! With and without the poison is played turn by turn on outboxes of their own, and the median of the ratios counts: a
//! machine that gets slower meanwhile must not look like a poison. What followers take of the memory is told by relays
//! with no followers, with large ones, and with twice as many: small ones would hide in what a relay takes anyway.

use std::time::{Duration, Instant};

use postrider_testkit::ledger::Ledger;
use serde_json::Value;

use super::operated::{Operated, Placed, Queues, STORES};
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const SHARE_LIMIT: f64 = 0.9;
/// What twice as many followers may take more: less than half of what they are.
const GROWTH_LIMIT_MIB: i64 = 16;
/// What they may take at all: a relay holds up to 16 MiB of events (`window_bytes`), as rows, as messages, and in the
/// buffers of its client. One that kept them would need as much and the followers besides.
const HELD_LIMIT_MIB: i64 = 48;
const PATIENCE: Duration = Duration::from_secs(600);

/// The queues of the other keys and of the poisoned one, and a type whose events go nowhere.
const ORDER: &str = "ORDER";
const LINE: &str = "LINE";
const NOWHERE: &str = "NOWHERE";
/// Larger than a small event and a follower, and smaller than the poison that is too large.
const LIMIT: &str = "max_message_bytes = \"64KiB\"";
const TOO_LARGE: usize = 100_000;

/// Why an event is refused.
#[derive(Clone, Copy, PartialEq)]
enum Poison {
    /// RabbitMQ has no queue for its routing key and gives it back; it is tried again and again.
    Unroutable,
    /// It is above the limit of the broker, and dead at once.
    TooLarge,
}

impl Poison {
    const ALL: [Poison; 2] = [Poison::Unroutable, Poison::TooLarge];

    fn kind(self) -> &'static str {
        match self {
            Poison::Unroutable => "address_not_found",
            Poison::TooLarge => "too_large",
        }
    }
}

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Size {
    others: u64,
    each: u64,
    before: u64,
    followers: u64,
    /// The length of a follower's payload.
    bytes: usize,
}

/// What one turn was seen to do.
struct Turn {
    rate: f64,
    peak_mib: u64,
    /// How long the followers took after the redrive.
    redriven: Duration,
}

/// The figures of one store.
struct Figures {
    share: f64,
    /// The most memory of a relay without followers, with them, and with twice as many, by poison.
    mib: Vec<[u64; 3]>,
    redriven: Duration,
}

impl Figures {
    /// What the followers took, and what twice as many took more, at worst: memory that was taken once is no hiccup of
    /// the machine.
    fn growth(&self) -> (i64, i64) {
        let between = |from: usize, to: usize| {
            let growth = self
                .mib
                .iter()
                .map(|mib| mib[to].cast_signed() - mib[from].cast_signed());
            growth.max().unwrap_or(i64::MAX)
        };
        (between(0, 1), between(1, 2))
    }
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let size = Size {
        others: stage.size(999, 99),
        each: stage.size(100, 20),
        before: stage.size(5_000, 200),
        followers: stage.size(10_000, 1_000),
        bytes: 0,
    };
    // All followers together are 39 MiB at either size.
    let large = Size {
        bytes: stage.size(4 << 10, 40 << 10),
        ..size
    };
    let mut ledger = Ledger::new();
    let mut all = Vec::new();
    for store in STORES {
        let (share, redriven) = compare(stage, store, &size, &mut ledger)?;
        let mib = memory(stage, store, &large, &mut ledger)?;
        let figures = Figures { share, mib, redriven };
        all.push((store, figures));
    }
    let mut outcome = Outcome::of(ledger.report());
    outcome.figure("followers", size.followers);
    outcome.figure("followers_mib", (large.followers * large.bytes as u64) >> 20);
    outcome.figure("refused_as", Poison::ALL.map(Poison::kind).to_vec());
    for (store, figures) in all {
        judge(&mut outcome, stage, store, &figures);
    }
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, stage: &Stage, store: &str, figures: &Figures) {
    let (names, limit) = (names(store), stage.size(SHARE_LIMIT, 0.0));
    let (share, (held, growth)) = (figures.share, figures.growth());
    outcome.bounded(names[0], share, share >= limit, &format!("at least {limit}"));
    outcome.figure(names[1], growth);
    outcome.figure(names[2], held);
    let mib = figures.mib.iter().map(|mib| mib.to_vec());
    outcome.figure(names[3], mib.collect::<Vec<_>>());
    outcome.check(growth <= GROWTH_LIMIT_MIB, || {
        format!("{store}: {growth} MiB more with twice the followers")
    });
    outcome.check(held <= HELD_LIMIT_MIB, || {
        format!("{store}: {held} MiB more with followers than without")
    });
    outcome.bounded(names[4], figures.redriven.as_secs_f64(), true, "anything");
}

fn names(store: &str) -> [&'static str; 5] {
    match store {
        "postgres" => [
            "share_postgres",
            "rss_growth_mib_postgres",
            "rss_held_mib_postgres",
            "rss_mib_postgres",
            "redriven_s_postgres",
        ],
        _ => [
            "share_sqlite",
            "rss_growth_mib_sqlite",
            "rss_held_mib_sqlite",
            "rss_mib_sqlite",
            "redriven_s_sqlite",
        ],
    }
}

/// The share of their rate that the others keep, and how long the followers took after the redrive.
fn compare(stage: &Stage, store: &'static str, size: &Size, ledger: &mut Ledger) -> Result<(f64, Duration)> {
    let (mut shares, mut redriven) = (Vec::new(), Duration::ZERO);
    for pair in 0..stage.size(3, 2) {
        let poison = Poison::ALL[pair % 2];
        // A B, B A, A B: what changes over time weighs on both alike.
        let order = if pair % 2 == 0 {
            [None, Some(poison)]
        } else {
            [Some(poison), None]
        };
        let mut turns = [None, None];
        for poison in order {
            let at = usize::from(poison.is_some());
            let name = format!("{store}-{pair}-{at}");
            turns[at] = Some(turn(stage, store, &name, size, poison, ledger)?);
        }
        let [Some(without), Some(with)] = turns else {
            return Err(Failure::new("a turn was left out"));
        };
        shares.push(with.rate / without.rate);
        redriven = redriven.max(with.redriven);
    }
    shares.sort_by(f64::total_cmp);
    Ok((shares[shares.len() / 2], redriven))
}

/// The most memory of relays with more and more behind the poison, for each kind of it.
fn memory(stage: &Stage, store: &'static str, size: &Size, ledger: &mut Ledger) -> Result<Vec<[u64; 3]>> {
    let mut all = Vec::new();
    for poison in Poison::ALL {
        let mut mib = [0; 3];
        for (times, mib) in (0..).zip(&mut mib) {
            let size = Size {
                followers: times * size.followers,
                ..*size
            };
            let name = format!("{store}-{}-{times}", poison.kind());
            *mib = turn(stage, store, &name, &size, Some(poison), ledger)?.peak_mib;
        }
        all.push(mib);
    }
    Ok(all)
}

fn turn(
    stage: &Stage,
    store: &'static str,
    name: &str,
    size: &Size,
    poison: Option<Poison>,
    ledger: &mut Ledger,
) -> Result<Turn> {
    let bindings = vec![(ORDER, ORDER), (LINE, LINE)];
    let mut outbox = Operated::open_queues(stage, store, name, Queues::bound(bindings, LIMIT)?)?;
    let events = events(name, size, poison);
    for committed in outbox.send(&events)? {
        ledger.commit(&committed)?;
    }
    let (others, line) = (outbox.watch(ORDER), outbox.watch(LINE));
    let relay = outbox.start(&["run"])?;
    let count = size.others * size.each;
    others.until(1, PATIENCE)?;
    let began = Instant::now();
    others.until(count, PATIENCE)?;
    let rate = count as f64 / began.elapsed().as_secs_f64().max(0.001);
    // What waits behind the poison is parked then: what it takes of the memory has been taken.
    outbox.emptied(PATIENCE)?;
    let mut peak_mib = relay.peak_rss_mib().unwrap_or(0);
    let mut redriven = Duration::ZERO;
    if let Some(poison) = poison {
        refused(&outbox, poison, size)?;
    }
    relay.terminate(PATIENCE)?;
    if poison.is_some() {
        let mended;
        (redriven, mended) = mend(&mut outbox)?;
        peak_mib = peak_mib.max(mended);
    }
    line.until(events.len() as u64 - count, PATIENCE)?;
    for seen in others.end()?.iter().chain(&line.end()?) {
        ledger.arrive(&seen.arrived());
    }
    stage.note(&format!("{name}: {rate:.0}/s, {peak_mib} MiB"));
    Ok(Turn {
        rate,
        peak_mib,
        redriven,
    })
}

/// Exactly the poison was refused, for its own reason, and exactly its followers wait.
fn refused(outbox: &Operated<'_>, poison: Poison, size: &Size) -> Result<()> {
    let refused = "SELECT count(*) FROM outbox_events WHERE status IN ('DEAD_LETTER', 'RETRYING')";
    let kind = format!("{refused} AND error_kind = '{}'", poison.kind());
    let status = outbox.values(&["status"])?.pop().unwrap_or_default();
    let number = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or(0);
    let seen = (
        outbox.number(refused)?,
        outbox.number(&kind)?,
        number("dead"),
        number("waiting"),
    );
    let dead = u64::from(poison == Poison::TooLarge);
    match seen == (1, 1, dead, size.followers) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{}: (refused, for that, dead, waiting) is {seen:?}: {status}",
            poison.kind()
        ))),
    }
}

/// Gives the poison a queue and lifts the limit, and redrives it; gives how long that took, and what it took of the
/// memory.
fn mend(outbox: &mut Operated<'_>) -> Result<(Duration, u64)> {
    outbox.rebind(vec![(ORDER, ORDER), (LINE, LINE), (LINE, NOWHERE)])?;
    // Before there is a relay: that would try what is only refused by itself, and there would be nothing to redrive.
    outbox.ends(&["dead", "redrive", "--all", "--yes"], 0)?;
    let begun = Instant::now();
    let relay = outbox.start(&["run"])?;
    outbox.drained(PATIENCE)?;
    let (took, peak_mib) = (begun.elapsed(), relay.peak_rss_mib().unwrap_or(0));
    relay.terminate(PATIENCE)?;
    Ok((took, peak_mib))
}

/// Round by round one event of each other key and as many of the one key as make both end together.
fn events(name: &str, size: &Size, poison: Option<Poison>) -> Vec<Placed> {
    let of_key = size.before + 1 + size.followers;
    let a_round = of_key.div_ceil(size.each);
    let mut events = Vec::new();
    for round in 0..size.each {
        for other in 0..size.others {
            let key = format!("{name}-other-{other}");
            events.push(Placed::order(format!("{key}-{}", round + 1), key, round + 1));
        }
        for n in (round * a_round + 1..=(round + 1) * a_round).take_while(|n| *n <= of_key) {
            events.push(of_line(name, n, size, poison));
        }
    }
    events
}

/// An event of the one key. Without the poison there is a harmless one in its place.
fn of_line(name: &str, n: u64, size: &Size, poison: Option<Poison>) -> Placed {
    let key = format!("{name}-poisoned");
    let (aggregate_type, bytes) = match poison.filter(|_| n == size.before + 1) {
        Some(Poison::Unroutable) => (NOWHERE, 0),
        Some(Poison::TooLarge) => (LINE, TOO_LARGE),
        None => (LINE, if n > size.before + 1 { size.bytes } else { 0 }),
    };
    Placed {
        id: format!("{key}-{n}"),
        key,
        aggregate_type,
        n,
        bytes,
    }
}
