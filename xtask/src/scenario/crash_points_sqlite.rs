//! [crash-points-sqlite] The real process ends at every named crash point, again and again, while orders go on.

use std::time::Duration;

use postrider_core::crash::POINTS;

use super::outcome::Outcome;
use super::process::aborted;
use super::shop;
use super::stage::{Shop, Stage};
use super::wait::until;
use super::{ProducerArgs, producer};
use crate::failure::Result;

/// The passage at which the point is fatal, round by round. It varies, so that the process dies with little and with
/// much under way.
const NTH: [u64; 7] = [1, 4, 2, 9, 3, 16, 5];
/// After so many deaths a relay is left alone until it has settled something. The engine gets careful after three
/// deaths in a row and, after six, parks the row that it was trying as the culprit: right for a row that kills the
/// relay, which none of these does.
const DEATHS_IN_A_ROW: u64 = 4;
/// A relay that waits for its predecessor's lease and then for the sixteenth passage takes seconds, not minutes.
const TO_CRASH: Duration = Duration::from_secs(60);
const TO_SETTLE: Duration = Duration::from_secs(120);
const TO_STOP: Duration = Duration::from_secs(30);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let rounds = stage.size(20, 2);
    let shop = stage.shop("shop", "lease = \"500ms\"")?;
    let producer = shop.producer(&ProducerArgs {
        database: shop.database(),
        orders: None,
        customers: 40,
        rate: 250,
        rollback_every: 9,
    })?;
    let mut consumer = shop.consumer()?;
    let (mut kills, mut survivals) = (0_u64, Vec::new());
    for (index, point) in POINTS.iter().enumerate() {
        stage.note(&format!("{point}: {rounds} times"));
        for round in 0..rounds {
            let n = NTH[round % NTH.len()];
            let status = shop.relay(&[], Some((point, n)))?.wait(TO_CRASH)?;
            match aborted(status) {
                true => kills += 1,
                false => survivals.push(format!(
                    "{point}:{n} ended with {status} and not by the crash point"
                )),
            }
            if kills % DEATHS_IN_A_ROW == 0 {
                make_progress(&shop)?;
            }
        }
        if index == POINTS.len() / 2 {
            // A consumer that loses its place sees every line again; only its inbox knows better.
            consumer.finish(TO_SETTLE)?;
            consumer = shop.consumer()?;
        }
    }
    let counts = producer::counts(&producer.finish(TO_STOP)?)?;
    stage.note("no more orders; the last relay finishes the work");
    let relay = shop.relay(&[], None)?;
    let settled = shop.settled(TO_SETTLE);
    relay.terminate(TO_STOP)?;
    consumer.finish(TO_SETTLE)?;

    let mut outcome = Outcome::of(shop.account()?);
    outcome.went_well(settled);
    outcome.figure("points", POINTS.len());
    outcome.figure("kills", kills);
    outcome.figure("rolled_back", counts.rolled_back);
    for survival in survivals {
        outcome.check(false, || survival);
    }
    Ok(outcome)
}

/// A relay that nothing happens to, until it has settled something; then it is stopped in an orderly way.
fn make_progress(shop: &Shop<'_>) -> Result<()> {
    let connection = shop.connection()?;
    let settled = || shop::number(&connection, "SELECT coalesce(max(id), 0) FROM outbox_sent");
    let before = settled()?;
    let relay = shop.relay(&[], None)?;
    until("a relay in peace has settled something", TO_SETTLE, || {
        Ok((settled()? > before).then_some(()))
    })?;
    relay.terminate(TO_STOP)
}
