//! [kill-relays] Two relays under load; one is killed with -9 again and again with events in flight, and RabbitMQ is
//! killed and started once.

use std::time::Duration;

use postrider_testkit::proxy::Faults;

use super::outcome::Outcome;
use super::pair::{Load, Pair, Setup, Way};
use super::stage::Stage;
use crate::failure::Result;

/// Events that must be unconfirmed when a relay is killed.
const IN_FLIGHT: u64 = 100;
/// The default of the relay, named so that the bound is visible.
const WINDOW: u64 = 2_048;
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (events, kills) = stage.size((100_000, 3), (30_000, 1));
    // A start of RabbitMQ takes longer than all of the reduced size; [broker-outage] has one at every size.
    let restart_after = stage.size(2, 0);
    let pair = Pair::open(
        stage,
        &Setup {
            // Long, because the relay to be killed is frozen until it has a backlog, and must still own its shards
            // then.
            relay: format!("window = {WINDOW}\nlease = \"10s\""),
            ..Setup::default()
        },
    )?;
    let consumer = pair.consumer()?;
    let proxy = pair.proxy()?;
    let way = Way {
        proxy: Some(&proxy),
        ..Way::default()
    };
    let mut victim = pair.relay_by("relay-1", &way)?;
    let other = pair.relay("relay-2")?;
    let producer = pair.producer(&Load {
        events: Some(events),
        ..Load::default()
    })?;
    let (mut kills_in_flight, mut broker_restarts) = (Vec::new(), 0);
    for kill in 1..=kills {
        pair.wait_for_orders(kill * events / (kills + 2))?;
        let unconfirmed = pair.catch_in_flight(&mut victim, &proxy, IN_FLIGHT)?;
        victim.kill()?;
        stage.note(&format!("kill {kill} of {kills}: {unconfirmed} events in flight"));
        kills_in_flight.push(unconfirmed);
        proxy.set(Faults::default());
        victim = pair.relay_by("relay-1", &way)?;
        if kill == restart_after {
            pair.rabbit().kill9()?;
            pair.rabbit().start_again()?;
            broker_restarts += 1;
            stage.note("RabbitMQ was killed and is back");
        }
    }
    let counts = pair.produced(producer, PATIENCE)?;
    let settled = pair.settled(PATIENCE);
    let peak_rss_mib = other.peak_rss_mib();
    victim.terminate()?;
    other.terminate()?;
    pair.consumed(consumer)?;

    let report = pair.account()?;
    let (duplicates, redelivered) = (report.duplicates, report.redelivered);
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(counts.committed >= events, || {
        format!("{} orders were taken, not {events}", counts.committed)
    });
    outcome.check(kills_in_flight.iter().all(|count| *count >= IN_FLIGHT), || {
        format!("kills with {kills_in_flight:?} events in flight, at least {IN_FLIGHT} are wanted")
    });
    let bound = kills * WINDOW;
    outcome.check(duplicates <= bound, || {
        format!("{duplicates} duplicates, at most {bound} are allowed")
    });
    outcome.figure("keys", 1_000);
    outcome.figure("kills", kills);
    outcome.figure("kills_in_flight", kills_in_flight);
    outcome.figure("broker_restarts", broker_restarts);
    outcome.figure("duplicates", duplicates);
    outcome.figure("window", WINDOW);
    outcome.figure("redelivered", redelivered);
    outcome.figure("peak_rss_mib", peak_rss_mib);
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}
