//! Which calls of a relay the database does not answer, as the relays of this process tell it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::health::FailingCall;

/// The failing calls, by outbox and by what was being done. Bounded: a relay has three kinds of calls.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<BTreeMap<(String, &'static str), Failing>>);

#[derive(Debug)]
struct Failing {
    error: String,
    since: Instant,
}

impl Calls {
    /// A call failed; again, perhaps.
    pub(crate) fn failed(&self, outbox: &str, doing: &'static str, error: &str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = calls
            .entry((outbox.to_owned(), doing))
            .or_insert_with(|| Failing {
                error: String::new(),
                since: Instant::now(),
            });
        error.clone_into(&mut failing.error);
    }

    /// A call was answered.
    pub(crate) fn answered(&self, outbox: &str, doing: &'static str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.remove(&(outbox.to_owned(), doing));
    }

    /// What fails in an outbox.
    pub(crate) fn of(&self, outbox: &str) -> Vec<FailingCall> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .iter()
            .filter(|((name, _), _)| name == outbox)
            .map(|((_, doing), failing)| FailingCall {
                doing,
                error: failing.error.clone(),
                failing_for: failing.since.elapsed(),
            })
            .collect()
    }
}
