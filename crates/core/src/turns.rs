//! How long something is tried again that others stand in the way of.

use std::time::{Duration, Instant};

/// Longer than others hold what is waited for, and shorter than a person who watches would wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first pause; whoever stands in the way of a short transaction is gone soon.
const SHORTEST: Duration = Duration::from_millis(2);
/// The last ones: short enough to be there when it is free.
const LONGEST: Duration = Duration::from_millis(200);

/// The pauses before each further turn of a transaction that another one stood in the way of: they double, and end
/// after half a minute. The same for every inbox, whatever its database calls such a conflict.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::Turns;
///
/// let mut turns = Turns::default();
/// assert_eq!(turns.next(), Some(Duration::from_millis(2)));
/// assert_eq!(turns.next(), Some(Duration::from_millis(4)));
/// ```
#[derive(Clone, Debug)]
pub struct Turns {
    deadline: Instant,
    pause: Duration,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            deadline: Instant::now() + PATIENCE,
            pause: SHORTEST,
        }
    }
}

impl Iterator for Turns {
    type Item = Duration;

    /// How long to wait for the next turn, if there is one.
    fn next(&mut self) -> Option<Duration> {
        let pause = (Instant::now() < self.deadline).then_some(self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_end_with_the_patience() {
        let mut turns = Turns::default();
        let pauses: Vec<Duration> = turns.by_ref().take(20).collect();
        assert!(
            pauses.is_sorted() && pauses.last() == Some(&LONGEST),
            "{pauses:?}"
        );
        turns.deadline = Instant::now();
        assert_eq!(turns.next(), None);
    }
}
