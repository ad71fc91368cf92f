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

    /// Takes the first arrival of an event.
    pub(super) fn first(&mut self, arrival: Arrival, ledger: &mut Ledger) -> Result<()> {
        ledger.arrive(&arrival.arrived());
        let (_, first) = self.of(&arrival)?;
        *first = Some(arrival.headers);
        Ok(())
    }

    /// Takes a copy, when all first arrivals have been taken.
    pub(super) fn copy(&mut self, arrival: &Arrival) -> Result<()> {
        self.copies.arrive(&arrival.arrived());
        let (event, first) = self.of(arrival)?;
        let as_first = first.as_ref().is_some_and(|first| {
            let first = first.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            first.eq(arrival.lasting_headers())
        });
        match as_first && event.is(arrival) {
            true => self.identical += 1,
            false => self.different += 1,
        }
        Ok(())
    }

    fn of(&mut self, arrival: &Arrival) -> Result<&mut (&'e Hostile, Option<Lasting>)> {
        let written = self.written.get_mut(arrival.id.as_str());
        written.ok_or_else(|| Failure::new(format!("nobody wrote {}", arrival.id)))
    }
}
