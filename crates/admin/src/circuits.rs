//! Which destinations take nothing, as the relays of this process tell it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use postrider_core::Failure;

use crate::health::OpenCircuit;

/// The open circuits, by outbox and destination. Bounded by the configuration: destinations have names.
#[derive(Debug, Default)]
pub(crate) struct Circuits(Mutex<BTreeMap<(String, String), Open>>);

#[derive(Debug)]
struct Open {
    failure: Failure,
    since: Instant,
}

impl Circuits {
    /// A destination took nothing; again, perhaps.
    pub(crate) fn opened(&self, outbox: &str, destination: &str, failure: &Failure) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (outbox.to_owned(), destination.to_owned());
        let open = circuits.entry(place).or_insert_with(|| Open {
            failure: failure.clone(),
            since: Instant::now(),
        });
        open.failure = failure.clone();
    }

    /// A destination took something.
    pub(crate) fn closed(&self, outbox: &str, destination: &str) {
        let mut circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        circuits.remove(&(outbox.to_owned(), destination.to_owned()));
    }

    /// What is open in an outbox.
    pub(crate) fn of(&self, outbox: &str) -> Vec<OpenCircuit> {
        let circuits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        circuits
            .iter()
            .filter(|((name, _), _)| name == outbox)
            .map(|((_, destination), open)| OpenCircuit {
                destination: destination.clone(),
                kind: open.failure.kind,
                text: open.failure.text.clone(),
                open_for: open.since.elapsed(),
            })
            .collect()
    }
}
