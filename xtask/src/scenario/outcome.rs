//! What a scenario found.

use serde_json::{Value, json};

use super::account::Report;
use crate::failure::{Failure, Result};

/// What a scenario found: the account of events, figures of its own, and what is not as it should be.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    account: Report,
    figures: Vec<(&'static str, Value)>,
    problems: Vec<String>,
    /// Rates and times out of their bounds. They are problems too, but the machine may be to blame.
    slow: Vec<String>,
}

impl Outcome {
    /// An outcome that is ok as far as the account goes.
    pub(super) fn of(account: Report) -> Self {
        let problems = match account.is_clean() {
            true => Vec::new(),
            false => vec![account.to_string()],
        };
        Self {
            account,
            problems,
            ..Self::default()
        }
    }

    /// A scenario that could not be played to its end.
    pub(crate) fn broken(failure: &Failure) -> Self {
        Self {
            problems: vec![failure.to_string()],
            ..Self::default()
        }
    }

    /// Adds a figure.
    pub(super) fn figure(&mut self, name: &'static str, value: impl Into<Value>) {
        self.figures.push((name, value.into()));
    }

    /// Adds a rate or a time with a bound that it must keep.
    pub(super) fn bounded(&mut self, name: &'static str, value: f64, holds: bool, bound: &str) {
        self.figure(name, rounded(value));
        if !holds {
            self.slow
                .push(format!("{name} is {value:.3}, it must be {bound}"));
        }
    }

    /// Something that must have gone well.
    pub(super) fn went_well(&mut self, result: Result<()>) {
        if let Err(failure) = result {
            self.problems.push(failure.to_string());
        }
    }

    /// Something that must hold.
    pub(super) fn check(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    /// Whether everything is as it should be.
    pub(crate) fn is_ok(&self) -> bool {
        self.problems.is_empty() && self.slow.is_empty()
    }

    /// Whether a rate or a time is all that is wrong, so that playing it again may show something else.
    pub(crate) fn is_only_slow(&self) -> bool {
        self.problems.is_empty() && !self.slow.is_empty()
    }

    /// What is not as it should be.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().chain(&self.slow).map(String::as_str)
    }

    /// The line that a scenario ends with.
    pub(crate) fn json(&self, scenario: &str) -> String {
        let account = &self.account;
        let head = [
            ("scenario", json!(scenario)),
            ("ok", json!(self.is_ok())),
            ("committed", json!(account.committed)),
            ("lost", json!(account.lost)),
            ("phantom", json!(account.phantom)),
            ("reordered", json!(account.reordered)),
            ("duplicate_effects", json!(account.duplicate_effects)),
            ("arrived", json!(account.arrived)),
        ];
        let problems = (!self.is_ok()).then(|| ("problems", json!(self.problems().collect::<Vec<_>>())));
        let figures = self.figures.iter().map(|(name, value)| (*name, value.clone()));
        let all = head.into_iter().chain(figures).chain(problems);
        // By hand, because a map would sort the fields, and a person looks for `ok` first.
        let fields: Vec<String> = all.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Three decimals are more than a measurement on a shared machine is worth.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_out_of_bounds_is_a_problem() {
        let mut outcome = Outcome::of(Report::default());
        outcome.bounded("p50_ms", 12.345_67, true, "below 20");
        assert!(outcome.is_ok());
        outcome.bounded("growth", 1.5, false, "at most 1.3");
        assert!(!outcome.is_ok() && outcome.is_only_slow());
        assert_eq!(
            outcome.json("x"),
            r#"{"scenario":"x","ok":false,"committed":0,"lost":0,"phantom":0,"reordered":0,"duplicate_effects":0,"#
                .to_owned()
                + r#""arrived":0,"p50_ms":12.346,"growth":1.5,"problems":["growth is 1.500, it must be at most 1.3"]}"#
        );
    }

    #[test]
    fn what_is_slow_and_wrong_is_not_only_slow() {
        let mut outcome = Outcome::of(Report::default());
        outcome.bounded("share", 0.5, false, "at least 0.9");
        outcome.check(false, || "an event is lost".to_owned());
        assert!(!outcome.is_only_slow());
        let problems: Vec<&str> = outcome.problems().collect();
        assert_eq!(
            problems,
            ["an event is lost", "share is 0.500, it must be at least 0.9"]
        );
    }
}
