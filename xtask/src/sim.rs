//! The simulator: passed through for people, and checked at a reduced size by `cargo xtask test`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};

/// Seeds of the reduced run. Over so many every kind of fault must have been injected.
const SEEDS: u64 = 1_000;
/// Seeds within which a planted bug must be found.
const PLANT_SEEDS: u64 = 500;
/// The one that needs more of them: it shows only where a row is parked between a read and its answer.
const RARE: (&str, u64) = ("void-for-ever", 2_000);

/// Runs the simulator with these arguments; false if it says so by its exit code.
pub(crate) fn pass_through(arguments: &[OsString]) -> Result<bool> {
    let status = Command::new(binary()?)
        .args(arguments)
        .status()
        .doing(|| "starting the simulator".to_owned())?;
    Ok(status.success())
}

fn binary() -> Result<std::path::PathBuf> {
    release_binary("sim")
}

/// One run of the reduced check.
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) result: Result<String>,
}

/// A run without bugs must find none; a run with a planted one must find it.
pub(crate) fn checks(mut tell: impl FnMut(Check)) {
    let binary = match binary() {
        Ok(binary) => binary,
        Err(failure) => {
            return tell(Check {
                name: "sim".to_owned(),
                result: Err(failure),
            });
        }
    };
    tell(Check {
        name: format!("sim, {SEEDS} seeds"),
        result: clean(&binary),
    });
    match plants(&binary) {
        Err(failure) => tell(Check {
            name: "sim --list-plants".to_owned(),
            result: Err(failure),
        }),
        Ok(plants) => {
            for plant in plants {
                tell(Check {
                    name: format!("sim finds {plant}"),
                    result: found(&binary, &plant),
                });
            }
        }
    }
}

fn clean(binary: &Path) -> Result<String> {
    let (summary, success) = simulate(binary, 1, SEEDS, None)?;
    if !success || summary["violations"] != 0 {
        return Err(Failure::new(format!(
            "the simulator found a violation: {summary}"
        )));
    }
    let faults = summary["faults"]
        .as_object()
        .ok_or_else(|| Failure::new("the simulator counts no faults"))?;
    match faults.iter().find(|(_, count)| count.as_u64() == Some(0)) {
        Some((kind, _)) => Err(Failure::new(format!(
            "the fault {kind} was never injected in {SEEDS} seeds"
        ))),
        None => Ok(format!(
            "{} events, {} kinds of fault",
            summary["events"],
            faults.len()
        )),
    }
}

fn plants(binary: &Path) -> Result<Vec<String>> {
    let output = Command::new(binary).arg("--list-plants").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let plants: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    match plants.len() {
        0..15 => Err(Failure::new(
            "the simulator lists fewer than fifteen planted bugs",
        )),
        _ => Ok(plants),
    }
}

fn found(binary: &Path, plant: &str) -> Result<String> {
    let seeds = if plant == RARE.0 { RARE.1 } else { PLANT_SEEDS };
    let (summary, success) = simulate(binary, 1, seeds, Some(plant))?;
    match !success && summary["violations"].as_u64().unwrap_or(0) > 0 {
        true => Ok(format!("within {} seeds", summary["seeds"])),
        false => Err(Failure::new(format!(
            "the planted bug {plant} was not found in {seeds} seeds"
        ))),
    }
}

/// The summary that the simulator ends with, and whether it was content.
fn simulate(binary: &Path, start: u64, seeds: u64, plant: Option<&str>) -> Result<(Value, bool)> {
    let mut command = Command::new(binary);
    command.args([
        "--json",
        "--seeds",
        &seeds.to_string(),
        "--start-seed",
        &start.to_string(),
    ]);
    if let Some(plant) = plant {
        command.args(["--plant", plant]);
    }
    // What it says of each violation is of interest only when none is expected.
    command.stderr(if plant.is_some() {
        Stdio::null()
    } else {
        Stdio::inherit()
    });
    let output = command.output().doing(|| "starting the simulator".to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let summary = serde_json::from_str(last).doing(|| format!("the simulator's last line {last:?}"))?;
    Ok((summary, output.status.success()))
}
