//! Waiting for a condition, never for a time.

use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

/// Looks until there is something to see; fails when that takes longer than the deadline.
pub(super) fn until<T>(what: &str, deadline: Duration, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_every(Duration::from_millis(5), what, deadline, look)
}

/// The same with a pause between two looks, for looks that take something from what is measured.
pub(super) fn until_every<T>(
    pause: Duration,
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if began.elapsed() > deadline {
            return Err(Failure::new(format!("waited {deadline:?} in vain until {what}")));
        }
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_ends_the_wait_and_a_deadline_fails_it() {
        let mut looks = 0;
        let seen = until("the third look", Duration::from_secs(10), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(seen.unwrap(), 3);
        let failure = until::<()>("pigs fly", Duration::ZERO, || Ok(None)).unwrap_err();
        assert_eq!(failure.to_string(), "waited 0ns in vain until pigs fly");
    }
}
