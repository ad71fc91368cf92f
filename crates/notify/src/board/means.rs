//! What a board works with besides its database.

use std::sync::Arc;

use crate::people::{self, Page};
use crate::{Accepted, BoardError, CHUNK, Occasion, People, Step, Tally, To, Workflows};

/// What every board has, whichever database it is on.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) workflows: Arc<Workflows>,
    /// Who is there, where that is not kept in tables of ours.
    pub(crate) people: Option<Arc<dyn People>>,
    pub(crate) tally: Arc<Tally>,
}

impl Means {
    pub(crate) fn new(workflows: Arc<Workflows>) -> Self {
        Self {
            tally: Arc::new(Tally::new(&workflows)),
            workflows,
            people: None,
        }
    }

    /// The first people of a directory that is not ours; None where it is. Before a transaction: whoever is slow there
    /// keeps no rows locked here, and nobody from writing.
    pub(crate) async fn ask(&self, to: &To) -> Result<Option<Page>, BoardError> {
        match &self.people {
            Some(own) => people::page(&**own, (to, None, CHUNK)).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same, counted where it is committed.
    pub(crate) fn counted(
        &self,
        occasion: &Occasion,
        accepted: Result<Accepted, BoardError>,
    ) -> Result<Accepted, BoardError> {
        if let (Ok(accepted), Some(workflow)) = (&accepted, self.workflows.of(occasion)) {
            self.tally.add(&workflow.name, accepted);
        }
        accepted
    }

    /// A handler accepted this. It counts when the transaction of the inbox is committed.
    pub(crate) fn pend(&self, occasion: &Occasion, accepted: &Accepted) {
        if let Some(workflow) = self.workflows.of(occasion) {
            self.tally.pend(&occasion.event_id, &workflow.name, accepted);
        }
    }

    /// The same step, counted.
    pub(crate) fn stepped(&self, stepped: Option<Step>) -> Option<Step> {
        if let Some(step) = &stepped {
            self.tally.add(&step.workflow, step);
        }
        stepped
    }
}
