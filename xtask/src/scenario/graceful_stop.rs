//! [graceful-stop] SIGTERM under load: exit code 0, nothing is repeated, and a new relay publishes within a second.
//!
//! Two successors are measured: one that is started when the old relay has ended, from the end of the old process on,
//! and one that runs beside it already, by the first event of a shard that it had to take over.

use std::collections::HashSet;
use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Arrivals, Load, Pair, Relay, Setup};
use super::shop::now_us;
use super::stage::Stage;
use super::wait::until;
use crate::failure::Result;

const LIMIT_S: f64 = 1.0;
const RATE: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let rounds = stage.size(5, 1);
    let pair = Pair::open(stage, &Setup::default())?;
    let consumer = pair.consumer()?;
    let mut relay = pair.relay("relay-0")?;
    let producer = pair.producer(&Load {
        rate: RATE,
        ..Load::default()
    })?;
    pair.wait_for_orders(RATE)?;
    let (mut started, mut beside) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        wait_until_at_work(&pair, &relay)?;
        let all = customers(&pair, None)?;
        let watch = Watch::begin(&pair, all)?;
        relay.terminate()?;
        let (ended, place) = (now_us(), last_order(&pair)?);
        relay = pair.relay(&format!("relay-{round}"))?;
        started.push(watch.first_after(ended, &place)?);

        let next = pair.relay(&format!("relay-{round}-beside"))?;
        wait_until_at_work(&pair, &next)?;
        wait_until_at_work(&pair, &relay)?;
        let watch = Watch::begin(&pair, customers(&pair, Some(&relay.id()?))?)?;
        relay.terminate()?;
        let (ended, place) = (now_us(), last_order(&pair)?);
        beside.push(watch.first_after(ended, &place)?);
        relay = next;
        stage.note(&format!(
            "round {round}: {:.3} s when started anew, {:.3} s when beside",
            started[started.len() - 1],
            beside[beside.len() - 1]
        ));
    }
    let counts = pair.stop_producing(producer)?;
    let settled = pair.settled(PATIENCE);
    relay.terminate()?;
    pair.consumed(consumer)?;

    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.figure("stops", 2 * rounds + 1);
    outcome.figure("duplicates", duplicates);
    outcome.check(duplicates == 0, || format!("{duplicates} events were repeated"));
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    for (name, took) in [
        ("successor_s", worst(&started)),
        ("successor_beside_s", worst(&beside)),
    ] {
        outcome.bounded(name, took, took <= LIMIT_S, &format!("at most {LIMIT_S}"));
    }
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}

/// A relay is at work when it owns its part of the shards.
fn wait_until_at_work(pair: &Pair<'_>, relay: &Relay) -> Result<()> {
    let id = relay.id()?;
    until("a relay is at work", PATIENCE, || {
        Ok((pair.shards_of(&id)? >= 16).then_some(()))
    })
}

/// The customers whose shard a relay owns; all without one.
fn customers(pair: &Pair<'_>, owner: Option<&str>) -> Result<HashSet<String>> {
    let sql = "SELECT name FROM customers JOIN outbox_shard
        ON shard = ('x' || substr(md5('SHOP0' || E'\\x1f' || name), 1, 4))::bit(16)::integer % 64
        WHERE $1::text IS NULL OR owner = $1";
    let rows = pair.database().rows(sql, &[&owner])?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The id that every order committed before now is below: those under way at this moment may be a little above the
/// last.
fn last_order(pair: &Pair<'_>) -> Result<String> {
    let rows = pair.database().rows("SELECT max(id) FROM orders", &[])?;
    let last: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0))?;
    let number: u64 = last.rsplit('-').next().unwrap_or_default().parse()?;
    Ok(format!("order-{:08}", number + 2 * Load::default().connections))
}

/// Waits for the first event of some customers.
struct Watch {
    arrivals: Arrivals,
    customers: HashSet<String>,
}

impl Watch {
    fn begin(pair: &Pair<'_>, customers: HashSet<String>) -> Result<Self> {
        Ok(Self {
            arrivals: pair.arrivals()?,
            customers,
        })
    }

    /// How many seconds after `ended` the first event arrived that was committed after it, which the old relay cannot
    /// have published.
    fn first_after(mut self, ended: u64, place: &str) -> Result<f64> {
        let first = until("the successor publishes", PATIENCE, || {
            let arrived = self.arrivals.next()?;
            let by_successor = arrived
                .iter()
                .find(|one| one.id.as_str() > place && self.customers.contains(&one.key));
            Ok(by_successor.and_then(|one| one.at_us))
        })?;
        Ok(first.saturating_sub(ended) as f64 / 1e6)
    }
}
