//! What came back from the archive, compared with what was written.

use std::collections::{BTreeMap, HashMap};

use postrider_testkit::ledger::Ledger;

use super::arrival::Arrival;
use super::hostile::Hostile;
use crate::failure::{Failure, Result};

/// What arrived, against what was written.
pub(super) struct Compared<'e> {
    written: HashMap<&'e str, (&'e Hostile, Option<Lasting>)>,
    /// The ledger of the copies alone.
    pub(super) copies: Ledger,
    pub(super) identical: u64,
    pub(super) different: u64,
}

/// The headers of a first arrival.
type Lasting = BTreeMap<String, String>;

impl<'e> Compared<'e> {
    pub(super) fn new(events: &'e [Hostile]) -> Result<Self> {
        let mut copies = Ledger::new();
        events
            .iter()
            .try_for_each(|event| copies.commit(&event.committed()))?;
        Ok(Self {
            written: events
                .iter()
                .map(|event| (event.id.as_str(), (event, None)))
                .collect(),
            copies,
            identical: 0,
            different: 0,
        })
    }

    /// Takes an arrival in its turn: the first of an event before its copy.
    pub(super) fn take(&mut self, arrival: Arrival, ledger: &mut Ledger) -> Result<()> {
        let Some((event, first)) = self.written.get_mut(arrival.id.as_str()) else {
            return Err(Failure::new(format!("nobody wrote {}", arrival.id)));
        };
        if arrival.replay().is_none() {
            ledger.arrive(&arrival.arrived());
            *first = Some(arrival.headers);
            return Ok(());
        }
        self.copies.arrive(&arrival.arrived());
        let first = first.as_ref().is_some_and(|first| {
            let first = first.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            first.eq(arrival.lasting_headers())
        });
        match first && event.is(&arrival) {
            true => self.identical += 1,
            false => self.different += 1,
        }
        Ok(())
    }
}
