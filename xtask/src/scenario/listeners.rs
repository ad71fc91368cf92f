//! Listeners as processes of their own, for scenarios about what they do.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::pair::Pair;
use super::process::Process;
use super::stage::Stage;
use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};

/// What a handler writes: a table that takes an effect as often as it happens.
const EFFECTS: &str = "DROP TABLE IF EXISTS effects, inbox; CREATE TABLE effects (
     at bigint GENERATED ALWAYS AS IDENTITY, done timestamptz NOT NULL DEFAULT clock_timestamp(),
     id text NOT NULL, key text NOT NULL, n bigint NOT NULL)";
/// How long a listener may take to finish what it has in hand.
const GOODBYE: Duration = Duration::from_secs(60);

/// Fills a queue, which is declared with its place for dead letters; gives what the publisher says of it.
pub(super) fn fill(pair: &Pair<'_>, queue: &str, arguments: &[&str]) -> Result<Value> {
    let output = bench()?
        .args(["copies", "--rabbit", &pair.rabbit_url(), "--queue", queue])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .doing(|| "publishing copies".to_owned())?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(Failure::new(format!("copies: {}", output.status))),
    }
}

/// A table without effects, and a consumer that has seen nothing.
pub(super) fn nothing_done(pair: &Pair<'_>) -> Result<()> {
    pair.database().execute(EFFECTS)
}

/// Starts a listener of a queue.
pub(super) fn listen(stage: &Stage, pair: &Pair<'_>, queue: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = bench()?;
    command.args(["--url", pair.database().url(), "listen"]);
    command.args(["--rabbit", &pair.rabbit_url(), "--queue", queue]);
    command.args(arguments);
    Process::start("a listener", command, &stage.path("listeners.log"))
}

/// Stops a listener and gives its report.
pub(super) fn report(listener: Process) -> Result<Value> {
    Ok(serde_json::from_str(&listener.finish(GOODBYE)?)?)
}

/// How many effects there are, and of how many events.
pub(super) fn effects(pair: &Pair<'_>) -> Result<(u64, u64)> {
    let database = pair.database();
    Ok((
        database.number("SELECT count(*) FROM effects")?,
        database.number("SELECT count(DISTINCT id) FROM effects")?,
    ))
}

fn bench() -> Result<Command> {
    Ok(Command::new(release_binary("postrider-bench")?))
}
