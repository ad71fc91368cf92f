//! `cargo xtask test`: everything, on a machine that has nothing but Rust.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use crate::cargo::cargo;
use crate::failure::{Failure, Result};
use crate::{scenario, sim, tools};

/// What was counted so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Names of what failed, repeated at the end: the reason may be thousands of lines up.
    names: Vec<String>,
}

impl Tally {
    fn one(&mut self, name: &str, result: Result<String>, took: Instant) {
        let seconds = took.elapsed().as_secs_f64();
        match result {
            Ok(note) => {
                self.passed += 1;
                println!("ok      {name} ({seconds:.1} s) {note}");
            }
            Err(failure) => {
                self.failed += 1;
                self.names.push(name.to_owned());
                println!("FAILED  {name} ({seconds:.1} s): {failure}");
            }
        }
    }
}

/// Runs everything; false if anything failed.
pub(crate) fn run() -> Result<bool> {
    let mut tally = Tally::default();
    headline("tools");
    let tools = tools::ensure();
    if let Err(failure) = tools {
        // Without them nothing builds; a list of errors that all say the same would hide the one that matters.
        println!("FAILED  tools: {failure}");
        println!("0 passed, 1 failed");
        return Ok(false);
    }

    headline("cargo test --workspace");
    cargo_test(&mut tally)?;

    headline("simulator");
    let mut began = Instant::now();
    sim::checks(|check| {
        tally.one(&check.name, check.result, began);
        began = Instant::now();
    });

    headline("scenarios, reduced");
    for name in scenario::tested() {
        began = Instant::now();
        tally.one(&format!("scenario {name}"), scenario::reduced(name), began);
    }

    for name in &tally.names {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(tally.failed == 0)
}

fn headline(text: &str) {
    println!("\n== {text}");
}

/// Runs the tests of every crate and sums what each test binary says of itself.
fn cargo_test(tally: &mut Tally) -> Result<()> {
    let mut child = cargo(&["test", "--workspace", "--no-fail-fast"])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child
        .stdout
        .take()
        .ok_or_else(|| Failure::new("cargo has no output"))?;
    let before = tally.failed;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        if let Some((passed, failed)) = test_result(&line) {
            tally.passed += passed;
            tally.failed += failed;
        } else if let Some(name) = line
            .strip_suffix(" ... FAILED")
            .and_then(|line| line.strip_prefix("test "))
        {
            tally.names.push(name.to_owned());
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == before {
        // A crate that does not compile or a test binary that dies says no result at all.
        tally.failed += 1;
        tally.names.push("cargo test --workspace".to_owned());
    }
    Ok(())
}

/// The numbers of a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
fn test_result(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let part = counts.split(';').find(|part| part.trim().ends_with(word))?;
        part.split_whitespace().next()?.parse().ok()
    };
    Some((count("passed")?, count("failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_test_binaries_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(test_result(line), Some((12, 3)));
        assert_eq!(test_result("test result: nonsense"), None);
        assert_eq!(test_result("test engine::floor ... ok"), None);
    }

    #[test]
    fn a_failure_is_counted_and_named() {
        let mut tally = Tally::default();
        tally.one("a", Ok(String::new()), Instant::now());
        tally.one("b", Err(Failure::new("no")), Instant::now());
        assert_eq!(
            (tally.passed, tally.failed, tally.names),
            (1, 1, vec!["b".to_owned()])
        );
    }
}
