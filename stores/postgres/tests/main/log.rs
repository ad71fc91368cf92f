//! What is written to the log, by all tests of the process: a test looks for what only its own can say.

use std::sync::{Mutex, PoisonError};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps every line from now on.
pub(crate) fn keep() {
    postrider_testkit::log::collect(
        |metadata| metadata.target().starts_with("postrider"),
        |line| LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line),
    );
}

/// The lines with all of these parts.
pub(crate) fn lines(parts: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    lines.iter().filter(has_all).cloned().collect()
}
