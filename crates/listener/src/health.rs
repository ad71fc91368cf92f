//! How a listener is.

/// How a listener is, for readiness checks and people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether it runs.
    pub running: bool,
    /// Why the broker cannot be read, while it cannot.
    pub source: Option<Box<str>>,
    /// Why effects cannot happen, while they cannot and something is held: their database, or whoever is called for
    /// them, is away.
    pub store: Option<Box<str>>,
    /// Why dead letters cannot be published, while they cannot and one is held.
    pub letters: Option<Box<str>>,
    /// Messages that were received and not settled.
    pub held: usize,
    /// Whether all of them wait for another attempt, so that nothing more is received.
    pub stuck: bool,
}

impl Health {
    /// Whether messages can flow.
    pub fn is_well(&self) -> bool {
        self.running && !self.stuck && self.source.is_none() && self.store.is_none() && self.letters.is_none()
    }
}
