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
    bucket: Bucket,
}

impl Pace {
    pub fn new(rate: Option<u32>) -> Self {
        Self {
            rate,
            begun: Instant::now(),
            bucket: Bucket::new(rate.unwrap_or(u32::MAX)),
        }
    }

    pub fn rate(&self) -> Option<u32> {
        self.rate
    }

    /// How many rows the next step may have; none: not now.
    pub fn allows(&mut self) -> Option<u32> {
        if self.rate.is_none() {
            return Some(STEP);
        }
        let open = self.bucket.open_at(self.begun.elapsed()).min(STEP);
        Some(open).filter(|open| *open > 0)
    }

    /// So many rows were made.
    pub fn made(&mut self, rows: u64) {
        self.bucket.take(rows);
    }
}

/// What a rate has earned and nobody has used. It holds what a tenth of a second earns and no more: with less every
/// step would have one row, and with more everything that a pause has earned would go at once behind it.
struct Bucket {
    rate: f64,
    level: f64,
    /// Up to when it was filled.
    filled: Duration,
}

impl Bucket {
    fn new(rate: u32) -> Self {
        let rate = f64::from(rate);
        Self {
            rate,
            level: Self::holds(rate),
            filled: Duration::ZERO,
        }
    }

    fn holds(rate: f64) -> f64 {
        (rate / 10.0).max(1.0)
    }

    /// How many rows it has at a moment.
    fn open_at(&mut self, now: Duration) -> u32 {
        let earned = now.saturating_sub(self.filled).as_secs_f64() * self.rate;
        self.level = (self.level + earned).min(Self::holds(self.rate));
        self.filled = now.max(self.filled);
        self.level as u32
    }

    fn take(&mut self, rows: u64) {
        self.level -= rows as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_what_its_rate_has_earned() {
        let millis = Duration::from_millis;
        let mut bucket = Bucket::new(100);
        assert_eq!(bucket.open_at(millis(0)), 10);
        bucket.take(10);
        assert_eq!(bucket.open_at(millis(0)), 0);
        assert_eq!(bucket.open_at(millis(5)), 0);
        assert_eq!(bucket.open_at(millis(35)), 3);
        let mut slow = Bucket::new(1);
        assert_eq!(slow.open_at(millis(0)), 1);
        slow.take(1);
        assert_eq!(slow.open_at(millis(990)), 0);
        assert_eq!(slow.open_at(millis(1_010)), 1);
    }

    /// A relay that was down for ten minutes must not be followed by ten minutes' worth of copies.
    #[test]
    fn a_bucket_does_not_fill_while_nothing_goes() {
        let mut bucket = Bucket::new(100);
        let (mut now, mut made) = (Duration::from_secs(600), 0);
        for _ in 0..1_000 {
            let open = bucket.open_at(now);
            bucket.take(u64::from(open));
            made += open;
            now += Duration::from_millis(1);
        }
        assert!(
            (100..=110).contains(&made),
            "{made} in the second behind the pause"
        );
    }

    #[test]
    fn a_pace_keeps_steps_short() {
        assert_eq!(Pace::new(None).allows(), Some(STEP));
        assert_eq!(Pace::new(Some(1_000_000)).allows(), Some(STEP));
        assert_eq!(Pace::new(Some(1)).allows(), Some(1));
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
