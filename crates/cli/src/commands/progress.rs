//! How far a job is, for whoever waits for it; and how fast it may go.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use postrider_core::Job;

use crate::config::duration;
use crate::output::Output;

/// Rows of one step: one short transaction each, so that a relay never waits noticeably.
pub const STEP: u32 = 500;
/// How often the line is written anew.
const EVERY: Duration = Duration::from_millis(200);

/// A line on standard error that is written over; none where nobody looks.
pub struct Progress {
    shown: bool,
    of: Option<u64>,
    begun: Instant,
    first: Option<u64>,
    last: Option<Instant>,
}

impl Progress {
    pub fn new(out: Output, of: Option<u64>) -> Self {
        Self {
            shown: out.is_terminal() && io::stderr().is_terminal(),
            of,
            begun: Instant::now(),
            first: None,
            last: None,
        }
    }

    /// Shows how far a job is.
    pub fn show(&mut self, job: &Job) {
        self.count(job.kind.as_str(), job.touched + job.refused);
    }

    /// Shows how many rows of something are done.
    pub fn count(&mut self, what: &str, done: u64) {
        let first = *self.first.get_or_insert(done);
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let line = line(what, done, done - first.min(done), self.of, self.begun.elapsed());
        eprint!("\r{line:<60}\r");
    }

    /// Leaves the line to what is printed next.
    pub fn end(&self) {
        if self.last.is_some() {
            eprint!("\r{:<60}\r", "");
        }
    }
}

fn line(what: &str, done: u64, here: u64, of: Option<u64>, elapsed: Duration) -> String {
    let rate = here as f64 / elapsed.as_secs_f64().max(0.001);
    match of.filter(|of| *of >= done && rate >= 1.0) {
        Some(of) => {
            let left = Duration::from_secs(((of - done) as f64 / rate) as u64);
            let left = duration::show(left);
            format!("{what}: {done} of {of}, {rate:.0}/s, {left} left")
        }
        None => format!("{what}: {done}, {rate:.0}/s"),
    }
}

/// At most so many rows a second.
pub struct Pace {
    rate: Option<u32>,
    begun: Instant,
    made: u64,
}

impl Pace {
    pub fn new(rate: Option<u32>) -> Self {
        Self {
            rate,
            begun: Instant::now(),
            made: 0,
        }
    }

    pub fn rate(&self) -> Option<u32> {
        self.rate
    }

    /// How many rows the next step may have; none: not now.
    pub fn allows(&self) -> Option<u32> {
        self.allows_after(self.begun.elapsed())
    }

    fn allows_after(&self, elapsed: Duration) -> Option<u32> {
        let Some(rate) = self.rate else {
            return Some(STEP);
        };
        // What a tenth of a second allows may go at once, or every step would have one row.
        let earned = elapsed.as_secs_f64() * f64::from(rate) + f64::from(rate) / 10.0;
        let open = (earned.max(1.0) as u64).saturating_sub(self.made);
        u32::try_from(open.min(u64::from(STEP)))
            .ok()
            .filter(|open| *open > 0)
    }

    /// So many rows were made.
    pub fn made(&mut self, rows: u64) {
        self.made += rows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_allows_what_its_rate_has_earned() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(Some(100));
        assert_eq!(pace.allows_after(seconds(0)), Some(10));
        pace.made(10);
        assert_eq!(pace.allows_after(seconds(0)), None);
        assert_eq!(pace.allows_after(seconds(1)), Some(100));
        assert_eq!(pace.allows_after(seconds(60)), Some(STEP), "a step stays short");
        assert_eq!(Pace::new(Some(1)).allows_after(seconds(0)), Some(1));
        assert_eq!(Pace::new(None).allows_after(seconds(0)), Some(STEP));
    }

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let ten = Duration::from_secs(10);
        assert_eq!(
            line("redrive", 3_000, 1_000, Some(5_000), ten),
            "redrive: 3000 of 5000, 100/s, 20s left"
        );
        assert_eq!(line("replay", 0, 0, None, ten), "replay: 0, 0/s");
        assert_eq!(
            line("replay", 30, 30, Some(20), ten),
            "replay: 30, 3/s",
            "more came"
        );
    }
}
