//! [poison-key] One event in the middle of a key can never be sent, and 10,000 follow it, while 999 other keys carry
//! 100,000 events: the others are as fast as without it, memory does not grow with what waits, and after the redrive
//! the key is in order.
//!
//! Both arms are played turn by turn on outboxes of their own, and the median of the ratios counts: a machine that gets
//! slower meanwhile must not look like a poison.

use std::time::{Duration, Instant};

use postrider_testkit::ledger::Ledger;

use super::operated::{EVERYTHING, Operated, Placed, STORES};
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const SHARE_LIMIT: f64 = 0.9;
/// What a relay that keeps followers in memory would go far beyond.
const GROWTH_LIMIT_MIB: i64 = 16;
const PATIENCE: Duration = Duration::from_secs(600);
/// What has a route while the poison is poisonous.
const ORDERS: &str = "when = { event_type = \"OrderPlaced\" }";

/// How much there is of everything.
struct Size {
    others: u64,
    each: u64,
    before: u64,
    followers: u64,
}

/// What one turn was seen to do.
struct Turn {
    rate: f64,
    peak_mib: u64,
    /// How long the followers took after the redrive.
    redriven: Duration,
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let size = Size {
        others: stage.size(999, 99),
        each: stage.size(100, 20),
        before: stage.size(5_000, 200),
        followers: stage.size(10_000, 500),
    };
    let pairs = stage.size(3, 1);
    let mut ledger = Ledger::new();
    let mut figures = Vec::new();
    for store in STORES {
        let (mut shares, mut growth, mut redriven) = (Vec::new(), Vec::new(), Duration::ZERO);
        for pair in 0..pairs {
            // A B, B A, A B: what changes over time weighs on both alike.
            let order = if pair % 2 == 0 {
                [false, true]
            } else {
                [true, false]
            };
            let mut turns = [None, None];
            for poison in order {
                let name = format!("{store}-{pair}-{poison}");
                turns[usize::from(poison)] = Some(turn(stage, store, &name, &size, poison, &mut ledger)?);
            }
            let [Some(without), Some(with)] = turns else {
                return Err(Failure::new("a turn was left out"));
            };
            shares.push(with.rate / without.rate);
            growth.push(with.peak_mib.cast_signed() - without.peak_mib.cast_signed());
            redriven = with.redriven;
        }
        shares.sort_by(f64::total_cmp);
        growth.sort_unstable();
        let (share, growth) = (shares[shares.len() / 2], growth[growth.len() / 2]);
        figures.push((store, share, growth, redriven));
    }
    let mut outcome = Outcome::of(ledger.report());
    outcome.figure("followers", size.followers);
    for (store, share, growth, redriven) in figures {
        let (names, limit) = (names(store), stage.size(SHARE_LIMIT, 0.0));
        outcome.bounded(names[0], share, share >= limit, &format!("at least {limit}"));
        outcome.figure(names[1], growth);
        outcome.check(growth <= GROWTH_LIMIT_MIB, || {
            format!("{store}: {growth} MiB more with the poison")
        });
        outcome.bounded(names[2], redriven.as_secs_f64(), true, "anything");
    }
    Ok(outcome)
}

fn names(store: &str) -> [&'static str; 3] {
    match store {
        "postgres" => ["share_postgres", "rss_growth_mib_postgres", "redriven_s_postgres"],
        _ => ["share_sqlite", "rss_growth_mib_sqlite", "redriven_s_sqlite"],
    }
}

fn turn(
    stage: &Stage,
    store: &'static str,
    name: &str,
    size: &Size,
    poison: bool,
    ledger: &mut Ledger,
) -> Result<Turn> {
    let outbox = Operated::open(stage, store, name)?;
    outbox.route(ORDERS)?;
    for committed in outbox.send(&events(name, size, poison))? {
        ledger.commit(&committed)?;
    }
    let (relay, others) = (outbox.start(&["run"])?, format!("\"{name}-other-"));
    let count = size.others * size.each;
    let took = outbox.follow(&others).until(count, PATIENCE)?;
    let rate = count as f64 / took.as_secs_f64().max(0.001);
    // What waits behind the poison is parked then: what it takes of the memory has been taken.
    outbox.emptied(PATIENCE)?;
    let peak_mib = relay.peak_rss_mib().unwrap_or(0);
    relay.terminate(PATIENCE)?;
    let redriven = match poison {
        true => mend(&outbox)?,
        false => Duration::ZERO,
    };
    outbox
        .lines()?
        .iter()
        .for_each(|line| ledger.arrive(&line.arrived()));
    stage.note(&format!("{name}: {rate:.0}/s, {peak_mib} MiB"));
    Ok(Turn {
        rate,
        peak_mib,
        redriven,
    })
}

/// Gives the poison a route, and redrives it.
fn mend(outbox: &Operated<'_>) -> Result<Duration> {
    outbox.route(EVERYTHING)?;
    let relay = outbox.start(&["run"])?;
    let begun = Instant::now();
    outbox.ends(&["dead", "redrive", "--all", "--yes"], 0)?;
    outbox.drained(PATIENCE)?;
    relay.terminate(PATIENCE)?;
    Ok(begun.elapsed())
}

/// Round by round one event of each other key and as many of the one key as make both end together.
fn events(name: &str, size: &Size, poison: bool) -> Vec<Placed> {
    let of_key = size.before + 1 + size.followers;
    let a_round = of_key.div_ceil(size.each);
    let mut events = Vec::new();
    for round in 0..size.each {
        for other in 0..size.others {
            let key = format!("{name}-other-{other}");
            events.push(placed(key, round + 1, "OrderPlaced"));
        }
        for n in (round * a_round + 1..=(round + 1) * a_round).take_while(|n| *n <= of_key) {
            let is_poison = poison && n == size.before + 1;
            let event_type = if is_poison { "Poison" } else { "OrderPlaced" };
            events.push(placed(format!("{name}-poisoned"), n, event_type));
        }
    }
    events
}

fn placed(key: String, n: u64, event_type: &'static str) -> Placed {
    Placed {
        id: format!("{key}-{n}"),
        key,
        event_type,
        n,
    }
}
