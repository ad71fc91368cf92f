//! When to read: soon while there is work, less and less often while there is none, and then asleep until the doorbell
//! rings.

use std::time::Duration;

use postrider_core::Lane;

use super::pace::Haste;
use super::{Call, Command, Engine, Time};

/// The first wait after a read that found nothing; doubled up to the poll interval.
pub(super) const SOON: Duration = Duration::from_millis(1);
/// Once reads have found nothing for this long, the doorbell is armed.
const ARM_AFTER: Duration = Duration::from_millis(15);
/// After a read that found all there was, the next waits this long for every row that it found, up to so long. Reads of
/// a few rows cost the database as much as reads of many, beside the producers that it should serve.
const PER_ROW: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(25);
/// While a lane is full, how often the others are read: while something urgent may come at any time, and else.
const URGENT: Duration = Duration::from_millis(5);
const CALM: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Bell {
    #[default]
    Off,
    Arming(Call),
    /// Armed; one more read must find nothing before it may be trusted.
    Armed,
    /// Asleep until it rings or the poll interval is over.
    Asleep,
}

/// What a read found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) rows: usize,
    pub(super) parked: bool,
}

impl Engine {
    /// There may be something new: read at once.
    pub(super) fn read_soon(&mut self, now: Time) {
        // What is under way may have looked before whatever happened: that it finds nothing says nothing.
        self.reading.stale = self.reading.under_way.is_some();
        self.reading.next_at = now;
        self.reading.poll = Duration::ZERO;
        self.reading.empty = false;
    }

    /// The answer to an arming that was given up says nothing about the one under way.
    pub(super) fn on_armed(&mut self, now: Time, call: Call, armed: bool) {
        if self.reading.bell != Bell::Arming(call) {
            return;
        }
        self.reading.bell = Bell::Off;
        if armed {
            self.reading.bell = Bell::Armed;
            self.reading.next_at = now;
        }
    }

    pub(super) fn on_rang(&mut self, now: Time, out: &mut Vec<Command>) {
        self.disarm(out);
        self.read_soon(now);
    }

    fn arm(&mut self, out: &mut Vec<Command>) {
        let call = self.call();
        self.reading.bell = Bell::Arming(call);
        let shards = self.leases.held.keys().copied().collect();
        out.push(Command::Arm(call, shards));
    }

    /// Takes the doorbell down: somebody is awake, or it was armed for other shards.
    pub(super) fn disarm(&mut self, out: &mut Vec<Command>) {
        if self.reading.bell != Bell::Off {
            self.reading.bell = Bell::Off;
            out.push(Command::Disarm);
        }
    }

    /// A settle made room: what was left out for want of it is read at once.
    pub(super) fn read_on(&mut self, now: Time) {
        if self.reading.partly || self.reading.ranges.values().any(|floor| floor.more) {
            self.reading.next_at = self.next_busy(now);
            self.reading.poll = Duration::ZERO;
        }
    }

    /// When to read on while there is more: at once if there is room in a lane that has more, or in all.
    fn next_busy(&self, now: Time) -> Time {
        let worth = |lane: &Lane| self.is_worth_reading(now, *lane);
        let more = |lane: &Lane| self.reading.has_more(*lane);
        let wait = match self.reading.haste(now) {
            _ if Lane::ALL.iter().all(worth) => Duration::ZERO,
            _ if Lane::ALL.iter().any(|lane| worth(lane) && more(lane)) => Duration::ZERO,
            Haste::None => CALM,
            _ => URGENT,
        };
        now.max(self.reading.asked_at + wait)
    }

    /// When the next read is due; none while one is under way or none can be made, so that nobody wakes in vain.
    pub(super) fn read_wake(&self, now: Time) -> Option<Time> {
        let reading = self.reading.under_way.is_some();
        let serving = !self.leases.held.is_empty() && self.leases.is_valid(now);
        (!reading && serving && self.stop.is_none() && !self.controls.paused).then_some(self.reading.next_at)
    }

    /// Busy: again at once, or as soon as a few more may be there. Quiet: a little later each time. Quiet for a while:
    /// arm the doorbell, look once more, sleep.
    pub(super) fn plan_next(
        &mut self,
        now: Time,
        found: Found,
        after_arming: bool,
        next_due_in: Option<Duration>,
        out: &mut Vec<Command>,
    ) {
        let look_again = std::mem::take(&mut self.reading.stale);
        let any = found.rows > 0 || found.parked || look_again;
        self.reading.empty = !any && !self.reading.partly;
        if any {
            let more = self.reading.ranges.values().any(|floor| floor.more);
            let at_once = more || found.parked || look_again || self.reading.partly;
            self.reading.poll = Duration::ZERO;
            self.reading.next_at = match at_once {
                true => self.next_busy(now),
                false => now + (SOON + PER_ROW * found.rows as u32).min(LONGEST),
            };
            self.disarm(out);
            return;
        }
        let poll_interval = self.settings.poll_interval;
        let reading = &mut self.reading;
        reading.poll = (reading.poll * 2).clamp(SOON, poll_interval.max(SOON));
        let mut wait = reading.poll;
        if after_arming && reading.bell == Bell::Armed {
            reading.bell = Bell::Asleep;
        }
        match reading.bell {
            Bell::Asleep => wait = poll_interval,
            Bell::Off if self.identity.doorbell && reading.poll > ARM_AFTER => self.arm(out),
            _ => {}
        }
        let due = next_due_in.map_or(wait, |due| due.max(Duration::from_millis(1)));
        self.reading.next_at = now + wait.min(due);
    }
}
