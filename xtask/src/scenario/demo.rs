//! The demo, as a person would run it, held to what it promises.

use serde_json::Value;

use super::account::Account;
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Doing, Failure, Result};

const P50_LIMIT_MS: f64 = 10.0;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (seconds, least) = stage.size((10, 2_000), (3, 600));
    let output = stage
        .postrider(
            stage.directory(),
            &["demo", "--for", &format!("{seconds}s"), "--json", "--dir", "demo"],
        )
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let summary: Value = serde_json::from_str(last).doing(|| {
        format!(
            "the demo said {last:?} and {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    let count = |name: &str| {
        let value = summary[name].as_u64();
        value.ok_or_else(|| Failure::new(format!("the demo's summary has no {name}: {summary}")))
    };
    let account = Account {
        committed: count("committed")?,
        arrived: count("published")?,
        lost: count("lost")?,
        phantom: count("phantom")?,
        reordered: count("reordered")?,
        duplicate_effects: count("duplicate_effects")?,
    };
    let committed = account.committed;
    let mut outcome = Outcome::of(account);
    outcome.check(output.status.success(), || {
        format!("the demo ended with {}", output.status)
    });
    outcome.check(committed >= least, || {
        format!("{committed} orders in {seconds} s, it must be {least}")
    });
    outcome.figure("rolled_back", count("rolled_back")?);
    outcome.figure("effects", count("effects")?);
    let milliseconds = |name: &str| summary[name].as_f64().unwrap_or(f64::INFINITY);
    let p50 = milliseconds("p50_ms");
    outcome.bounded("p50_ms", p50, p50 < P50_LIMIT_MS, "below 10");
    outcome.bounded("p99_ms", milliseconds("p99_ms"), true, "anything");
    Ok(outcome)
}
