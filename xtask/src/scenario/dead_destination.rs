//! [dead-destination] Two RabbitMQ brokers, one of them down while events for both arrive.
//!
//! The same load is put in twice, as fast as the database takes it: once with both brokers up, once with one of them
//! stopped. What is compared is the time from the first insert to the last arrival at the healthy broker. At the
//! reduced size the second broker is a virtual host behind a proxy that refuses: a RabbitMQ takes too long to start
//! twice.

use std::time::Duration;

use postrider_testkit::proxy::{Faults, Proxy};
use postrider_testkit::servers::rabbitmq::{PASSWORD, RabbitMq, USER};

use super::outcome::Outcome;
use super::pair::{Apart, Pair, Setup, arrival};
use super::shop::now_us;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const KEYS: u64 = 1_000;
/// Orders of one transaction when filling.
const FILL: u64 = 10_000;
const SHARE: f64 = 0.9;
/// A few seconds on a busy machine are no measurement.
const REDUCED_SHARE: f64 = 0.5;
const PEAK_LIMIT_MIB: u64 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    // For each of the two.
    let events = stage.size(200_000, 5_000);
    let setup = Setup {
        queues: 2,
        ..Setup::default()
    };
    let pair = Pair::open(stage, &setup)?;
    let other = Other::start(stage, &pair)?;
    pair.configure(&configuration(&pair, &other.url(&pair)))?;
    let healthy = pair.consumer_apart("healthy", &pair.rabbit_url(), &pair.queues()[..1])?;
    let failing = pair.consumer_apart("failing", &other.direct_url(&pair), &pair.queues()[1..])?;
    let mut relay = pair.relay("relay-1")?;

    let began = now_us();
    fill(&pair, "calm", events)?;
    wait_for_effects(&healthy, events)?;
    wait_for_effects(&failing, events)?;
    let calm = rate(&healthy, began, events, events)?;
    stage.note(&format!("{calm:.0} events a second without the fault"));

    other.stop()?;
    let mut worst = Worst::default();
    let began = now_us();
    fill(&pair, "fault", events)?;
    wait_for_effects(&healthy, 2 * events)?;
    let faulty = rate(&healthy, began, 2 * events, events)?;
    // What was charged or died stays until the broker is back; to count it meanwhile would slow what is measured.
    worst.look(&pair)?;
    let share = faulty / calm;
    stage.note(&format!("{faulty:.0} events a second with the fault"));
    let (queued, parked) = pair.waiting()?;
    other.start_again()?;
    let back = now_us();
    let drained = until_every(LOOK_EVERY, "everything has arrived", PATIENCE, || {
        worst.look(&pair)?;
        let empty = pair.waiting()? == (0, 0);
        Ok((empty && failing.effects()? >= 2 * events).then_some(()))
    });
    let drained_s = now_us().saturating_sub(back) as f64 / 1e6;
    relay.expect_alive()?;
    let peak = relay.peak_rss_mib();
    relay.terminate()?;
    let left = [healthy.finish()?, failing.finish()?];

    let report = pair.account_apart("", &left.iter().collect::<Vec<_>>(), &[])?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(drained);
    let limit = stage.size(SHARE, REDUCED_SHARE);
    outcome.bounded("share", share, share >= limit, &format!("at least {limit}"));
    outcome.figure("rate_calm", calm as u64);
    outcome.figure("rate_fault", faulty as u64);
    outcome.check(queued + parked >= events, || {
        format!("{queued} queued and {parked} parked during the fault: it was none")
    });
    outcome.figure("parked", parked);
    outcome.figure("dead", worst.dead);
    outcome.figure("charged", worst.charged);
    outcome.check(worst.dead == 0 && worst.charged == 0, || {
        format!("{} events were dead, {} charged", worst.dead, worst.charged)
    });
    outcome.bounded("drained_s", drained_s, true, "anything");
    outcome.figure("peak_rss_mib", peak);
    outcome.check(peak.is_some_and(|peak| peak < PEAK_LIMIT_MIB), || {
        format!("{peak:?} MiB resident, it must be below {PEAK_LIMIT_MIB}")
    });
    outcome.figure("duplicates", duplicates);
    Ok(outcome)
}

/// The broker that fails.
enum Other {
    Node(Box<RabbitMq>),
    Behind(Proxy),
}

impl Other {
    fn start(stage: &Stage, pair: &Pair<'_>) -> Result<Self> {
        match stage.reduced {
            false => Ok(Self::Node(Box::new(RabbitMq::start()?))),
            true => {
                pair.rabbit().add_vhost("other")?;
                Ok(Self::Behind(pair.proxy()?))
            }
        }
    }

    fn url(&self, pair: &Pair<'_>) -> String {
        match self {
            Self::Node(node) => node.url("/"),
            Self::Behind(proxy) => {
                let login = format!("{USER}:{PASSWORD}");
                pair.rabbit().url_by(&login, proxy.port(), "other")
            }
        }
    }

    /// For a consumer, which has no need to go through a proxy.
    fn direct_url(&self, pair: &Pair<'_>) -> String {
        match self {
            Self::Node(node) => node.url("/"),
            Self::Behind(_) => pair.rabbit().url("other"),
        }
    }

    fn stop(&self) -> Result<()> {
        match self {
            Self::Node(node) => node.stop()?,
            Self::Behind(proxy) => {
                proxy.set(Faults {
                    refuse: true,
                    ..Faults::default()
                });
                proxy.cut();
            }
        }
        Ok(())
    }

    fn start_again(&self) -> Result<()> {
        match self {
            Self::Node(node) => node.start_again()?,
            Self::Behind(proxy) => proxy.set(Faults::default()),
        }
        Ok(())
    }
}

fn configuration(pair: &Pair<'_>, other: &str) -> String {
    let broker = |name: &str, url: &str, line: usize| {
        format!(
            "[broker.{name}]\nurl = \"{url}\"\n\n[broker.{name}.rabbitmq]\ndeclare = true\n\
             exchange = [{{ name = \"shop.exchange\" }}]\nqueue = [{{ name = \"shop{line}\" }}]\n\
             binding = [{{ exchange = \"shop.exchange\", queue = \"shop{line}\", routing_key = \"order\" }}]\n\n\
             [[route]]\nwhen = {{ aggregate_type = \"SHOP{line}\" }}\n\
             to = [{{ broker = \"{name}\", exchange = \"shop.exchange\", routing_key = \"order\" }}]\n\n"
        )
    };
    format!(
        "[outbox.shop]\nurl = \"{}\"\n\n{}{}[log]\nformat = \"json\"\n",
        pair.database().url(),
        broker("healthy", &pair.rabbit_url(), 0),
        broker("failing", other, 1)
    )
}

/// Puts in as many events for each of the two, by turns.
fn fill(pair: &Pair<'_>, name: &str, each: u64) -> Result<()> {
    for part in 0..(2 * each).div_ceil(FILL) {
        pair.fill(&format!("{name}{part:02}"), FILL, KEYS)?;
    }
    Ok(())
}

fn wait_for_effects(consumer: &Apart, wanted: u64) -> Result<()> {
    until_every(
        LOOK_EVERY,
        "the events of a broker have arrived",
        PATIENCE,
        || Ok((consumer.effects()? >= wanted).then_some(())),
    )
}

/// Events a second, from a moment to the arrival of the last.
fn rate(consumer: &Apart, began: u64, up_to: u64, events: u64) -> Result<f64> {
    let last = arrival(consumer.directory(), usize::try_from(up_to)?)?.unwrap_or_else(now_us);
    Ok(events as f64 / (last.saturating_sub(began) as f64 / 1e6))
}

/// The most that was ever seen.
#[derive(Default)]
struct Worst {
    dead: u64,
    charged: u64,
}

impl Worst {
    fn look(&mut self, pair: &Pair<'_>) -> Result<()> {
        let sql =
            "SELECT count(*) FILTER (WHERE dead), count(*) FILTER (WHERE attempts > 0) FROM outbox_parked";
        if let Some(row) = pair.database().rows(sql, &[])?.first() {
            let number = |at: usize| -> Result<u64> { Ok(u64::try_from(row.try_get::<_, i64>(at)?)?) };
            self.dead = self.dead.max(number(0)?);
            self.charged = self.charged.max(number(1)?);
        }
        Ok(())
    }
}
