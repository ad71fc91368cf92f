//! What is at the broker and not yet known to be: the events that a kill at this moment repeats.

use std::time::Duration;

use postrider_testkit::proxy::{Faults, Proxy};

use super::{Arrivals, Pair, Relay};
use crate::failure::Result;
use crate::scenario::wait::until_every;

/// Queued rows that a relay must find when it goes on, so that it hands over full batches.
const BACKLOG: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Pair<'_> {
    /// Brings a relay to where at least `wanted` of its events are at the broker and unconfirmed, and gives how many.
    ///
    /// The relay is held until enough is queued for it, then goes on behind a proxy that keeps the broker's answers
    /// back. What a consumer has got and what still stands in `outbox`, in shards of this relay, is unconfirmed beyond
    /// doubt. The connection is spoilt afterwards: kill the relay, or cut the proxy.
    pub(in crate::scenario) fn catch_in_flight(
        &self,
        relay: &mut Relay,
        proxy: &Proxy,
        wanted: u64,
    ) -> Result<u64> {
        let owner = relay.id()?;
        // Behind the proxy it could not log in any more.
        until_every(LOOK_EVERY, "the relay has its broker", PATIENCE, || {
            Ok(relay.is_connected()?.then_some(()))
        })?;
        relay.freeze()?;
        let mut arrivals = self.arrivals()?;
        until_every(LOOK_EVERY, "a relay has a backlog", PATIENCE, || {
            Ok((self.queued_for(&owner)? >= BACKLOG).then_some(()))
        })?;
        // Only now: what was in flight before is answered by then, and small calls do not take the place of full ones.
        proxy.set(Faults {
            deaf: true,
            ..Faults::default()
        });
        relay.thaw()?;
        let mut ids = Vec::new();
        until_every(LOOK_EVERY, "enough is unconfirmed", PATIENCE, || {
            let unconfirmed = self.arrived_and_queued(&mut arrivals, &mut ids, &owner)?;
            Ok((unconfirmed >= wanted).then_some(unconfirmed))
        })
    }

    /// How many of the events that have arrived still stand in `outbox`, in shards that a relay owns. What arrives is
    /// added to `ids`.
    pub(in crate::scenario) fn arrived_and_queued(
        &self,
        arrivals: &mut Arrivals,
        ids: &mut Vec<String>,
        owner: &str,
    ) -> Result<u64> {
        ids.extend(arrivals.next()?.into_iter().map(|arrived| arrived.id));
        let rows = self.database().rows(
            "SELECT count(*) FROM outbox JOIN outbox_shard USING (shard) WHERE owner = $1 AND event_id = ANY ($2)",
            &[&owner, &*ids],
        )?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(count)?)
    }

    fn queued_for(&self, owner: &str) -> Result<u64> {
        let sql = "SELECT count(*) FROM outbox JOIN outbox_shard USING (shard) WHERE owner = $1";
        let rows = self.database().rows(sql, &[&owner])?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(count)?)
    }

    /// How many shards a relay owns.
    pub(in crate::scenario) fn shards_of(&self, owner: &str) -> Result<u64> {
        let sql = "SELECT count(*) FROM outbox_shard WHERE owner = $1";
        let rows = self.database().rows(sql, &[&owner])?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until the service has taken this many orders.
    pub(in crate::scenario) fn wait_for_orders(&self, wanted: u64) -> Result<()> {
        let what = format!("{wanted} orders are taken");
        until_every(LOOK_EVERY, &what, Duration::from_secs(600), || {
            // Every order is one of the customers' counts; there are far fewer customers than orders.
            let taken = self
                .database()
                .number("SELECT coalesce(sum(orders), 0)::bigint FROM customers")?;
            Ok((taken >= wanted).then_some(()))
        })
    }
}
