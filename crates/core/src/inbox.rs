//! What every inbox has in common: what it says of an event, and why an effect did not happen.

use std::fmt;

use crate::{Applied, ApplyError, Blame, HandlerError, Received, StoreError, StoreErrorKind};

/// What an inbox says of an event that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is recorded now, in this transaction: its effect is to happen.
    Now,
    /// It was recorded before: its effect has happened.
    Before,
    /// Its id was recorded before with another payload: two events have one id.
    Reused {
        /// The hash that was recorded.
        recorded: String,
    },
}

impl Recorded {
    /// What a record that was there before means for an event with this hash. Where either has none, nothing can be
    /// said against it.
    pub fn beside(recorded: Option<String>, given: Option<&str>) -> Self {
        match (recorded, given) {
            (Some(recorded), Some(given)) if recorded != given => Recorded::Reused { recorded },
            _ => Recorded::Before,
        }
    }

    /// What was said of the only event of a call. An inbox that says anything else than one thing of it is in error:
    /// silence taken for a repetition would lose the event.
    pub fn only(said: Vec<Recorded>) -> Result<Self, StoreError> {
        <[Recorded; 1]>::try_from(said).map(|[one]| one).map_err(|said| {
            let text = format!("the inbox gave {} answers for one event", said.len());
            StoreError::new(StoreErrorKind::Corrupt, text)
        })
    }

    /// What becomes of the deliveries of a batch, in their order; an id that was reused is an error.
    pub fn applied(said: Vec<Recorded>) -> Result<Vec<Applied>, ApplyError> {
        let applied = said.into_iter().enumerate().map(|(at, one)| match one {
            Recorded::Now => Ok(Applied::Now),
            Recorded::Before => Ok(Applied::Before),
            Recorded::Reused { recorded } => Err(ApplyError::Reused { at, recorded }),
        });
        applied.collect()
    }

    /// Whether the effect is to happen; an id that was reused is an error.
    pub fn is_first(self, event_id: &str, given: Option<&str>) -> Result<bool, ReusedId> {
        match self {
            Recorded::Now => Ok(true),
            Recorded::Before => Ok(false),
            Recorded::Reused { recorded } => Err(ReusedId {
                event_id: event_id.to_owned(),
                recorded,
                given: given.unwrap_or_default().to_owned(),
            }),
        }
    }
}

/// The longest id that an inbox keeps, in bytes: beside the name of a consumer it fits into an index of every database,
/// and it holds the longest id of an event together with that of a replay.
const LONGEST: usize = 1_500;

/// Why an inbox cannot know an event by this id, if it cannot. Such an event is refused before a database sees it: an
/// error of the database would be taken for one of the database, and everything behind the event would wait.
pub fn unfit_record(id: &str) -> Option<&'static str> {
    match id {
        "" => Some("it has no id, so that a repetition of it could not be told from another event"),
        id if id.len() > LONGEST => Some("its id is longer than 1,500 bytes"),
        id if id.contains('\0') => Some("its id has the character U+0000, which databases do not store"),
        _ => None,
    }
}

/// Refuses events that an inbox cannot know by their ids. Without this all events without an id would be one event, of
/// which all but the first seem to have taken effect.
pub fn refuse_unfit(events: &[(&str, Option<&str>)]) -> Result<(), StoreError> {
    match events.iter().find_map(|(id, _)| unfit_record(id)) {
        Some(reason) => {
            let error = StoreError::new(
                StoreErrorKind::Invalid,
                format!("an event cannot be recorded: {reason}"),
            );
            Err(error.with_advice("have its producer give every event an id of its own"))
        }
        None => Ok(()),
    }
}

/// What is to be recorded of these deliveries: the id and the hash of each. One that cannot be is refused before the
/// database sees it.
pub fn to_record(deliveries: &[Received]) -> Result<Vec<(&str, Option<&str>)>, ApplyError> {
    let entry = |(at, delivery): (usize, &'_ Received)| match unfit_record(&delivery.record_id) {
        Some(reason) => {
            let error = HandlerError::reject(format!("the event cannot be recorded: {reason}"));
            Err(ApplyError::Handler { at, error })
        }
        None => Ok(()),
    };
    deliveries.iter().enumerate().try_for_each(entry)?;
    let fit = deliveries
        .iter()
        .map(|delivery| (delivery.record_id.as_str(), fit_hash(delivery.payload_hash())));
    Ok(fit.collect())
}

impl ApplyError {
    /// A handler failed, and behind its error was this trouble of its database, if any. It may be the database that is
    /// away or full, and no event is to be given up for that; or the event that is too slow or too large for its
    /// connection, and nothing else is to wait for it. Whether others take effect tells.
    pub fn of_handler(at: usize, error: HandlerError, trouble: Option<StoreErrorKind>) -> Self {
        use StoreErrorKind::{Corrupt, Full, ReadOnly, Unreachable};
        let error = match (trouble, error.blamed()) {
            (Some(Unreachable | Full | ReadOnly | Corrupt), Blame::Event) => error.blame(Blame::Unclear),
            _ => error,
        };
        ApplyError::Handler { at, error }
    }
}

/// A hash that a database can keep; anything else that a stranger wrote into the header is as good as none.
fn fit_hash(hash: Option<&str>) -> Option<&str> {
    hash.filter(|hash| !hash.is_empty() && hash.len() <= 128 && !hash.contains('\0'))
}

/// An id that was recorded with another payload. Whoever gives two events one id would lose the second without a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event {event_id} has taken effect with another payload (SHA-256 {recorded}, now {given}); have its producer \
     give every event an id of its own"
)]
pub struct ReusedId {
    /// The id.
    pub event_id: String,
    /// The hash that was recorded.
    pub recorded: String,
    /// The hash of the event at hand.
    pub given: String,
}

/// An event could not be recorded.
#[derive(Debug)]
pub enum FirstError {
    /// Its id was recorded with another payload.
    Reused(ReusedId),
    /// The database failed.
    Store(StoreError),
}

impl fmt::Display for FirstError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FirstError::Reused(error) => error.fmt(f),
            FirstError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FirstError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FirstError::Reused(_) => None,
            FirstError::Store(error) => error.source(),
        }
    }
}

/// An effect did not happen; its transaction was rolled back, and the event counts as not seen.
#[derive(Debug)]
pub enum OnceError<E> {
    /// The effect itself failed.
    Effect(E),
    /// The id was recorded with another payload.
    Reused(ReusedId),
    /// The database failed. When that was the commit, whether it took effect is not known: deliver the event again.
    Store(StoreError),
}

impl<E> From<FirstError> for OnceError<E> {
    fn from(error: FirstError) -> Self {
        match error {
            FirstError::Reused(error) => OnceError::Reused(error),
            FirstError::Store(error) => OnceError::Store(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnceError::Effect(error) => write!(f, "the effect failed and was rolled back: {error}"),
            OnceError::Reused(error) => error.fmt(f),
            OnceError::Store(error) => write!(f, "the inbox could not be used: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OnceError::Effect(error) => Some(error),
            OnceError::Reused(_) => None,
            OnceError::Store(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults D8 and D9.
    #[test]
    fn only_two_hashes_that_differ_are_a_reuse() {
        let some = |hash: &str| Some(hash.to_owned());
        assert_eq!(Recorded::beside(some("a"), Some("a")), Recorded::Before);
        assert_eq!(Recorded::beside(None, Some("a")), Recorded::Before);
        assert_eq!(Recorded::beside(some("a"), None), Recorded::Before);
        let reused = Recorded::beside(some("a"), Some("b"));
        let error = reused.is_first("7", Some("b")).unwrap_err().to_string();
        assert!(
            error.contains("event 7") && error.contains("SHA-256 a, now b"),
            "{error}"
        );
    }

    /// Fault D8.
    #[test]
    fn ids_that_no_index_holds_are_refused() {
        assert_eq!(unfit_record(&"é".repeat(255)), None);
        for id in ["", "a\0b", &"x".repeat(1_501)] {
            assert!(unfit_record(id).is_some(), "{id:?}");
        }
        assert_eq!(fit_hash(Some("a\0")), None);
        assert_eq!(fit_hash(Some("")), None);
        assert_eq!(fit_hash(Some("ab")), Some("ab"));
    }

    /// Fault D4.
    #[test]
    fn silence_is_no_repetition() {
        assert_eq!(Recorded::only(vec![Recorded::Now]).unwrap(), Recorded::Now);
        assert_eq!(Recorded::only(vec![Recorded::Before]).unwrap(), Recorded::Before);
        for said in [vec![], vec![Recorded::Now, Recorded::Before]] {
            let error = Recorded::only(said).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
        }
    }
}
