//! [sqlite-two-processes] A producing and a relaying process on one file; the relay is killed five times.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use super::outcome::Outcome;
use super::percentiles::Percentiles;
use super::process::Process;
use super::shop::{self, now_us};
use super::stage::{Shop, Stage};
use super::wait::until;
use super::{ProducerArgs, producer};
use crate::failure::{Failure, Result};

/// Transactions per second: steady load well below what one file takes, so that the latency is not that of a queue.
const RATE: u64 = 1_000;
/// After a kill the load counts as steady again when no more than this is queued: what arrives within a tenth of a
/// second.
const CAUGHT_UP: u64 = RATE / 10;
const P50_LIMIT_MS: f64 = 20.0;
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (orders, kills) = stage.size((100_000, 5), (6_000, 2));
    let shop = stage.shop("shop", "lease = \"1s\"")?;
    let consumer = shop.consumer()?;
    let mut relay = shop.relay(&[], None)?;
    let mut producer = shop.producer(&ProducerArgs {
        database: shop.database(),
        orders: Some(orders),
        customers: 1_000,
        rate: RATE,
        rollback_every: 50,
    })?;
    let mut outages = Vec::new();
    for kill in 1..=kills {
        wait_for_orders(&shop, kill * orders / (kills + 1))?;
        let killed_at = now_us();
        relay.kill()?;
        let lines_then = shop.lines_length();
        relay = shop.relay(&[], None)?;
        let recovered_at = wait_until_caught_up(&shop, &mut producer, lines_then)?;
        outages.push((killed_at, recovered_at));
        let seconds = (recovered_at - killed_at) as f64 / 1e6;
        stage.note(&format!("kill {kill} of {kills}: caught up after {seconds:.1} s"));
    }
    let counts = finish(&mut producer, producer_deadline(orders))
        .and_then(|()| producer.finish(PATIENCE))
        .and_then(|text| producer::counts(&text))?;
    let settled = shop.settled(PATIENCE);
    relay.terminate(Duration::from_secs(30))?;
    consumer.finish(PATIENCE)?;

    let latencies = latencies(&shop)?;
    let steady = |at: u64| !outages.iter().any(|(from, to)| (*from..=*to).contains(&at));
    let all = Percentiles::of(latencies.iter().map(|(_, took)| *took).collect())?;
    let calm = Percentiles::of(
        latencies
            .iter()
            .filter(|(at, _)| steady(*at))
            .map(|(_, took)| *took)
            .collect(),
    )?;
    let mut outcome = Outcome::of(shop.account()?);
    outcome.went_well(settled);
    outcome.check(counts.committed == orders, || {
        format!("{} orders were taken, not {orders}", counts.committed)
    });
    outcome.figure("keys", 1_000);
    outcome.figure("kills", outages.len());
    outcome.figure("rolled_back", counts.rolled_back);
    outcome.bounded("p50_ms", calm.p50, calm.p50 < P50_LIMIT_MS, "below 20");
    outcome.bounded("p99_ms", calm.p99, true, "anything");
    outcome.bounded("p50_ms_with_outages", all.p50, true, "anything");
    outcome.bounded("p99_ms_with_outages", all.p99, true, "anything");
    outcome.figure("steady_share", calm.count as f64 / all.count as f64);
    Ok(outcome)
}

fn producer_deadline(orders: u64) -> Duration {
    Duration::from_secs(orders / RATE * 4) + PATIENCE
}

/// The producer ends by itself when it has taken all orders.
fn finish(producer: &mut Process, deadline: Duration) -> Result<()> {
    producer.wait(deadline).map(drop)
}

fn wait_for_orders(shop: &Shop<'_>, wanted: u64) -> Result<()> {
    let connection = shop.connection()?;
    // The highest row number is the count: orders are never deleted, and counting 100,000 rows would disturb the
    // measurement.
    let count = || shop::number(&connection, "SELECT coalesce(max(rowid), 0) FROM orders");
    until(&format!("{wanted} orders are taken"), PATIENCE, || {
        Ok((count()? >= wanted).then_some(()))
    })
}

/// The new relay has published something and hardly anything is left, or there is nothing to publish any more.
fn wait_until_caught_up(shop: &Shop<'_>, producer: &mut Process, lines_then: u64) -> Result<u64> {
    let connection = shop.connection()?;
    until("the restarted relay has caught up", PATIENCE, || {
        let over = producer.ended()?.is_some();
        let (queued, _) = shop::waiting(&connection)?;
        let caught_up = shop.lines_length() != lines_then && queued <= CAUGHT_UP;
        Ok((caught_up || (over && queued == 0)).then(now_us))
    })
}

/// When each order was about to be committed, and how long after that its line was seen first, in milliseconds.
fn latencies(shop: &Shop<'_>) -> Result<Vec<(u64, f64)>> {
    let text = fs::read_to_string(shop.directory().join("latency.tsv"))?;
    let mut seen = HashSet::new();
    let mut latencies = Vec::new();
    for line in text.lines() {
        let (at, seen_at) = line
            .split_once('\t')
            .ok_or_else(|| Failure::new("a broken latency line"))?;
        let (at, seen_at): (u64, u64) = (at.parse()?, seen_at.parse()?);
        // A repeat after a kill is not the arrival.
        if seen.insert(at) {
            latencies.push((at, seen_at.saturating_sub(at) as f64 / 1_000.0));
        }
    }
    Ok(latencies)
}
