//! Waiting for a condition, with an end: what a test does instead of sleeping.

use std::time::Duration;

use tokio::time::Instant;

/// How long a condition may take to come true: far more than it needs, because a slow machine is not a broken product.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Often enough to cost no test its time, and seldom enough for a look that asks a server.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// For looks that ask a process which is being tested: many of them would be load of their own.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Waits until a condition holds, and fails with its name after [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, async || holds().then_some(())).await;
}

/// Waits until a look that takes time itself finds something.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look).await
}

/// The same, with another patience: where something is known to take longer, or must not.
pub async fn within<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The same for a thread that may block. What was seen last is part of the message, so that a failure explains itself.
#[track_caller]
pub fn blocking<T, S: std::fmt::Debug>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let begun = std::time::Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(begun.elapsed() < limit, "{what}: not within {limit:?}: {seen:?}"),
        }
        std::thread::sleep(ASK_EVERY);
    }
}
