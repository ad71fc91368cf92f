//! When how much had passed.

use std::time::Instant;

use serde_json::{Value, json};

/// How many events are between two marks: a few milliseconds of work.
const MARK: usize = 500;

/// Counts events and remembers when every so many of them had passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    count: usize,
    marks: Vec<(Instant, usize)>,
}

impl Rates {
    /// Some more have passed now.
    pub(crate) fn count(&mut self, more: usize) {
        self.count += more;
        if self.marks.last().is_none_or(|(_, at)| self.count - at >= MARK) {
            self.marks.push((Instant::now(), self.count));
        }
    }

    /// The rates over all and over the first and the last tenth. The first events only start the clock, so that
    /// connecting and taking the lease count for nothing.
    pub(crate) fn json(&self) -> Value {
        let whole = self.between(0.0, 1.0);
        json!({
            "events": self.count,
            "per_s": whole,
            "first_tenth_per_s": self.between(0.0, 0.1),
            "last_tenth_per_s": self.between(0.9, 1.0),
        })
    }

    fn between(&self, from: f64, to: f64) -> f64 {
        let (Some(first), Some(last)) = (self.marks.first(), self.marks.last()) else {
            return 0.0;
        };
        let place = |share: f64| first.1 as f64 + share * (last.1 - first.1) as f64;
        let mark = |share: f64| {
            let wanted = place(share);
            self.marks
                .iter()
                .find(|(_, count)| *count as f64 >= wanted)
                .unwrap_or(last)
        };
        let (begin, end) = (mark(from), mark(to));
        let seconds = end.0.duration_since(begin.0).as_secs_f64();
        match seconds > 0.0 {
            true => (end.1 - begin.1) as f64 / seconds,
            false => 0.0,
        }
    }
}
