//! [replay-order] 100,000 sent events are replayed while new ones of the same keys arrive; the replay is killed once
//! and resumed. Copies keep their order among themselves, new events keep theirs, and every copy says that it is one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postrider_testkit::ledger::{Ledger, Report};

use super::operated::{EVERYTHING, Operated, STORES};
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(900);
/// Events that come in one transaction, and how often: about 500 a second, as far as starting a process allows.
const LIVE: u64 = 50;
const LIVE_EVERY: Duration = Duration::from_millis(100);

/// What one store was seen to do.
struct Replayed {
    copies: u64,
    killed_at: u64,
    live: u64,
    /// Arrivals of an event beyond the first that say nothing about it.
    unmarked: u64,
    /// The ledger of the copies alone.
    among_copies: Report,
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (many, keys) = (stage.size(100_000, 4_000), stage.size(1_000, 100));
    let mut ledger = Ledger::new();
    let mut all = Vec::new();
    for store in STORES {
        all.push((store, replay(stage, store, many, keys, &mut ledger)?));
    }
    let live = ledger.report();
    let live_reordered = live.reordered;
    let mut outcome = Outcome::of(live);
    let sum = |number: fn(&Replayed) -> u64| all.iter().map(|(_, one)| number(one)).sum::<u64>();
    outcome.figure("replayed", sum(|one| one.copies));
    outcome.figure("replay_lost", sum(|one| one.among_copies.lost));
    outcome.figure("replay_reordered", sum(|one| one.among_copies.reordered));
    outcome.figure("live", sum(|one| one.live));
    outcome.figure("live_reordered", live_reordered);
    outcome.figure("unmarked", sum(|one| one.unmarked));
    outcome.figure(
        "resumed_at",
        all.iter().map(|(_, one)| one.killed_at).collect::<Vec<_>>(),
    );
    for (store, one) in &all {
        outcome.check(one.copies == many, || {
            format!("{store}: {} of {many} replayed", one.copies)
        });
        outcome.check(one.killed_at < many || stage.reduced, || {
            format!("{store}: the replay was over before it was killed")
        });
        outcome.check(one.among_copies.is_clean(), || {
            format!("{store}, among copies: {}", one.among_copies)
        });
        outcome.check(one.unmarked == 0, || {
            format!("{store}: {} repeats do not say what they are", one.unmarked)
        });
        outcome.check(one.live > 0, || format!("{store}: nothing new came meanwhile"));
    }
    Ok(outcome)
}

fn replay(stage: &Stage, store: &'static str, many: u64, keys: u64, ledger: &mut Ledger) -> Result<Replayed> {
    let outbox = Operated::open(stage, store, store)?;
    outbox.route(EVERYTHING)?;
    stage.note(&format!("{store}: {many} events are sent"));
    let mut copies = Ledger::new();
    for committed in outbox.send(&outbox.orders(0..many, keys))? {
        copies.commit(&committed)?;
        ledger.commit(&committed)?;
    }
    outbox.ends(&["run", "--until-empty"], 0)?;

    let relay = outbox.start(&["run"])?;
    // By its own clock, which is also that of the database: what is published from now on is not meant.
    let replay = ["replay", "--all", "--until", "0s", "--rate", "100000", "--yes"];
    let replay = outbox.start(&replay)?;
    outbox.job(1, PATIENCE)?;
    let over = AtomicBool::new(false);
    let mut live = 0;
    let killed_at = thread::scope(|scope| -> Result<u64> {
        let producer = scope.spawn(|| produce(&outbox, many, keys, ledger, &over));
        let replayed = (|| {
            outbox.job(many * 3 / 10, PATIENCE)?;
            replay.kill()?;
            let killed = outbox.job(0, PATIENCE)?;
            stage.note(&format!("{store}: killed at {}", killed["touched"]));
            if killed["state"] == "running" {
                let id = killed["job"].as_str().unwrap_or_default().to_owned();
                let mut resumed = outbox.start(&["job", "resume", &id, "--rate", "100000"])?;
                resumed.wait(PATIENCE)?;
            }
            Ok(killed["touched"].as_u64().unwrap_or(0))
        })();
        over.store(true, Ordering::Relaxed);
        live = producer
            .join()
            .map_err(|_| Failure::new("the producer panicked"))??;
        replayed
    })?;
    outbox.drained(PATIENCE)?;
    relay.terminate(PATIENCE)?;

    let (mut seen, mut unmarked) = (HashSet::new(), 0);
    let lines = outbox.lines()?;
    for line in &lines {
        match line.is_copy() {
            true => copies.arrive(&line.arrived()),
            false => {
                ledger.arrive(&line.arrived());
                unmarked += u64::from(!seen.insert(line.id()) && !line.is_marked());
            }
        }
    }
    let job = outbox.job(0, PATIENCE)?;
    Ok(Replayed {
        copies: job["touched"].as_u64().unwrap_or(0),
        killed_at,
        live,
        unmarked,
        among_copies: copies.report(),
    })
}

/// New events of the same keys, until it is over; how many they were.
fn produce(
    outbox: &Operated<'_>,
    from: u64,
    keys: u64,
    ledger: &mut Ledger,
    over: &AtomicBool,
) -> Result<u64> {
    let mut place = from;
    while !over.load(Ordering::Relaxed) {
        for committed in outbox.send(&outbox.orders(place..place + LIVE, keys))? {
            ledger.commit(&committed)?;
        }
        place += LIVE;
        // The rate itself is what is waited for.
        thread::sleep(LIVE_EVERY);
    }
    Ok(place - from)
}
