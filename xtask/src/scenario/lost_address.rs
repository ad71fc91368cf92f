//! [lost-binding] [lost-exchange] Somebody removes the way to one of four queues under load, and mends it a minute
//! later.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Exchanges, Load, Pair, Setup};
use super::shop::now_us;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

/// The line of business that is cut off.
const LOST: usize = 1;
const QUEUES: usize = 4;
const SHARE: f64 = 0.9;
const RATE: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(400);

pub(super) fn play_binding(stage: &Stage) -> Result<Outcome> {
    let way = |pair: &Pair<'_>, there: bool| match there {
        true => pair.topology().bind(LOST),
        false => pair.topology().unbind(LOST),
    };
    play(stage, Exchanges::One, way)
}

pub(super) fn play_exchange(stage: &Stage) -> Result<Outcome> {
    let way = |pair: &Pair<'_>, there: bool| match there {
        true => pair
            .topology()
            .declare_exchange(LOST)
            .and_then(|()| pair.topology().bind(LOST)),
        false => pair.topology().delete_exchange(LOST),
    };
    play(stage, Exchanges::PerLine, way)
}

/// `set` takes the way to the queue away or gives it back.
fn play(stage: &Stage, exchanges: Exchanges, set: fn(&Pair<'_>, bool) -> Result<()>) -> Result<Outcome> {
    let calm = stage.size(Duration::from_secs(20), Duration::from_secs(3));
    let outage = stage.size(Duration::from_secs(60), Duration::from_secs(4));
    let pair = Pair::open(
        stage,
        &Setup {
            queues: QUEUES,
            exchanges,
            ..Setup::default()
        },
    )?;
    let consumer = pair.consumer()?;
    let relay = pair.relay("relay-1")?;
    let producer = pair.producer(&Load {
        rate: RATE,
        ..Load::default()
    })?;
    pair.wait_for_orders(RATE)?;
    let before = observe(&pair, calm)?;
    set(&pair, false)?;
    stage.note("the way to one queue is lost");
    let during = observe(&pair, outage)?;
    set(&pair, true)?;
    let mended = now_us();
    stage.note("the way is back");
    let mut arrivals = pair.arrivals()?;
    let lost = &pair.queues()[LOST];
    let first = until_every(
        Duration::from_millis(20),
        "the queue gets something again",
        PATIENCE,
        || {
            let arrived = arrivals.next()?;
            Ok(arrived
                .iter()
                .find(|one| one.destination == *lost)
                .and_then(|one| one.at_us))
        },
    )?;
    let resume_s = first.saturating_sub(mended) as f64 / 1e6;
    let counts = pair.stop_producing(producer)?;
    let settled = pair.settled(PATIENCE);
    let drained_s = now_us().saturating_sub(mended) as f64 / 1e6;
    relay.terminate()?;
    pair.consumed(consumer)?;

    let of_others = |seen: &Seen| {
        seen.rates
            .iter()
            .filter(|(queue, _)| *queue != lost)
            .map(|(_, rate)| rate)
            .sum::<f64>()
    };
    let share = of_others(&during) / of_others(&before);
    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.bounded("share", share, share >= SHARE, &format!("at least {SHARE}"));
    outcome.figure("outage_s", outage.as_secs());
    outcome.figure("dead", during.dead);
    outcome.check(during.dead == 0, || format!("{} events were dead", during.dead));
    outcome.figure("parked", during.parked);
    outcome.check(during.parked > 0, || {
        "nothing was parked: the way was never lost".to_owned()
    });
    outcome.bounded("resume_s", resume_s, true, "anything");
    outcome.bounded("drained_s", drained_s, true, "anything");
    outcome.figure("duplicates", duplicates);
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}

/// What happened in a stretch of time.
struct Seen {
    /// Events per second that arrived, by queue.
    rates: BTreeMap<String, f64>,
    /// The most that was parked, and dead.
    parked: u64,
    dead: u64,
}

fn observe(pair: &Pair<'_>, time: Duration) -> Result<Seen> {
    let mut arrivals = pair.arrivals()?;
    let (began, mut parked, mut dead) = (Instant::now(), 0, 0);
    while began.elapsed() < time {
        let count = |rows: &str| {
            pair.database()
                .number(&format!("SELECT count(*) FROM outbox_parked {rows}"))
        };
        parked = parked.max(count("")?);
        dead = dead.max(count("WHERE dead")?);
        // What arrives in a given time is the rate: the time is what is waited for.
        thread::sleep(Duration::from_millis(500).min(time.saturating_sub(began.elapsed())));
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut rates = BTreeMap::new();
    for arrived in arrivals.next()? {
        *rates.entry(arrived.destination).or_default() += 1.0 / seconds;
    }
    Ok(Seen { rates, parked, dead })
}
