//! What a scenario found.

use serde_json::{Map, Value, json};

use super::account::Account;

/// What a scenario found: the account of events, figures of its own, and what is not as it should be.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    account: Account,
    figures: Map<String, Value>,
    problems: Vec<String>,
}

impl Outcome {
    /// An outcome that is ok as far as the account goes.
    pub(super) fn of(account: Account) -> Self {
        let problems = account.problems();
        Self {
            account,
            problems,
            figures: Map::new(),
        }
    }

    /// Adds a figure.
    pub(super) fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// Adds a figure with a bound that it must keep.
    pub(super) fn bounded(&mut self, name: &str, value: f64, holds: bool, bound: &str) {
        self.figure(name, rounded(value));
        self.check(holds, || format!("{name} is {value:.3}, it must be {bound}"));
    }

    /// Something that must hold.
    pub(super) fn check(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    /// Whether everything is as it should be.
    pub(crate) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// What is not.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The line that a scenario ends with.
    pub(crate) fn json(&self, scenario: &str) -> Value {
        let account = &self.account;
        let mut line = json!({
            "scenario": scenario,
            "ok": self.is_ok(),
            "committed": account.committed,
            "lost": account.lost,
            "phantom": account.phantom,
            "reordered": account.reordered,
            "duplicate_effects": account.duplicate_effects,
            "arrived": account.arrived,
        });
        if let Some(line) = line.as_object_mut() {
            line.extend(self.figures.clone());
            if !self.is_ok() {
                line.insert("problems".to_owned(), json!(self.problems));
            }
        }
        line
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
        let mut outcome = Outcome::of(Account::default());
        outcome.bounded("p50_ms", 12.345_67, true, "below 20");
        assert!(outcome.is_ok());
        outcome.bounded("growth", 1.5, false, "at most 1.3");
        assert!(!outcome.is_ok());
        let line = outcome.json("x");
        assert_eq!((&line["p50_ms"], &line["ok"]), (&json!(12.346), &json!(false)));
        assert_eq!(line["problems"][0], "growth is 1.500, it must be at most 1.3");
    }
}
