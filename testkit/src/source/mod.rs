//! The conformance suite of the `Source` contract.
//!
//! A backend implements [`SourceHarness`] over a private broker and names it in
//! [`source_suite!`](crate::source_suite), which makes one `#[test]` of every case. Messages are put into the queue
//! from outside, and what is left of them is seen by a second source: never by asking the source itself.

mod bench;
mod bounds;
mod cases;
mod lost;
mod receive;
mod restart;
mod verdicts;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, Message, Source};

use crate::suite;

pub use bench::Bench;
pub use cases::CASES;

/// What a source or its harness may lack. Nothing else is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Transport headers and the content type arrive.
    Headers,
    /// Others can put messages into the queue that are not of our form.
    Foreign,
    /// The broker counts how often it has delivered a message.
    DeliveryCount,
    /// The broker has a place for rejected messages.
    DeadLetters,
    /// A source holds a bounded number of deliveries.
    Prefetch,
    /// The connection of a source can be cut.
    Cut,
    /// A settle can be made to fail by itself, without a cut.
    SettleFault,
    /// The broker can be stopped and started again.
    Restart,
}

/// How long a message may take from the broker to us, and a broker to come back, unless the harness knows better.
const PATIENCE: Duration = Duration::from_secs(45);

/// What a harness can do, as data.
#[derive(Clone, Debug)]
pub struct SourceCapabilities {
    /// What is lacking, each with the reason that is printed when a case is skipped.
    pub lacks: Vec<(Feature, &'static str)>,
    /// How long something that must come may take.
    pub patience: Duration,
}

impl Default for SourceCapabilities {
    fn default() -> Self {
        Self {
            lacks: Vec::new(),
            patience: PATIENCE,
        }
    }
}

/// How a backend lends itself to the suite.
pub trait SourceHarness: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> SourceCapabilities;

    /// A fresh queue with nothing of another case in it.
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestQueue>>;
}

/// One queue of one case. Dropped at the end of the case.
pub trait TestQueue: Send + Sync {
    /// A source with a connection of its own, which holds at most [`TestQueue::prefetch`] deliveries.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Source>>;

    /// How many deliveries a source holds without a verdict.
    fn prefetch(&self) -> usize {
        usize::MAX
    }

    /// Puts messages into the queue, in their order, and returns when the broker has them all.
    fn put(&self, messages: Vec<Message>) -> BoxFuture<'_, ()>;

    /// Puts in a message without an id and without anything else of our form; needed unless the harness lacks
    /// [`Feature::Foreign`].
    fn put_foreign(&self, _body: &'static [u8]) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot put in foreign messages") })
    }

    /// The ids in the place for rejected messages; needed unless the harness lacks [`Feature::DeadLetters`].
    fn rejected(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { panic!("this harness has no place for rejected messages") })
    }

    /// Cuts the connections of all sources; needed unless the harness lacks [`Feature::Cut`].
    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot cut connections") })
    }

    /// From now on no settle succeeds, or all do again; needed unless the harness lacks [`Feature::SettleFault`].
    fn refuse_verdicts(&self, _refuse: bool) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot make a settle fail") })
    }

    /// How many bytes its sources keep for themselves of what they were told. Where the broker keeps everything, none.
    fn kept(&self) -> BoxFuture<'_, u64> {
        Box::pin(async { 0 })
    }

    /// Stops the broker the hard way; needed unless the harness lacks [`Feature::Restart`].
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot stop its broker") })
    }

    /// Starts the broker again, on what it had stored, and waits until it takes connections.
    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot start its broker") })
    }
}

/// One case of the suite.
pub type Case = suite::Case<Feature, Bench>;

/// Runs one case by name on a runtime of its own. What [`source_suite!`](crate::source_suite) calls.
pub fn run(name: &str, harness: impl SourceHarness) {
    let capabilities = harness.capabilities();
    let why_not = |feature| suite::lacking(&capabilities.lacks, feature);
    suite::run("source", (CASES, name), why_not, Bench::new(&harness));
}
