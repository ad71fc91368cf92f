//! [fan-out] Every event of one outbox goes to two destinations, one of which is cut off for a while; a second
//! outbox, with a route of its own, is served by the same relay.

use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Exchanges, Pair, Setup};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const KEYS: u64 = 200;
/// The line of business that is cut off.
const LOST: usize = 1;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events = stage.size(20_000, 1_000);
    let setup = Setup {
        queues: 3,
        exchanges: Exchanges::PerLine,
        ..Setup::default()
    };
    let pair = Pair::open(stage, &setup)?;
    pair.configure(&configuration(&pair))?;
    pair.postrider(&["migrate", "up"])?;
    let queues = pair.queues();
    let url = pair.rabbit_url();
    let red = pair.consumer_apart("red", &url, &queues[..1])?;
    let blue = pair.consumer_apart("blue", &url, &queues[1..2])?;
    let green = pair.consumer_apart("green", &url, &queues[2..])?;
    let relay = pair.relay("relay-1")?;
    put(&pair, "a1", "outbox", events)?;
    put(&pair, "b1", "second", events)?;
    let arrived = |counts: [u64; 3]| {
        until_every(LOOK_EVERY, "the events have arrived", PATIENCE, || {
            let now = [red.effects()?, blue.effects()?, green.effects()?];
            Ok((now == counts).then_some(()))
        })
    };
    arrived([events; 3])?;

    pair.topology().unbind(LOST)?;
    stage.note("one destination is cut off");
    put(&pair, "a2", "outbox", events)?;
    put(&pair, "b2", "second", events)?;
    arrived([2 * events, events, 2 * events])?;
    let owed = until_every(LOOK_EVERY, "what is owed is parked", PATIENCE, || {
        let owed = Owed::look(&pair)?;
        Ok((owed.queued == 0).then_some(owed))
    })?;
    pair.topology().bind(LOST)?;
    stage.note("it is back");
    let settled = arrived([2 * events; 3]).and_then(|()| {
        until_every(LOOK_EVERY, "nothing is left", PATIENCE, || {
            Ok((Owed::look(&pair)?.rows() == 0).then_some(()))
        })
    });
    relay.terminate()?;
    let (red, blue, green) = (red.finish()?, blue.finish()?, green.finish()?);

    let report = pair.account_apart("a", &[&red, &blue], &queues[..2])?;
    let second = pair.account_apart("b", &[&green], &queues[2..])?;
    let duplicates = report.duplicates + second.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(second.is_clean() && second.committed == 2 * events, || {
        format!("the second outbox: {second}")
    });
    outcome.figure("second_outbox_arrived", second.arrived);
    outcome.figure("parked", owed.parked);
    outcome.figure("parked_destinations", owed.destinations.clone());
    outcome.check(owed.parked == events && owed.events == events, || {
        format!(
            "{} rows are parked for {} events, not one for each of {events}",
            owed.parked, owed.events
        )
    });
    outcome.check(
        owed.destinations.len() == 1 && owed.destinations[0].contains("shop1.exchange"),
        || format!("parked for {:?}", owed.destinations),
    );
    outcome.figure("second_outbox_parked", owed.second);
    outcome.check(owed.second == 0 && owed.dead == 0, || {
        format!(
            "{} of the second outbox are parked, {} of the first dead",
            owed.second, owed.dead
        )
    });
    outcome.figure("duplicates", duplicates);
    Ok(outcome)
}

fn configuration(pair: &Pair<'_>) -> String {
    let database = pair.database().url();
    let list = |of: fn(usize) -> String| (0..3).map(of).collect::<Vec<_>>().join(", ");
    let exchanges = list(|line| format!("{{ name = \"shop{line}.exchange\" }}"));
    let queues = list(|line| format!("{{ name = \"shop{line}\" }}"));
    let bindings = list(|line| {
        format!(
            "{{ exchange = \"shop{line}.exchange\", queue = \"shop{line}\", routing_key = \"order.shop{line}\" }}"
        )
    });
    let to = |line: usize| {
        format!(
            "{{ broker = \"rabbit\", exchange = \"shop{line}.exchange\", routing_key = \"order.shop{line}\" }}"
        )
    };
    format!(
        "[outbox.a]\nurl = \"{database}\"\n\n[outbox.b]\nurl = \"{database}\"\nprefix = \"second\"\n\n\
         [broker.rabbit]\nurl = \"{}\"\n\n[broker.rabbit.rabbitmq]\ndeclare = true\n\
         exchange = [{exchanges}]\nqueue = [{queues}]\nbinding = [{bindings}]\n\n\
         [[route]]\nwhen = {{ outbox = \"a\" }}\nto = [{}, {}]\n\n\
         [[route]]\nwhen = {{ outbox = \"b\" }}\nto = [{}]\n\n[log]\nformat = \"json\"\n",
        pair.rabbit_url(),
        to(0),
        to(1),
        to(2)
    )
}

/// Places orders whose events go into one of the outboxes; customers of one have nothing to do with those of the other.
fn put(pair: &Pair<'_>, name: &str, outbox: &str, events: u64) -> Result<()> {
    pair.database().execute(&format!(
        "BEGIN;
         CREATE TEMPORARY TABLE putting ON COMMIT DROP AS
            SELECT '{name}-' || lpad(i::text, 8, '0') AS id, '{outbox}-' || i % {KEYS} AS customer,
                   (SELECT count(*) FROM orders WHERE customer = '{outbox}-' || i % {KEYS}) + i / {KEYS} + 1 AS n, i
            FROM generate_series(0, {events} - 1) i;
         INSERT INTO orders (id, customer, n) SELECT id, customer, n FROM putting;
         INSERT INTO {outbox} (event_id, event_type, aggregate_type, aggregate_id, payload)
            SELECT id, 'OrderPlaced', 'SHOP', customer, '{{\"n\":' || n || '}}' FROM putting ORDER BY i;
         COMMIT"
    ))
}

/// What is still to be sent.
struct Owed {
    queued: u64,
    /// Rows, events and destinations that are parked for the first outbox.
    parked: u64,
    events: u64,
    dead: u64,
    destinations: Vec<String>,
    /// Rows that are parked for the second.
    second: u64,
}

impl Owed {
    fn look(pair: &Pair<'_>) -> Result<Self> {
        let count = |what: &str| pair.database().number(&format!("SELECT count({what}"));
        let sql = "SELECT DISTINCT destination FROM outbox_parked ORDER BY 1";
        let rows = pair.database().rows(sql, &[])?;
        Ok(Self {
            queued: count("*) FROM outbox")? + count("*) FROM second")?,
            parked: count("*) FROM outbox_parked")?,
            events: count("DISTINCT event_id) FROM outbox_parked")?,
            dead: count("*) FROM outbox_parked WHERE dead")?,
            destinations: rows
                .iter()
                .map(|row| Ok(row.try_get(0)?))
                .collect::<Result<_>>()?,
            second: count("*) FROM second_parked")?,
        })
    }

    fn rows(&self) -> u64 {
        self.queued + self.parked + self.second
    }
}
