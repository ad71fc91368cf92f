//! What happened, line by line, when somebody wants to read it.

use std::time::Duration;

/// The lines of a run; nothing is formatted unless it is on.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    on: bool,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            lines: Vec::new(),
        }
    }

    pub(crate) fn say(&mut self, now: Duration, line: impl FnOnce() -> String) {
        if self.on {
            self.lines
                .push(format!("{:>10.3} {}", now.as_secs_f64() * 1e3, line()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}
