//! [drain-rabbitmq] A queue of events is drained into RabbitMQ, beside a program without an engine that publishes the
//! same messages by the same client.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::process::Process;
use super::stage::Stage;
use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};

/// What the relay must reach of what the client reaches alone.
const SHARE: f64 = 0.65;
const KEYS: u64 = 1_000;
/// The sink's own number, for both.
const CHANNELS: &str = "8";
/// What one publish call of the relay has at most, on each channel.
const IN_FLIGHT: &str = "100";
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (events, rounds) = stage.size((100_000, 3), (20_000, 1));
    let pair = Pair::open(stage, &history("none"))?;
    let mut seconds = [0.0; 3];
    // Each in turn, again and again: whatever else the machine does then falls on all of them.
    for round in 0..rounds {
        pair.reconfigure(&history("none"))?;
        let drained = drain(stage, &pair, &format!("n{round}"), events)?;
        let alone = publish_again(&pair, events)?;
        consume(&pair)?;
        pair.reconfigure(&history("7d"))?;
        let with_history = drain(stage, &pair, &format!("h{round}"), events)?;
        consume(&pair)?;
        let rates = [drained, alone, with_history];
        stage.note(&format!(
            "{:?} events a second: relay, client alone, relay with history",
            rates.map(|seconds| rate(events, seconds))
        ));
        seconds = std::array::from_fn(|arm| seconds[arm] + rates[arm]);
    }
    let [drained, alone, with_history] = seconds;
    let share = alone / drained;
    let mut outcome = Outcome::of(pair.account()?);
    outcome.bounded("share", share, share >= SHARE, "at least 0.65");
    outcome.figure("relay_per_s", rate(events * rounds, drained));
    outcome.figure("raw_per_s", rate(events * rounds, alone));
    outcome.figure("with_history_per_s", rate(events * rounds, with_history));
    Ok(outcome)
}

fn history(kept: &str) -> Setup {
    let dedup = if kept == "none" { "none" } else { "1d" };
    Setup {
        outbox: format!("history = \"{kept}\"\ndedup = \"{dedup}\""),
        ..Setup::default()
    }
}

fn rate(events: u64, seconds: f64) -> u64 {
    (events as f64 / seconds).round() as u64
}

/// Seconds that a relay takes for so many queued events, from the first that a reader could see to the last.
fn drain(stage: &Stage, pair: &Pair<'_>, name: &str, events: u64) -> Result<f64> {
    pair.fill(name, events, KEYS)?;
    // What the relay meets is a table at rest.
    pair.database().execute("VACUUM ANALYZE outbox")?;
    pair.database().execute("CHECKPOINT")?;
    let watch = bench(pair, "watch-queue", events)?;
    let watch = Process::start("the watch", watch, &stage.path("watch.log"))?;
    let relay = pair.relay("relay-1")?;
    let seen: Value = serde_json::from_str(&watch.finish(PATIENCE)?)?;
    relay.terminate()?;
    let left = pair.waiting()?;
    if left != (0, 0) {
        return Err(Failure::new(format!("queued and parked are left: {left:?}")));
    }
    let (first, seconds) = (figure(&seen, "first")?, figure(&seen, "seconds")?);
    // What was there at the first look is not part of the time.
    Ok(seconds * events as f64 / (events as f64 - first))
}

/// Seconds that the client alone takes for what the relay has just sent.
fn publish_again(pair: &Pair<'_>, events: u64) -> Result<f64> {
    let output = bench(pair, "publish-again", events)?
        .args(["--channels", CHANNELS, "--in-flight", IN_FLIGHT])
        .stderr(Stdio::inherit())
        .output()
        .doing(|| "publishing again".to_owned())?;
    match output.status.success() {
        true => figure(&serde_json::from_slice(&output.stdout)?, "seconds"),
        false => Err(Failure::new(format!("publish-again: {}", output.status))),
    }
}

fn bench(pair: &Pair<'_>, command: &str, events: u64) -> Result<Command> {
    let mut bench = Command::new(release_binary("postrider-bench")?);
    bench.args([command, "--rabbit", &pair.rabbit_url()]);
    for queue in pair.queues() {
        bench.args(["--queue", &queue]);
    }
    bench.args(["--messages", &events.to_string()]);
    Ok(bench)
}

/// Lets everything take effect, and leaves the queue empty for the next.
fn consume(pair: &Pair<'_>) -> Result<()> {
    let consumer = pair.consumer()?;
    pair.settled(PATIENCE)?;
    pair.consumed(consumer)
}

fn figure(found: &Value, name: &str) -> Result<f64> {
    let number = found[name].as_f64();
    number.ok_or_else(|| Failure::new(format!("there is no {name} in {found}")))
}
