//! Named places where a test may end the process, as a power cut would.
//!
//! Set `POSTRIDER_CRASH_AT=name:n` and the process aborts, without unwinding and without running a destructor, the n-th
//! time it comes by the point called `name`. Without the variable a point costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every point of a relay, so that a test can walk through all of them.
pub const POINTS: &[&str] = &[
    "heartbeat.after",
    "read.after",
    "publish.before",
    "publish.after",
    "settle.before",
    "settle.inside",
    "settle.after",
    "file.torn",
    "file.written",
];

/// The points of people's commands, which no relay comes by: in the middle of every transaction of an operator, behind
/// it before anybody is told, and where what was done to an inbox is not in the audit yet.
pub const OPERATORS: &[&str] = &["operator.inside", "operator.after", "forget.after"];

/// The points of listeners: what a batch did is committed, and the broker has not been told.
pub const LISTENERS: &[&str] = &["acknowledge.before"];

static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Ends the process here if it was asked to.
#[inline]
pub fn point(name: &'static str) {
    if due(name) {
        std::process::abort();
    }
}

/// Whether the process is to end at this point now, for places that first leave something half done.
#[inline]
pub fn due(name: &'static str) -> bool {
    let armed = ARMED.get_or_init(|| {
        let value = std::env::var("POSTRIDER_CRASH_AT").ok()?;
        let (name, n) = value.split_once(':').unwrap_or((&value, "1"));
        Some((name.to_owned(), n.parse().unwrap_or(1)))
    });
    match armed {
        Some((wanted, n)) if wanted == name => SEEN.fetch_add(1, Ordering::Relaxed) + 1 == *n,
        _ => false,
    }
}
