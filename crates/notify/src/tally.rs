//! What a board counted: by workflow, since the process began. What is not committed is not counted.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Accepted, Standing, Step, Workflows};

/// The counts of one workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Notifications that were stored.
    pub stored: u64,
    /// Those that were there before.
    pub duplicates: u64,
    /// Those that somebody did not want.
    pub muted: u64,
    /// Events that were put into a digest of somebody.
    pub collected: u64,
    /// Digests that were told.
    pub digests: u64,
}

/// What a board counted. There are as many counters as workflows, whatever producers send.
#[derive(Debug, Default)]
pub struct Tally {
    workflows: Mutex<BTreeMap<String, Counted>>,
    /// What handlers did, by the id of the event: it counts when the transaction around them is committed.
    pending: Mutex<HashMap<String, (String, Counted)>>,
    /// Whether somebody says which transactions were committed.
    is_settled: AtomicBool,
    standing: Mutex<Standing>,
}

impl Tally {
    pub(crate) fn new(workflows: &Workflows) -> Self {
        let names = workflows.all().iter().map(|one| one.name.clone());
        let workflows = names.map(|name| (name, Counted::default())).collect();
        Self {
            workflows: Mutex::new(workflows),
            ..Self::default()
        }
    }

    /// The counts by the names of the workflows.
    pub fn workflows(&self) -> BTreeMap<String, Counted> {
        locked(&self.workflows).clone()
    }

    /// What was not done yet when a worker looked last.
    pub fn standing(&self) -> Standing {
        locked(&self.standing).clone()
    }

    pub(crate) fn stand(&self, standing: Standing) {
        *locked(&self.standing) = standing;
    }

    pub(crate) fn add(&self, workflow: &str, counted: impl Into<Counted>) {
        let new = counted.into();
        if let Some(all) = locked(&self.workflows).get_mut(workflow) {
            all.stored += new.stored;
            all.duplicates += new.duplicates;
            all.muted += new.muted;
            all.collected += new.collected;
            all.digests += new.digests;
        }
    }

    /// Counts a digest that was told, by the name of its workflow; answers whether there was one.
    pub(crate) fn told(&self, workflow: Option<String>) -> bool {
        if let Some(workflow) = &workflow {
            let digests = 1;
            self.add(
                workflow,
                Counted {
                    digests,
                    ..Counted::default()
                },
            );
        }
        workflow.is_some()
    }

    /// A handler did this, and its transaction may still be undone.
    pub(crate) fn pend(&self, event_id: &str, workflow: &str, counted: impl Into<Counted>) {
        if self.is_settled.load(Ordering::Relaxed) {
            let counted = (workflow.to_owned(), counted.into());
            locked(&self.pending).insert(event_id.to_owned(), counted);
        }
    }

    /// From now on somebody calls [`Tally::settle`] for every event that a handler was called with.
    pub(crate) fn will_settle(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }

    /// The transaction of a handler is over.
    pub(crate) fn settle(&self, event_id: &str, is_committed: bool) {
        let pending = locked(&self.pending).remove(event_id);
        if let Some((workflow, counted)) = pending.filter(|_| is_committed) {
            self.add(&workflow, counted);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<&Accepted> for Counted {
    fn from(accepted: &Accepted) -> Self {
        Self {
            stored: accepted.stored,
            duplicates: accepted.duplicates,
            muted: accepted.muted,
            collected: accepted.collected,
            digests: 0,
        }
    }
}

impl From<&Step> for Counted {
    fn from(step: &Step) -> Self {
        Self {
            stored: step.stored,
            duplicates: step.duplicates,
            muted: step.muted,
            collected: step.collected,
            digests: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{audience, followed};

    fn tally() -> Tally {
        Tally::new(&Workflows::new(vec![audience()], vec![followed()]).unwrap())
    }

    fn stored(stored: u64) -> Counted {
        Counted {
            stored,
            ..Counted::default()
        }
    }

    #[test]
    fn only_what_was_committed_counts() {
        let (tally, name) = (tally(), followed().name);
        tally.pend("e0", &name, stored(1));
        tally.settle("e0", true);
        assert_eq!(
            tally.workflows()[&name].stored,
            0,
            "nobody said that they are settled"
        );
        tally.will_settle();
        tally.pend("e1", &name, stored(3));
        tally.settle("e1", false);
        tally.pend("e1", &name, stored(3));
        tally.settle("e1", true);
        tally.settle("e1", true);
        assert_eq!(tally.workflows()[&name].stored, 3);
    }

    #[test]
    fn there_are_as_many_counters_as_workflows() {
        let tally = tally();
        tally.add("another", stored(1));
        assert_eq!(tally.workflows().len(), 1);
    }
}
