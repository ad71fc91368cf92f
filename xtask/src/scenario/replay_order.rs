//! [replay-order] 100,000 sent events are replayed while new ones of the same keys arrive; the replay is killed once
//! and resumed. Copies keep their order among themselves, new events keep theirs, and every copy says that it is one.
//! Each copy comes once. How long new events take is measured before the replay and beside it: one that stood behind
//! the copies would take as long as the replay does.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postrider_testkit::ledger::{Ledger, Report};

use super::operated::{Operated, Placed, STORES};
use super::outcome::Outcome;
use super::percentiles::Percentiles;
use super::stage::Stage;
use super::wait::until;
use super::watch::Seen;
use crate::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(900);
/// A replay that is given all the rate it can take keeps the machine busy: new events share it, and wait for nothing
/// else. Behind the copies they would take tens of seconds.
const LIVE_P99_MS: f64 = 1_000.0;
/// Events that come in one transaction, and how often: about 200 a second.
const LIVE: u64 = 10;
const LIVE_EVERY: Duration = Duration::from_millis(50);

/// What one store was seen to do.
struct Replayed {
    /// What had been sent when the replay began.
    wanted: u64,
    copies: u64,
    killed_at: u64,
    live: u64,
    /// The slow end of what new events took before the replay and beside it, in milliseconds.
    p99: (f64, f64),
    /// Arrivals of an event beyond the first that say nothing about it.
    unmarked: u64,
    /// Copies of an event beyond the first that say nothing about it.
    copied_twice: u64,
    /// How long the replay took, in milliseconds.
    took_ms: u64,
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
    outcome.figure("copied_twice_unmarked", sum(|one| one.copied_twice));
    let took = all.iter().map(|(_, one)| one.took_ms);
    outcome.figure("replay_took_ms", took.collect::<Vec<_>>());
    for (name, ratio_name, (_, one)) in [
        ("live_p99_ms_sqlite", "live_p99_ratio_sqlite", &all[0]),
        ("live_p99_ms_postgres", "live_p99_ratio_postgres", &all[1]),
    ] {
        let (alone, beside) = one.p99;
        let bound = format!("at most {LIVE_P99_MS}");
        outcome.bounded(name, beside, beside <= LIVE_P99_MS, &bound);
        outcome.bounded(ratio_name, beside / alone.max(0.001), true, "anything");
    }
    outcome.figure(
        "resumed_at",
        all.iter().map(|(_, one)| one.killed_at).collect::<Vec<_>>(),
    );
    for (store, one) in &all {
        outcome.check(one.copies == one.wanted, || {
            format!("{store}: {} of {} replayed", one.copies, one.wanted)
        });
        outcome.check(one.killed_at > 0 && one.killed_at < one.wanted, || {
            format!(
                "{store}: the replay was killed at {} of {}, not in the middle",
                one.killed_at, one.wanted
            )
        });
        outcome.check(one.among_copies.is_clean(), || {
            format!("{store}, among copies: {}", one.among_copies)
        });
        outcome.check(one.unmarked == 0, || {
            format!("{store}: {} repeats do not say what they are", one.unmarked)
        });
        outcome.check(one.copied_twice == 0, || {
            format!(
                "{store}: {} copies came twice and do not say so",
                one.copied_twice
            )
        });
        outcome.check(one.live > 0, || format!("{store}: nothing new came meanwhile"));
    }
    Ok(outcome)
}

fn replay(stage: &Stage, store: &'static str, many: u64, keys: u64, ledger: &mut Ledger) -> Result<Replayed> {
    let outbox = Operated::open_routed(stage, store, store, &["ORDER"])?;
    let watch = outbox.watch("ORDER");
    stage.note(&format!("{store}: {many} events are sent"));
    let mut copies = Ledger::new();
    for committed in outbox.send(&outbox.orders(0..many, keys))? {
        copies.commit(&committed)?;
        ledger.commit(&committed)?;
    }
    outbox.ends(&["run", "--until-empty"], 0)?;

    let relay = outbox.start(&["run"])?;
    let mut producer = Producer {
        outbox: &outbox,
        keys,
        place: many,
        written: Vec::new(),
    };
    stage.note(&format!("{store}: new ones alone"));
    let mut left = stage.size(100, 20);
    producer.go_on(ledger, || {
        left -= 1;
        left >= 0
    })?;
    let alone = producer.written.len();
    for event in outbox.orders(many..producer.place, keys) {
        copies.commit(&event.committed())?;
    }
    let wanted = producer.place;
    outbox.emptied(PATIENCE)?;
    // By its own clock, which is also that of the database: what is published from now on is not meant.
    let replay = ["replay", "--all", "--until", "0s", "--rate", "100000", "--yes"];
    let replay = outbox.start(&replay)?;
    let began = Instant::now();
    // A job knows what it means from its beginning on.
    until("the replay has begun", PATIENCE, || {
        Ok((outbox.number("SELECT count(*) FROM outbox_job")? > 0).then_some(()))
    })?;
    let over = AtomicBool::new(false);
    let killed_at = thread::scope(|scope| -> Result<u64> {
        let producing = scope.spawn(|| producer.go_on(ledger, || !over.load(Ordering::Relaxed)));
        let replayed = (|| {
            let killed = outbox.kill_in_job(replay, many / 10, PATIENCE)?;
            stage.note(&format!("{store}: killed at {}", killed["touched"]));
            if killed["state"] == "running" {
                let id = killed["job"].as_str().unwrap_or_default().to_owned();
                let resumed = outbox.start(&["job", "resume", &id, "--rate", "100000"])?;
                resumed.finish(PATIENCE)?;
            }
            Ok(killed["touched"].as_u64().unwrap_or(0))
        })();
        over.store(true, Ordering::Relaxed);
        producing
            .join()
            .map_err(|_| Failure::new("the producer panicked"))??;
        replayed
    })?;
    outbox.drained(PATIENCE)?;
    let took_ms = began.elapsed().as_millis() as u64;
    let job = outbox.job(0, PATIENCE)?;
    let replayed = job["touched"].as_u64().unwrap_or(0);
    watch.until(producer.place + replayed, PATIENCE)?;
    relay.terminate(PATIENCE)?;

    let arrivals = watch.end()?;
    for arrival in &arrivals {
        match arrival.is_copy {
            true => copies.arrive(&arrival.arrived()),
            false => ledger.arrive(&arrival.arrived()),
        }
    }
    let (before, beside) = producer.written.split_at(alone);
    Ok(Replayed {
        wanted,
        copies: replayed,
        killed_at,
        live: beside.len() as u64,
        p99: (p99(before, &arrivals)?, p99(beside, &arrivals)?),
        unmarked: unmarked(&arrivals, false),
        copied_twice: unmarked(&arrivals, true),
        took_ms,
        among_copies: copies.report(),
    })
}

/// Arrivals beyond the first of an event, or of its copy, that do not say that they may be repeats.
fn unmarked(arrivals: &[Seen], of_copies: bool) -> u64 {
    let mut seen = HashSet::new();
    let of_them = arrivals.iter().filter(|arrival| arrival.is_copy == of_copies);
    let repeats = of_them.filter(|arrival| !seen.insert(&arrival.id));
    repeats.filter(|arrival| !arrival.is_marked).count() as u64
}

/// The slow end of the time from just before the insert to the first arrival, in milliseconds.
fn p99(written: &[(String, u64)], arrivals: &[Seen]) -> Result<f64> {
    let mut first = HashMap::new();
    for arrival in arrivals.iter().filter(|arrival| !arrival.is_copy) {
        first.entry(arrival.id.as_str()).or_insert(arrival.at_us);
    }
    let took = written.iter().filter_map(|(id, at)| {
        let arrived = first.get(id.as_str())?;
        Some(arrived.saturating_sub(*at) as f64 / 1_000.0)
    });
    Ok(Percentiles::of(took.collect())?.p99)
}

/// Who writes new events of the same keys.
struct Producer<'a> {
    outbox: &'a Operated<'a>,
    keys: u64,
    place: u64,
    /// The ids, and when they were written.
    written: Vec<(String, u64)>,
}

impl Producer<'_> {
    fn go_on(&mut self, ledger: &mut Ledger, mut may: impl FnMut() -> bool) -> Result<()> {
        while may() {
            let events = self.outbox.orders(self.place..self.place + LIVE, self.keys);
            let rows: Vec<String> = events.iter().map(Placed::values).collect();
            let written = self.outbox.insert(&format!(
                "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES {}",
                rows.join(", ")
            ))?;
            for event in &events {
                ledger.commit(&event.committed())?;
                self.written.push((event.id.clone(), written.began_us));
            }
            self.place += LIVE;
            // The rate itself is what is waited for.
            thread::sleep(LIVE_EVERY);
        }
        Ok(())
    }
}
