//! How much to ask for at a time: as much as is answered soon. Whoever comes first in priority waits behind all that is
//! unanswered, so what does not make the work faster only makes the urgent late.

use std::time::Duration;

use super::Time;

/// How long the shortest answer is remembered, at least. What is far away is slow even when it is asked for little;
/// that is found out anew by asking for little once in a while.
const REMEMBERED: Duration = Duration::from_secs(10);
/// What an answer that came late leaves of the amount, and how much whole rounds of answers in time add to it.
const LESS: f64 = 0.75;
const MORE: f64 = 0.25;

/// Whether something is urgent. Where nothing is, whatever makes the work faster is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Haste {
    /// Nothing was for long.
    None,
    /// Something was lately: the pace is kept, so that the next overtakes the rest.
    Expected,
    /// Something is, and does not wait for the pace.
    Now,
}

/// An amount between two bounds that follows the time of the answers.
#[derive(Debug)]
pub(super) struct Pace {
    amount: f64,
    least: f64,
    most: f64,
    soon: Duration,
    /// The shortest answer of this while and of the one before it.
    shortest: [Duration; 2],
    since: Time,
    lessened_at: Time,
}

impl Pace {
    /// Begins with the least. Answers that take no longer than `soon`, or half as long again as the shortest, are in
    /// time.
    pub(super) fn new(least: usize, most: usize, soon: Duration) -> Self {
        let least = least.min(most) as f64;
        Self {
            amount: least,
            least,
            most: most as f64,
            soon,
            shortest: [Duration::MAX; 2],
            since: Time::default(),
            lessened_at: Time::default(),
        }
    }

    pub(super) fn amount(&self) -> usize {
        self.amount as usize
    }

    /// Something is urgent from now on. Until now more than the amount was handed over, so that every answer took long:
    /// that is no measure of how soon one can come.
    pub(super) fn begin(&mut self, now: Time) {
        self.shortest = [Duration::MAX; 2];
        self.amount = self.least;
        self.since = now;
    }

    /// So much was asked for then, and is answered now.
    pub(super) fn answered(&mut self, now: Time, started: Time, asked: usize) {
        if started < self.since {
            return;
        }
        let took = now - started;
        self.shortest[0] = self.shortest[0].min(took);
        let shortest = self.shortest[0].min(self.shortest[1]);
        if took <= self.soon.max(shortest + shortest / 2) {
            let part = asked as f64 / self.amount.max(1.0);
            self.amount = (self.amount * (1.0 + MORE * part.min(1.0))).min(self.most);
        } else if started >= self.lessened_at {
            // What was under way when the amount was lessened is late for the same reason.
            self.amount = (self.amount * LESS).max(self.least);
            self.lessened_at = now;
        }
        if now - self.since > REMEMBERED {
            self.shortest = [Duration::MAX, self.shortest[0]];
            self.since = now;
            self.amount = self.least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    /// Rounds of calls to a destination that needs `each` for one event and `far` for the way there and back.
    fn settles_at(each: Duration, far: Duration) -> usize {
        let mut pace = Pace::new(200, 800, SOON);
        let mut now = Time::default();
        for _ in 0..100 {
            let (started, asked) = (now, pace.amount());
            now = now + far + each * asked as u32;
            pace.answered(now, started, asked);
        }
        pace.amount()
    }

    #[test]
    fn what_is_answered_soon_stays_as_much() {
        assert_eq!(
            settles_at(Duration::from_micros(10), Duration::from_millis(1)),
            800
        );
    }

    #[test]
    fn what_waits_in_line_becomes_less() {
        let amount = settles_at(Duration::from_micros(60), Duration::from_millis(1));
        assert!((200..450).contains(&amount), "{amount}");
    }

    #[test]
    fn a_destination_far_away_is_not_slowed_down() {
        assert_eq!(
            settles_at(Duration::from_micros(60), Duration::from_millis(90)),
            800
        );
    }

    #[test]
    fn a_slow_destination_is_given_little() {
        let amount = settles_at(Duration::from_millis(1), Duration::ZERO);
        assert!((200..=375).contains(&amount), "{amount}");
    }

    #[test]
    fn what_was_handed_over_without_haste_is_no_measure() {
        let mut pace = Pace::new(100, 800, SOON);
        let began = Time(Duration::from_secs(1));
        let slow = Duration::from_millis(140);
        for n in 0..40 {
            pace.answered(began + slow + slow * n, began + slow * n, 100);
        }
        assert_eq!(pace.amount(), 800, "nothing is known of anything sooner");
        let urgent = began + slow * 41;
        pace.begin(urgent);
        assert_eq!(pace.amount(), 100);
        pace.answered(urgent + slow, began + slow * 40, 100);
        assert_eq!(pace.amount(), 100, "what was under way before says nothing");
        pace.answered(urgent + slow + SOON, urgent + slow, 100);
        assert_eq!(pace.amount(), 125);
        pace.answered(urgent + slow * 2, urgent + slow, 125);
        assert_eq!(pace.amount(), 100, "it takes longer than it could");
    }

    #[test]
    fn one_late_round_lessens_it_once() {
        let mut pace = Pace::new(1, 800, SOON);
        pace.amount = 800.0;
        let started = Time(Duration::from_secs(1));
        pace.answered(started, started, 0);
        for late in 0..8 {
            pace.answered(started + Duration::from_millis(100 + late), started, 100);
        }
        assert_eq!(pace.amount(), 600);
    }
}
