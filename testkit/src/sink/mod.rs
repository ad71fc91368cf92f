//! The conformance suite of the `Sink` contract.
//!
//! A backend implements [`SinkHarness`] over a private broker and names it in [`sink_suite!`](crate::sink_suite), which
//! makes one `#[test]` of every case. What counts is what a reader outside the sink sees, never what the sink says of
//! itself.

mod answers;
mod bench;
mod cases;
mod order;
mod restart;

use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{Address, BoxFuture, Sink};

use crate::suite;

pub use bench::Bench;
pub use cases::CASES;

/// What a sink or its harness may lack. Nothing else is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The reader sees transport headers.
    Headers,
    /// There is an address that nobody listens at.
    MissingAddress,
    /// The broker can be stopped and started again.
    Restart,
}

/// What a harness can do, as data. What the sink can do, it says itself.
#[derive(Clone, Debug, Default)]
pub struct SinkCapabilities {
    /// What is lacking, each with the reason that is printed when a case is skipped.
    pub lacks: Vec<(Feature, &'static str)>,
}

/// How a backend lends itself to the suite.
pub trait SinkHarness: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> SinkCapabilities;

    /// A fresh destination with nothing of another case in it.
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>>;
}

/// A message as a reader outside the sink got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The event's id, from the transport.
    pub event_id: String,
    /// The body.
    pub body: Bytes,
    /// Transport headers; empty where the reader sees none.
    pub headers: Vec<(String, String)>,
}

/// One destination of one case. Dropped at the end of the case.
pub trait TestBroker: Send + Sync {
    /// A sink with a connection of its own.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>>;

    /// Where messages of the suite go.
    fn address(&self) -> Address;

    /// Everything that has arrived so far, in the order of arrival.
    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>>;

    /// An address that nobody listens at; needed unless the harness lacks [`Feature::MissingAddress`].
    fn missing_address(&self) -> Option<Address> {
        None
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

/// Runs one case by name on a runtime of its own. What [`sink_suite!`](crate::sink_suite) calls.
pub fn run(name: &str, harness: impl SinkHarness) {
    let capabilities = harness.capabilities();
    let why_not = |feature| suite::lacking(&capabilities.lacks, feature);
    suite::run("sink", (CASES, name), why_not, Bench::new(&harness));
}
