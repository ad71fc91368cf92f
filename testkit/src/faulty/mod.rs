//! Scripted faults for any sink and any store: what goes wrong at which call, and what passed.
//!
//! ```
//! use std::sync::Arc;
//! use postrider_core::{StoreErrorKind, Store, Read};
//! use postrider_testkit::MemoryStore;
//! use postrider_testkit::faulty::{Fault, FaultyStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = FaultyStore::new(Arc::new(MemoryStore::new(1)));
//! store.reads().on(2, Fault::Reject(StoreErrorKind::Unreachable));
//! assert!(store.read(Read::default()).await.is_ok());
//! assert!(store.read(Read::default()).await.is_err());
//! assert!(store.read(Read::default()).await.is_ok());
//! # }
//! ```

mod sink;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

pub use sink::{FaultySink, Published};
pub use store::{AnsweredSettle, FaultyStore};

/// What goes wrong with a call. `K` is the kind of error that the wrapped trait speaks of.
#[derive(Clone, Debug)]
pub enum Fault<K> {
    /// It is refused, and nothing is done.
    Reject(K),
    /// It is done in full, and reported as failed: the answer was lost, not the call.
    FailAfterWrite(K),
    /// It is not begun until the gate opens.
    Hold(Gate),
    /// It is done, and its answer waits for the gate.
    HoldAnswer(Gate),
    /// It is begun only after a while.
    Slow(Duration),
}

/// Holds calls until a test lets them go, and tells the test that one has come.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<GateState>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    waiting: usize,
    open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            state: Arc::new(watch::Sender::new(GateState::default())),
        }
    }

    /// Lets go what waits, and everything that comes later.
    pub fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }

    /// Waits until so many calls have come to the gate.
    pub async fn reached(&self, calls: usize) {
        let mut state = self.state.subscribe();
        // The sender is held by `self`, so the wait cannot fail.
        let _ = state.wait_for(|state| state.waiting >= calls).await;
    }

    async fn pass(&self) {
        self.state.send_modify(|state| state.waiting += 1);
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.open).await;
    }
}

/// Which call meets which fault. Calls are counted from 1.
#[derive(Debug)]
pub struct Script<K> {
    plan: Mutex<Plan<K>>,
}

#[derive(Debug)]
struct Plan<K> {
    calls: u64,
    once: BTreeMap<u64, Fault<K>>,
    /// From this call on, until cleared.
    lasting: Option<(u64, Fault<K>)>,
}

impl<K: Clone> Script<K> {
    fn new() -> Self {
        Self {
            plan: Mutex::new(Plan {
                calls: 0,
                once: BTreeMap::new(),
                lasting: None,
            }),
        }
    }

    /// The `call`-th call meets this fault.
    pub fn on(&self, call: u64, fault: Fault<K>) {
        self.plan().once.insert(call, fault);
    }

    /// The next call meets this fault; a second one waits for the call after it.
    pub fn next(&self, fault: Fault<K>) {
        let mut plan = self.plan();
        let mut call = plan.calls + 1;
        while plan.once.contains_key(&call) {
            call += 1;
        }
        plan.once.insert(call, fault);
    }

    /// Every call from the `call`-th on meets this fault, until [`Script::clear`].
    pub fn from(&self, call: u64, fault: Fault<K>) {
        self.plan().lasting = Some((call, fault));
    }

    /// Nothing goes wrong from here on.
    pub fn clear(&self) {
        let mut plan = self.plan();
        plan.once.clear();
        plan.lasting = None;
    }

    /// How many calls have come so far.
    pub fn calls(&self) -> u64 {
        self.plan().calls
    }

    /// Counts a call and tells what becomes of it.
    fn take(&self) -> (u64, Option<Fault<K>>) {
        let mut plan = self.plan();
        plan.calls += 1;
        let call = plan.calls;
        let once = plan.once.remove(&call);
        let lasting = plan.lasting.as_ref().filter(|(from, _)| call >= *from);
        (call, once.or_else(|| lasting.map(|(_, fault)| fault.clone())))
    }

    fn plan(&self) -> MutexGuard<'_, Plan<K>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy> Fault<K> {
    /// Waits where the fault says so, before the call; tells how it is to be refused, if it is.
    async fn before(&self) -> Option<K> {
        match self {
            Fault::Reject(kind) => return Some(*kind),
            Fault::Hold(gate) => gate.pass().await,
            // The slowness itself.
            Fault::Slow(time) => tokio::time::sleep(*time).await,
            Fault::FailAfterWrite(_) | Fault::HoldAnswer(_) => {}
        }
        None
    }

    /// The same, after the call.
    async fn after(&self) -> Option<K> {
        match self {
            Fault::FailAfterWrite(kind) => return Some(*kind),
            Fault::HoldAnswer(gate) => gate.pass().await,
            Fault::Reject(_) | Fault::Hold(_) | Fault::Slow(_) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
