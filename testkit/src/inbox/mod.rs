//! The conformance suite of the `Effects` contract.
//!
//! A backend implements [`EffectsHarness`] over a private database and names it in
//! [`inbox_suite!`](crate::inbox_suite), which makes one `#[test]` of every case. What took effect is read from a
//! table without a constraint of its own, so that an effect that happened twice is seen twice.

mod batch;
mod bench;
mod cases;
mod elsewhere;
mod forget;
mod once;
mod refused;
mod reused;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Applied, ApplyError, BoxFuture, HandlerError, InboxConsole, Received, Records};

use crate::suite;

pub use bench::{Bench, received};
pub use cases::CASES;

/// What a backend or its harness may lack. Nothing else is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Records can be counted, forgotten and purged.
    Forget,
    /// A statement that fails can undo the transaction: see [`TRIPS`].
    Trips,
    /// A handler can end the transaction: see [`ROLLS_BACK`] and [`COMMITS`].
    Ends,
}

/// What a harness can do, as data.
#[derive(Clone, Debug, Default)]
pub struct EffectsCapabilities {
    /// What is lacking, each with the reason that is printed when a case is skipped.
    pub lacks: Vec<(Feature, &'static str)>,
}

/// What a case wants of the handler, behind the effect itself: nothing, a failure, a panic, or to be kept waiting.
pub type Script = dyn Fn(&Received) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync;

/// The id of an event whose handler, behind the effect, passes over an error that undoes its transaction; needed unless
/// the harness lacks [`Feature::Trips`].
pub const TRIPS: &str = "trips";

/// The id of an event whose handler, behind the effect, rolls its transaction back; needed unless the harness lacks
/// [`Feature::Ends`].
pub const ROLLS_BACK: &str = "rolls back";

/// The same, for a handler that commits it.
pub const COMMITS: &str = "commits";

/// How a backend lends itself to the suite.
pub trait EffectsHarness: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> EffectsCapabilities {
        EffectsCapabilities::default()
    }

    /// A fresh database with an inbox and a table of effects, both empty.
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestInbox>>;
}

/// One consumer's database of one case. Dropped at the end of the case.
pub trait TestInbox: Send + Sync {
    /// An `Effects` with connections of its own, as another process has it.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Applies>>;

    /// The ids of the events that took effect, as committed, in the order of their effects.
    fn effects(&self) -> BoxFuture<'_, Vec<String>>;

    /// The inbox as operators see it; needed unless the harness lacks [`Feature::Forget`].
    fn console(&self) -> BoxFuture<'_, Arc<dyn InboxConsole>> {
        Box::pin(async { panic!("this harness has no console") })
    }

    /// How many records are meant; needed unless the harness lacks [`Feature::Forget`].
    fn count(&self, _records: Records) -> BoxFuture<'_, u64> {
        Box::pin(async { panic!("this harness cannot count records") })
    }

    /// Forgets the records that are meant.
    fn forget(&self, _records: Records) -> BoxFuture<'_, u64> {
        Box::pin(async { panic!("this harness cannot forget") })
    }

    /// Makes the record of an event this much older.
    fn age(&self, _id: &'static str, _by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async { panic!("this harness cannot make records older") })
    }
}

/// An `Effects` whose handler inserts the event's id into the table of effects and then follows the script. Its type is
/// gone here: every backend has handlers of its own kind.
pub trait Applies: Send + Sync {
    /// As [`Effects::most`](postrider_core::Effects::most) says.
    fn most(&self) -> usize;

    /// As [`Effects::apply`](postrider_core::Effects::apply) does.
    fn apply(
        &self,
        consumer: &str,
        deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>>;
}

/// One case of the suite.
pub type Case = suite::Case<Feature, Bench>;

/// Runs one case by name on a runtime of its own. What [`inbox_suite!`](crate::inbox_suite) calls.
pub fn run(name: &str, harness: impl EffectsHarness) {
    let capabilities = harness.capabilities();
    let why_not = |feature| suite::lacking(&capabilities.lacks, feature);
    suite::run("inbox", (CASES, name), why_not, Bench::new(&harness));
}
