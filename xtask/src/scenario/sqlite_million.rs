//! [sqlite-million] A million queued rows are drained in bounded memory, and the last is not slower than the first.
//!
//! What is measured is the time from the first line in the file to the last, divided by the events between them, as
//! another process sees the file grow. So starting the process and taking the lease, which weigh more on a short run,
//! count in neither. The short run is made several times, before and after the long one, and the median is taken: a
//! machine that gets slower or faster meanwhile must not look like growth.

use std::time::{Duration, Instant};
use std::{fs, thread};

use super::outcome::Outcome;
use super::process::Process;
use super::shop;
use super::stage::{Shop, Stage};
use crate::failure::{Failure, Result};

const PEAK_LIMIT_MIB: u64 = 100;
const GROWTH_LIMIT: f64 = 1.3;
/// At the reduced size a run takes a second or two: one hiccup of the disk weighs more than any growth.
const REDUCED_GROWTH_LIMIT: f64 = 2.5;
const FEW: u64 = 10_000;
const SHORT_RUNS: usize = 4;
const CUSTOMERS: u64 = 1_000;
/// Orders of one transaction when filling.
const FILL: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(1_800);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let many = stage.size(1_000_000, 60_000);
    let limit = stage.size(GROWTH_LIMIT, REDUCED_GROWTH_LIMIT);
    let mut short = Vec::new();
    for run in 0..SHORT_RUNS {
        short.push(short_run(stage, &format!("before-{run}"))?);
    }
    let shop = stage.shop("many", "")?;
    stage.note(&format!("queueing {many} events"));
    fill(&shop, many)?;
    stage.note("draining");
    let long = drain(&shop)?;
    stage.note(&format!("{:.1} µs an event", long.per_event * 1e6));
    for run in 0..SHORT_RUNS {
        short.push(short_run(stage, &format!("after-{run}"))?);
    }
    short.sort_by(f64::total_cmp);
    let median = short[short.len() / 2];
    let growth = long.per_event / median;

    let consumer = shop.consumer()?;
    let settled = shop.settled(PATIENCE);
    consumer.finish(PATIENCE)?;
    let mut outcome = Outcome::of(shop.account()?);
    outcome.went_well(settled);
    outcome.figure("peak_rss_mib", long.peak_mib);
    outcome.check(long.peak_mib < PEAK_LIMIT_MIB, || {
        format!(
            "{} MiB resident, it must be below {PEAK_LIMIT_MIB}",
            long.peak_mib
        )
    });
    outcome.bounded("growth", growth, growth <= limit, &format!("at most {limit}"));
    outcome.bounded("us_per_event", long.per_event * 1e6, true, "anything");
    outcome.bounded("us_per_event_at_10k", median * 1e6, true, "anything");
    outcome.figure("events_per_s", (1.0 / long.per_event) as u64);
    Ok(outcome)
}

fn short_run(stage: &Stage, name: &str) -> Result<f64> {
    let shop = stage.shop(name, "")?;
    fill(&shop, FEW)?;
    let drained = drain(&shop)?;
    stage.note(&format!(
        "{FEW} queued: {:.1} µs an event",
        drained.per_event * 1e6
    ));
    fs::remove_dir_all(shop.directory())?;
    Ok(drained.per_event)
}

fn fill(shop: &Shop<'_>, orders: u64) -> Result<()> {
    let mut connection = shop.connection()?;
    let mut placed = 0;
    while placed < orders {
        let tx = shop::begin(&mut connection)?;
        for order in placed..orders.min(placed + FILL) {
            shop::place(&tx, &format!("customer-{:04}", order % CUSTOMERS), order)?;
        }
        tx.commit()?;
        placed += FILL;
    }
    // What the drain meets is a database at rest, not the write-ahead log of its producer.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

struct Drained {
    /// Seconds.
    per_event: f64,
    peak_mib: u64,
}

fn drain(shop: &Shop<'_>) -> Result<Drained> {
    let mut relay = shop.relay(&["--until-empty"], None)?;
    let (mut first, mut last, mut peak_mib) = (None, None, 0);
    let began = Instant::now();
    let status = loop {
        let (now, size) = (Instant::now(), shop.lines_length());
        if size > 0 && last.is_none_or(|(_, seen)| seen != size) {
            first.get_or_insert((now, size));
            last = Some((now, size));
        }
        peak_mib = peak_mib.max(relay.peak_rss_mib().unwrap_or(0));
        if let Some(status) = relay.ended()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            return Err(Failure::new(format!("the drain did not end within {PATIENCE:?}")));
        }
        thread::sleep(Duration::from_millis(1));
    };
    finished(relay, status.success())?;
    let left = shop::waiting(&shop.connection()?)?;
    if left != (0, 0) {
        let (queued, parked) = left;
        return Err(Failure::new(format!(
            "run --until-empty ended well with {queued} queued and {parked} parked"
        )));
    }
    let (Some((begin, before)), Some((end, after))) = (first, last) else {
        return Err(Failure::new("nothing was published"));
    };
    // Lines are of nearly one length, so bytes measure how many came after the first were seen.
    let lines = fs::read(shop.lines())?
        .iter()
        .filter(|byte| **byte == b'\n')
        .count() as f64;
    let between = lines * (after - before) as f64 / after as f64;
    Ok(Drained {
        per_event: end.duration_since(begin).as_secs_f64() / between,
        peak_mib,
    })
}

fn finished(relay: Process, success: bool) -> Result<()> {
    drop(relay);
    match success {
        true => Ok(()),
        false => Err(Failure::new("postrider run --until-empty did not succeed")),
    }
}
