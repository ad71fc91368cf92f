//! [console-speed] Every list, filter and count of the console beside a long history and many parked rows, on both
//! stores.
//!
//! What is asked is warm, as it is for whoever looks twice. PostgreSQL counts the scans of whole tables by itself; on
//! SQLite the bytes that the counts read tell, because a scan reads the table. The same questions to a fiftieth of the
//! rows tell what grows.

mod postgres;
mod sqlite;

use serde_json::Value;

use super::account::Report;
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const P95_MS: f64 = 200.0;
/// Asked a few times only, at the reduced size, the slowest answer of all counts, whatever the machine did then.
const P95_MS_REDUCED: f64 = 2_000.0;

/// How much there is.
#[derive(Clone, Copy)]
struct Size {
    sent: u64,
    parked: u64,
}

impl Size {
    /// A fiftieth.
    fn few(self) -> Self {
        Self {
            sent: self.sent / 50,
            parked: self.parked / 50,
        }
    }
}

/// What one store answered, with few rows and with all of them.
struct Asked {
    few: Value,
    all: Value,
    /// What shows a table that was scanned for the counts.
    scanned: Option<String>,
}

impl Asked {
    fn figure(of: &Value, name: &str) -> Result<f64> {
        let value = of[name].as_f64();
        value.ok_or_else(|| Failure::new(format!("there is no {name} in {of}")))
    }
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let size = Size {
        sent: stage.size(5_000_000, 100_000),
        parked: stage.size(100_000, 10_000),
    };
    let limit = stage.size(P95_MS, P95_MS_REDUCED);
    let bound = format!("at most {limit}");
    let mut outcome = Outcome::of(Report::default());
    let all = [
        ("sqlite", sqlite::ask(stage, size)?),
        ("postgres", postgres::ask(stage, size)?),
    ];
    let mut worst = (0.0, String::new());
    for (store, asked) in &all {
        let of_worst = Asked::figure(&asked.all, "worst_p95_ms")?;
        if of_worst > worst.0 {
            let name = asked.all["worst"].as_str().unwrap_or_default();
            worst = (of_worst, format!("{store}: {name}"));
        }
        let fields = ["worst_p95_ms", "stats_p95_ms", "groups_p95_ms"];
        for (name, field) in names(store).into_iter().zip(fields) {
            let value = Asked::figure(&asked.all, field)?;
            outcome.bounded(name, value, value <= limit, &bound);
        }
        if let Some(scanned) = &asked.scanned {
            outcome.check(false, || format!("{store}: {scanned}"));
        }
    }
    outcome.bounded("worst_p95_ms", worst.0, worst.0 <= limit, &bound);
    outcome.figure("worst", worst.1);
    for (field, names) in [
        ("filters", ["filters_sqlite", "filters_postgres"]),
        ("partial", ["partial_sqlite", "partial_postgres"]),
        (
            "stats_read_bytes",
            ["stats_read_bytes_sqlite", "stats_read_bytes_postgres"],
        ),
    ] {
        for (name, (_, asked)) in names.into_iter().zip(&all) {
            outcome.figure(name, asked.all[field].clone());
        }
    }
    for (name, (_, asked)) in ["growth_sqlite", "growth_postgres"].into_iter().zip(&all) {
        let growth = Asked::figure(&asked.all, "median_ms")? / Asked::figure(&asked.few, "median_ms")?;
        outcome.bounded(name, growth, true, "anything");
    }
    Ok(outcome)
}

/// How often each question is asked.
fn times(stage: &Stage) -> &'static str {
    stage.size("25", "5")
}

fn names(store: &str) -> [&'static str; 3] {
    match store {
        "postgres" => [
            "worst_p95_ms_postgres",
            "stats_p95_ms_postgres",
            "groups_p95_ms_postgres",
        ],
        _ => [
            "worst_p95_ms_sqlite",
            "stats_p95_ms_sqlite",
            "groups_p95_ms_sqlite",
        ],
    }
}
