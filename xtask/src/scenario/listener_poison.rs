//! [listener-poison] Events that no handler can use, one that ends the process that works on it, and dead letters that
//! cannot be published at first: all of them arrive with their reason, and everything else takes effect.

use std::collections::BTreeMap;
use std::time::Duration;

use super::account::Report;
use super::listeners::{effects, fill, listen, nothing_done, report};
use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::process::Process;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const QUEUE: &str = "poisoned";
const EXCHANGE: &str = "poisoned.dead";
const EVERY: u64 = 100;
/// Redeliveries that are allowed.
const LIMIT: u64 = 4;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events: u64 = stage.size(20_000, 2_000);
    let pair = Pair::open(stage, &Setup::default())?;
    nothing_done(&pair)?;
    let mut outcome = Outcome::of(Report::default());
    let mut listener = Restarted::new(stage, &pair)?;

    // Nobody can take dead letters yet, and everything else must take effect all the same.
    let (number, every) = (events.to_string(), EVERY.to_string());
    let filled = fill(&pair, QUEUE, &["--events", &number, "--poison-every", &every])?;
    let poison = filled["poison"].as_u64().unwrap_or(0);
    outcome.went_well(listener.until("everything else has taken effect", || {
        Ok(effects(&pair)?.0 >= events - poison)
    }));
    let early = pair.ready("dead")?;
    outcome.check(early == 0, || {
        format!("{early} dead letters before there was a place for them")
    });
    pair.lead_to(EXCHANGE, "dead")?;
    outcome.went_well(listener.until("every dead letter has arrived", || {
        Ok(pair.ready("dead")? >= poison)
    }));

    // One event ends every process that works on it.
    let (first, at) = ((events + 1).to_string(), (events + events / 2).to_string());
    fill(
        &pair,
        QUEUE,
        &["--events", &number, "--first", &first, "--crash-at", &at],
    )?;
    let wanted = 2 * events - poison - 1;
    outcome.went_well(listener.until("it is given up", || Ok(pair.ready("dead")? > poison)));
    outcome.went_well(listener.until("all others have taken effect", || Ok(effects(&pair)?.0 >= wanted)));

    let deaths = listener.deaths;
    stage.note(&report(listener.process)?.to_string());
    let left = pair.ready(QUEUE)?;
    let mut causes: BTreeMap<String, u64> = BTreeMap::new();
    for cause in pair.headers("dead", "postrider-dead-cause")? {
        *causes.entry(cause).or_default() += 1;
    }
    let (rows, of_events) = effects(&pair)?;
    outcome.check(rows == wanted && of_events == wanted, || {
        format!("{rows} effects of {of_events} events, not {wanted}")
    });
    let count = |cause: &str| causes.get(cause).copied().unwrap_or(0);
    outcome.check(count("attempts") == poison && count("redelivered") == 1, || {
        format!("dead letters by cause: {causes:?}, of {poison} poisoned events")
    });
    outcome.check(left == 0, || format!("{left} messages are left in the queue"));
    outcome.check(deaths == LIMIT + 1, || {
        format!("it died {deaths} times, not {}", LIMIT + 1)
    });
    outcome.figure("effects", rows);
    outcome.figure("attempts", count("attempts"));
    outcome.figure("redelivered", count("redelivered"));
    outcome.figure("deaths", deaths);
    Ok(outcome)
}

/// A listener that is started again when it dies, as a service manager would.
struct Restarted<'a> {
    stage: &'a Stage,
    pair: &'a Pair<'a>,
    process: Process,
    deaths: u64,
}

impl<'a> Restarted<'a> {
    fn new(stage: &'a Stage, pair: &'a Pair<'a>) -> Result<Self> {
        Ok(Self {
            stage,
            pair,
            process: start(stage, pair)?,
            deaths: 0,
        })
    }

    fn until(&mut self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        until_every(LOOK_EVERY, what, PATIENCE, || {
            self.keep_alive()?;
            Ok(holds()?.then_some(()))
        })
    }

    fn keep_alive(&mut self) -> Result<()> {
        if self.process.ended()?.is_some() {
            self.deaths += 1;
            self.process = start(self.stage, self.pair)?;
        }
        Ok(())
    }
}

/// With room for every poisoned event: those wait here until there is a place for them.
fn start(stage: &Stage, pair: &Pair<'_>) -> Result<Process> {
    let limit = LIMIT.to_string();
    let arguments = [
        "--prefetch",
        "500",
        "--dead-exchange",
        EXCHANGE,
        "--redeliveries",
        &limit,
    ];
    listen(stage, pair, QUEUE, &arguments)
}
