//! [zombie-relay] A relay is frozen past its lease with confirms on their way to it, and woken when another has its
//! shards and has settled nothing of them yet: only the fence keeps it from settling.

use std::time::Duration;

use postrider_testkit::proxy::Faults;

use super::outcome::Outcome;
use super::pair::{Load, Pair, Relay, Setup, Way};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::{Failure, Result};

/// Events that the frozen relay must have at the broker without having settled them.
const IN_HAND: u64 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(120);

/// Who settled rows of whose shards. A settle locks the shards it writes for, so that the owner seen here is the
/// owner at that moment. Relays have a search path of their own, so that names are written in full.
const WITNESS: &str = "
    CREATE TABLE witness (who text NOT NULL, owner text, count bigint NOT NULL, at timestamptz NOT NULL);
    CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.witness SELECT session_user, owner, count(*), clock_timestamp()
            FROM gone JOIN public.outbox_shard USING (shard) GROUP BY owner;
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER DELETE ON outbox REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION witness();";

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let rounds = stage.size(5, 1);
    let pair = Pair::open(
        stage,
        &Setup {
            relay: "lease = \"2s\"".to_owned(),
            ..Setup::default()
        },
    )?;
    pair.database().execute(WITNESS)?;
    let consumer = pair.consumer()?;
    let proxy = pair.proxy()?;
    let mut zombie = pair.relay_by(
        "zombie",
        &Way {
            user: Some("zombie"),
            ..Way::default()
        },
    )?;
    let heir = pair.relay_by(
        "heir",
        &Way {
            user: Some("heir"),
            proxy: Some(&proxy),
        },
    )?;
    let (dead, alive) = (zombie.id()?, heir.id()?);
    let producer = pair.producer(&Load::default())?;
    let mut in_hand = Vec::new();
    for round in 1..=rounds {
        wait_for_share(&pair, &dead)?;
        wait_for_share(&pair, &alive)?;
        let hand = freeze_at_work(&pair, &mut zombie, &dead)?;
        // From here on the heir publishes and hears no confirm, so that it settles nothing.
        proxy.set(Faults {
            deaf: true,
            ..Faults::default()
        });
        until_every(LOOK_EVERY, "the heir has every shard", PATIENCE, || {
            Ok((pair.shards_of(&dead)? == 0 && pair.shards_of(&alive)? == 64).then_some(()))
        })?;
        let left = still_queued(&pair, &hand)?;
        stage.note(&format!(
            "round {round}: the zombie wakes with {left} events in its hands"
        ));
        in_hand.push(left);
        let lost_before = lost(&zombie)?;
        zombie.thaw()?;
        until_every(LOOK_EVERY, "the zombie has noticed", PATIENCE, || {
            Ok((lost(&zombie)? > lost_before).then_some(()))
        })?;
        proxy.set(Faults::default());
        proxy.cut();
    }
    wait_for_share(&pair, &dead)?;
    let counts = pair.stop_producing(producer)?;
    let settled = pair.settled(PATIENCE);
    zombie.terminate()?;
    heir.terminate()?;
    pair.consumed(consumer)?;

    let stolen = format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM witness WHERE who = 'zombie' AND owner IS DISTINCT FROM '{dead}'"
    );
    let zombie_settled = pair.database().number(&stolen)?;
    let own = format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM witness WHERE who = 'zombie' AND owner = '{dead}'"
    );
    let own = pair.database().number(&own)?;
    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.figure("rounds", rounds);
    outcome.figure("in_hand", in_hand.clone());
    outcome.check(in_hand.iter().all(|count| *count > 0), || {
        format!("{in_hand:?}: a zombie with nothing to settle proves nothing")
    });
    outcome.figure("zombie_settled", zombie_settled);
    outcome.check(zombie_settled == 0, || {
        format!("{zombie_settled} rows were settled by a relay that did not own them")
    });
    outcome.check(own > 0, || "the witness has seen nothing".to_owned());
    outcome.figure("duplicates", duplicates);
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}

fn wait_for_share(pair: &Pair<'_>, relay: &str) -> Result<()> {
    until_every(LOOK_EVERY, "a relay has its share", PATIENCE, || {
        Ok((pair.shards_of(relay)? >= 16).then_some(()))
    })
}

/// Freezes the relay at a moment at which events of its are at the broker and still queued; gives their ids.
fn freeze_at_work(pair: &Pair<'_>, relay: &mut Relay, id: &str) -> Result<Vec<String>> {
    for _ in 0..50 {
        let mut arrivals = pair.arrivals()?;
        relay.freeze()?;
        let mut ids = Vec::new();
        let caught = until_every(LOOK_EVERY, "", Duration::from_millis(500), || {
            let count = pair.arrived_and_queued(&mut arrivals, &mut ids, id)?;
            Ok((count >= IN_HAND).then_some(()))
        });
        if caught.is_ok() {
            return Ok(ids);
        }
        // Half a second of orders is queued now: the next moment finds the relay with full hands. Whether it does is
        // seen only once it is frozen, so there is nothing to wait for but that moment.
        relay.thaw()?;
        std::thread::sleep(Duration::from_millis(15));
    }
    Err(Failure::new("the relay was never caught at work"))
}

fn still_queued(pair: &Pair<'_>, ids: &[String]) -> Result<u64> {
    let sql = "SELECT count(*) FROM outbox WHERE event_id = ANY ($1)";
    let rows = pair.database().rows(sql, &[&ids])?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(u64::try_from(count)?)
}

/// How many leases a relay has said it lost.
fn lost(relay: &Relay) -> Result<usize> {
    relay.said("lease lost")
}
