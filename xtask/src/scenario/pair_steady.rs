//! [pair-steady] PostgreSQL to RabbitMQ with two relays and nothing going wrong: what the other scenarios start from.

use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Load, Pair, Setup};
use super::percentiles::Percentiles;
use super::stage::Stage;
use crate::failure::Result;

const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::open(stage, &Setup::default())?;
    let consumer = pair.consumer()?;
    let relays = [pair.relay("relay-1")?, pair.relay("relay-2")?];
    let events = stage.size(20_000, 4_000);
    let producer = pair.producer(&Load {
        events: Some(events),
        rate: 1_000,
        ..Load::default()
    })?;
    let counts = pair.produced(producer, PATIENCE)?;
    let settled = pair.settled(PATIENCE);
    for relay in relays {
        relay.terminate()?;
    }
    pair.consumed(consumer)?;

    let latencies = Percentiles::of(pair.latencies()?.iter().map(|(_, took)| *took).collect())?;
    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(counts.committed >= events, || {
        format!("{} orders were taken, not {events}", counts.committed)
    });
    outcome.check(duplicates == 0, || {
        format!("{duplicates} events were published twice")
    });
    outcome.figure("duplicates", duplicates);
    outcome.figure("rolled_back", counts.rolled_back);
    outcome.bounded("p50_ms", latencies.p50, true, "anything");
    outcome.bounded("p99_ms", latencies.p99, true, "anything");
    Ok(outcome)
}
