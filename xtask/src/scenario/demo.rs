//! The demo, as a person would run it, held to what it promises. Its files are counted again, by code of our own.

use rusqlite::Connection;
use serde_json::Value;

use super::account::{Books, Report, write_arrived};
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Doing, Failure, Result};

const P50_LIMIT_MS: f64 = 10.0;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (seconds, least) = stage.size((10, 2_000), (3, 600));
    let duration = format!("{seconds}s");
    let arguments = ["demo", "--for", &duration, "--json", "--dir", "demo"];
    let output = stage.postrider(stage.directory(), &arguments).output()?;
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
    let counted = count_again(stage)?;
    let says = Report {
        committed: count("committed")?,
        lost: count("lost")?,
        phantom: count("phantom")?,
        reordered: count("reordered")?,
        duplicate_effects: count("duplicate_effects")?,
        ..counted.clone()
    };
    let committed = counted.committed;
    let mut outcome = Outcome::of(counted.clone());
    outcome.check(output.status.success(), || {
        format!("the demo ended with {}", output.status)
    });
    outcome.check(says == counted, || {
        format!("the demo says {says:?}, its files say {counted:?}")
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

fn count_again(stage: &Stage) -> Result<Report> {
    let service = Connection::open(stage.path("demo/service.db"))?;
    let consumer = Connection::open(stage.path("demo/consumer.db"))?;
    let arrivals = "SELECT event_id, customer FROM arrival ORDER BY n";
    write_arrived(&consumer, arrivals, "memory", stage.directory())?;
    let books = Books {
        service: (
            &service,
            "SELECT event_id, customer, place FROM orders ORDER BY id",
        ),
        consumer: (&consumer, "SELECT event_id FROM shipment"),
    };
    books.settle(stage.directory())
}
