//! How much an engine keeps, so that simulations can check that all of it is bounded.

use super::Engine;

/// The sizes of everything that an engine keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Rows of `outbox`.
    pub queued: usize,
    /// Rows of `outbox_parked`.
    pub parked: usize,
    /// The bytes of both.
    pub bytes: usize,
    /// Of both, those that are decided.
    pub decided: usize,
    /// Of the parked ones, those whose start is to be written.
    pub starts: usize,
    /// Keys.
    pub keys: usize,
    /// The lines of their deliveries.
    pub lines: usize,
    /// Lines that wait to hand something over.
    pub ready: usize,
    /// Keys and lines of which an earlier read must not be trusted.
    pub void: usize,
    /// Publish calls that are unanswered.
    pub calls: usize,
    /// What these calls carry.
    pub flying: usize,
    /// Shards that are held, being given up, or remembered as given up; the largest of the three.
    pub shards: usize,
    /// Ranges of which it is known how far they were read.
    pub ranges: usize,
    /// The addresses that the destination with the most of them remembers.
    pub addresses: usize,
    /// The suspects of the destination with the most of them.
    pub suspects: usize,
}

impl Load {
    /// Rows of both tables.
    pub fn rows(&self) -> usize {
        self.queued + self.parked
    }
}

impl Engine {
    /// The sizes of everything that is kept.
    pub fn load(&self) -> Load {
        let circuits = self.circuits.iter();
        Load {
            calls: self.flights.len(),
            flying: self.flights.values().map(|flight| flight.entries.len()).sum(),
            shards: self.leases.known(),
            ranges: self.reading.ranges.len(),
            addresses: circuits.clone().map(|one| one.addresses()).max().unwrap_or(0),
            suspects: circuits.map(|one| one.suspects.len()).max().unwrap_or(0),
            ..self.rows.load()
        }
    }
}
