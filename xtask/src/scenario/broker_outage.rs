//! [broker-outage] RabbitMQ is stopped with thousands of events queued, for far longer than three attempts take.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::shop::now_us;
use super::stage::Stage;
use super::wait::{until, until_every};
use crate::failure::{Failure, Result};

const EVENTS: u64 = 5_000;
/// Events before the outage, so that it hits a relay at work.
const BEFORE: u64 = 500;
const KEYS: u64 = 100;
const RESUME_LIMIT_S: f64 = 5.0;
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let outage = stage.size(Duration::from_secs(30), Duration::from_secs(4));
    let pair = Pair::open(
        stage,
        &Setup {
            relay: "retry = { max_attempts = 3 }".to_owned(),
            ..Setup::default()
        },
    )?;
    let consumer = pair.consumer()?;
    let relay = pair.relay("relay-1")?;
    pair.fill("before", BEFORE, KEYS)?;
    pair.settled(PATIENCE)?;

    stage.note("stopping RabbitMQ");
    pair.rabbit().stop()?;
    let began = Instant::now();
    pair.fill("during", EVENTS, KEYS)?;
    let mut worst = Worst::default();
    until_every(
        Duration::from_millis(100),
        "the outage is over",
        2 * outage,
        || {
            worst.look(&pair)?;
            Ok((began.elapsed() >= outage).then_some(()))
        },
    )?;
    let (queued, _) = pair.waiting()?;
    let mut arrivals = pair.arrivals()?;
    let back = return_of(&pair)?;
    let outage_s = began.elapsed().as_secs_f64();
    let first = until("something arrives again", PATIENCE, || {
        worst.look(&pair)?;
        Ok(arrivals.next()?.first().and_then(|arrived| arrived.at_us))
    })?;
    let resume_s = first.saturating_sub(back) as f64 / 1e6;
    stage.note(&format!(
        "RabbitMQ is back; publishing again after {resume_s:.1} s"
    ));
    let settled = pair.settled(PATIENCE);
    worst.look(&pair)?;
    relay.terminate()?;
    pair.consumed(consumer)?;

    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(queued == EVENTS, || {
        format!("{queued} events were queued during the outage, not {EVENTS}")
    });
    outcome.figure("outage_s", (outage_s * 10.0).round() / 10.0);
    outcome.check(outage_s >= outage.as_secs_f64(), || {
        "the outage was too short".to_owned()
    });
    outcome.figure("queued", queued);
    outcome.figure("parked", worst.parked);
    outcome.figure("dead", worst.dead);
    outcome.check(worst.parked == 0 && worst.dead == 0, || {
        format!("{} events were parked, {} dead", worst.parked, worst.dead)
    });
    outcome.bounded("resume_s", resume_s, resume_s <= RESUME_LIMIT_S, "at most 5");
    outcome.figure("duplicates", duplicates);
    Ok(outcome)
}

/// The most that was ever seen.
#[derive(Default)]
struct Worst {
    parked: u64,
    dead: u64,
}

impl Worst {
    fn look(&mut self, pair: &Pair<'_>) -> Result<()> {
        let count = |rows: &str| {
            pair.database()
                .number(&format!("SELECT count(*) FROM outbox_parked {rows}"))
        };
        self.parked = self.parked.max(count("")?);
        self.dead = self.dead.max(count("WHERE dead")?);
        Ok(())
    }
}

/// Starts RabbitMQ again and gives the moment at which it took connections: its tools say so only later.
fn return_of(pair: &Pair<'_>) -> Result<u64> {
    let port = pair.rabbit().port();
    thread::scope(|scope| {
        let listening = scope.spawn(move || {
            until("RabbitMQ listens", PATIENCE, || {
                Ok(TcpStream::connect(("127.0.0.1", port)).ok().map(|_| now_us()))
            })
        });
        pair.rabbit().start_again()?;
        listening
            .join()
            .map_err(|_| Failure::new("nobody watched the port"))?
    })
}
