//! Asking for rows: from above a floor that never passes a row still to come, as many as there is room for.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{DeadLetter, Lane, Page, ParkedRange, Range, Read, Seq, Shard, StoreError, Token};

use super::again::Again;
use super::note::Note;
use super::pace::{Haste, Pace};
use super::poll::{self, Bell, Found};
use super::{Call, Command, Engine, Plant, Time};

/// Rows behind each due head.
const FOLLOWERS: u32 = 64;
/// The least a read is allowed to bring, so that a nearly full window does not lead to reads of single rows.
const LEAST_BYTES: usize = 64 << 10;
/// The least and the most rows a lane is asked for while something urgent may come, and how long a read may take before
/// it is asked for less: what is urgent and was written meanwhile waits for the next. More than that many make nothing
/// faster, and a database that is held up for a moment is held up for each of them.
const LEAST_ROWS: usize = 128;
const MOST_ROWS: usize = 512;
const SOON: Duration = Duration::from_millis(5);
/// For how long the next urgent row is expected behind one.
const HASTE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) ranges: BTreeMap<(Shard, Lane), Floor>,
    pub(super) under_way: Option<UnderWay>,
    /// When the last one was asked for.
    pub(super) asked_at: Time,
    pub(super) next_at: Time,
    pub(super) poll: Duration,
    pub(super) empty: bool,
    /// Something happened since the read under way was asked for.
    pub(super) stale: bool,
    /// The last read left something out.
    pub(super) partly: bool,
    pub(super) bell: Bell,
    again: Again,
    swept_at: Option<Time>,
    /// How far the sweep under way has come, per range.
    sweep: Option<BTreeMap<(Shard, Lane), Seq>>,
    pace: Pace,
    /// When a row of the high lane was read last.
    urgent_at: Option<Time>,
}

/// How far a range has been read: everything at or below is settled or in memory.
#[derive(Debug, Default)]
pub(super) struct Floor {
    scanned: Seq,
    /// The last read filled its limit: more is waiting.
    pub(super) more: bool,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    call: Call,
    ranges: Vec<Range>,
    tokens: BTreeMap<Shard, Token>,
    sweep: bool,
    after_arming: bool,
    /// Something was left out for want of room, or because its destination is closed.
    partly: bool,
}

impl Reading {
    pub(super) fn new(window: usize) -> Self {
        Self {
            ranges: BTreeMap::new(),
            under_way: None,
            asked_at: Time::default(),
            next_at: Time::default(),
            poll: Duration::ZERO,
            empty: false,
            stale: false,
            partly: false,
            bell: Bell::default(),
            again: Again::default(),
            swept_at: None,
            sweep: None,
            pace: Pace::new(LEAST_ROWS, MOST_ROWS.min(window), SOON),
            urgent_at: None,
        }
    }

    /// Whether the last read of a lane left something behind.
    pub(super) fn has_more(&self, lane: Lane) -> bool {
        self.ranges
            .iter()
            .any(|((_, of), floor)| *of == lane && floor.more)
    }

    /// Whether something urgent may come at any moment.
    pub(super) fn haste(&self, now: Time) -> Haste {
        match self.urgent_at {
            Some(at) if now - at < HASTE => Haste::Expected,
            _ => Haste::None,
        }
    }

    pub(super) fn under_way(&self) -> Option<Call> {
        self.under_way.as_ref().map(|under_way| under_way.call)
    }

    pub(super) fn found_nothing(&self) -> bool {
        self.empty && self.under_way.is_none() && self.sweep.is_none()
    }

    pub(super) fn forget_shard(&mut self, shard: Shard) {
        self.ranges.retain(|(of, _), _| *of != shard);
        if let Some(sweep) = &mut self.sweep {
            sweep.retain(|(of, _), _| *of != shard);
        }
    }
}

impl Engine {
    /// Asks for rows when there is room and the time has come.
    pub(super) fn ask_read(&mut self, now: Time, out: &mut Vec<Command>) {
        if self.read_wake(now).is_none_or(|at| now < at) {
            return;
        }
        let sweep = self.sweep_due(now);
        let ranges = self.ranges(now, sweep);
        let crowded: Vec<bool> = (0..self.circuits.len())
            .map(|index| self.is_crowded(index))
            .collect();
        let heads = self.free_heads(&crowded);
        if ranges.is_empty() && heads == 0 {
            // Every lane is full: the next settle makes room, and this is looked at again after every fact.
            self.reading.next_at = now + poll::SOON;
            return;
        }
        let call = self.call();
        let serving = |held: &super::lease::Held| !held.draining;
        let tokens: BTreeMap<Shard, Token> = self
            .leases
            .held
            .iter()
            .filter(|(_, held)| serving(held))
            .map(|(shard, held)| (*shard, held.token))
            .collect();
        let named = |keep: &dyn Fn(usize) -> bool| {
            let all = self.router.destinations().iter().enumerate();
            all.filter(|(index, _)| keep(*index))
                .map(|(_, one)| one.name.clone())
                .collect::<Vec<_>>()
        };
        let read = Read {
            ranges: ranges.clone(),
            max_bytes: self
                .settings
                .window_bytes
                .saturating_sub(self.rows.bytes())
                .max(LEAST_BYTES),
            parked: ParkedRange {
                shards: tokens.keys().copied().collect(),
                heads: heads as u32,
                followers: FOLLOWERS,
                busy: self.rows.parked_refs(),
                not_for: named(&|index| self.circuits[index].is_shut(now) || crowded[index]),
            },
            skip_dead: named(&|index| self.router.destinations()[index].dead_letter == DeadLetter::Skip),
        };
        let after_arming = self.reading.bell == Bell::Armed;
        self.reading.asked_at = now;
        // A lane without room or a destination left out: that such a read finds nothing does not mean there is nothing.
        let partly =
            !read.parked.not_for.is_empty() || heads == 0 || ranges.len() < tokens.len() * Lane::ALL.len();
        self.reading.under_way = Some(UnderWay {
            call,
            ranges,
            tokens,
            sweep,
            after_arming,
            partly,
        });
        out.push(Command::Read(call, read));
    }

    /// The ranges to read, each with its fair quota of what room there is.
    fn ranges(&mut self, now: Time, sweep: bool) -> Vec<Range> {
        let serving: Vec<Shard> = self
            .leases
            .held
            .iter()
            .filter(|(_, held)| !held.draining)
            .map(|(shard, _)| *shard)
            .collect();
        if self.rows.bytes() >= self.settings.window_bytes {
            return Vec::new();
        }
        let mut ranges = Vec::new();
        for lane in Lane::ALL {
            let free = self.free_in(lane);
            if !self.is_worth_reading(now, lane) {
                continue;
            }
            let free = match self.reading.haste(now) {
                Haste::None => free,
                _ => free.min(self.reading.pace.amount()),
            };
            let busy = serving
                .iter()
                .filter(|shard| self.floor(**shard, lane).more)
                .count();
            for &shard in &serving {
                // A shard that filled its last quota shares the room with the others that did; the rest get an even
                // share.
                let among = if self.floor(shard, lane).more {
                    busy
                } else {
                    serving.len()
                };
                let limit = (free / among.max(1)).max(1) as u32;
                let floor = match &self.reading.sweep {
                    Some(at) if sweep => at.get(&(shard, lane)).copied().unwrap_or_default(),
                    _ => self.floor(shard, lane).scanned,
                };
                ranges.push(Range {
                    shard,
                    lane,
                    floor,
                    skip: self.rows.above(shard, lane, floor),
                    limit,
                });
            }
        }
        ranges
    }

    fn floor(&mut self, shard: Shard, lane: Lane) -> &Floor {
        self.reading.ranges.entry((shard, lane)).or_default()
    }

    /// The net under all floors: once in a while everything is looked through from zero, page by page.
    fn sweep_due(&mut self, now: Time) -> bool {
        let last = *self.reading.swept_at.get_or_insert(now);
        if self.reading.sweep.is_none() && now - last >= self.identity.sweep_every {
            self.reading.swept_at = Some(now);
            self.reading.sweep = Some(BTreeMap::new());
        }
        self.reading.sweep.is_some()
    }

    /// The answer to a read.
    pub(super) fn on_page(
        &mut self,
        now: Time,
        call: Call,
        page: Result<Page, StoreError>,
        out: &mut Vec<Command>,
    ) {
        let Some(under_way) = self.reading.under_way.take_if(|under_way| under_way.call == call) else {
            return;
        };
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let random = self.random();
                let delay = self.reading.again.failed(random);
                self.reading.next_at = now + delay;
                self.reading.empty = false;
                self.reading.stale = false;
                // A sweep that takes longer than a read may would be repeated for ever, and nothing else be read.
                if !self.planted(Plant::SweepForEver) {
                    self.reading.sweep = None;
                }
                self.note_store("read", &error, delay, out);
                return;
            }
        };
        if self.reading.again.succeeded() {
            out.push(Command::Note(Note::StoreBack { doing: "read" }));
        }
        self.reading
            .pace
            .answered(now, self.reading.asked_at, page.queued.len());
        if page.queued.iter().any(|row| row.lane == Lane::High) {
            if self.reading.haste(now) == Haste::None {
                self.reading.pace.begin(now);
            }
            self.reading.urgent_at = Some(now);
        }
        let current = |shard: Shard| {
            let token = under_way.tokens.get(&shard);
            token.is_some() && token.copied() == self.leases.token(shard)
        };
        let shards: Vec<Shard> = under_way
            .tokens
            .keys()
            .copied()
            .filter(|shard| current(*shard))
            .collect();
        self.note_stranded(&under_way, &page, out);
        self.move_floors(&under_way, &page, &shards);
        let found = Found {
            rows: page.queued.len(),
            parked: !page.parked.is_empty(),
        };
        let next_due_in = page.next_due_in;
        for row in page.queued {
            if shards.contains(&row.shard) && !self.rows.has_queued(row.shard, row.seq) {
                self.arrive_queued(now, row, out);
            }
        }
        self.arrive_parked_lines(now, page.parked, &shards, out);
        for (range, read_to) in under_way.ranges.iter().zip(&page.read_to) {
            if *read_to == Seq::MAX && !under_way.sweep && shards.contains(&range.shard) {
                self.leases.read_to_end(range.shard, range.lane);
            }
        }
        if !self.planted(Plant::VoidForEver) {
            self.rows.trust_again(call);
        }
        self.reading.partly = under_way.partly;
        self.plan_next(now, found, under_way.after_arming, next_due_in, out);
    }

    /// Rows that only the sweep found lie at or below a floor that had passed them.
    fn note_stranded(&self, under_way: &UnderWay, page: &Page, out: &mut Vec<Command>) {
        for row in page.queued.iter().filter(|_| under_way.sweep) {
            let floor = self.reading.ranges.get(&(row.shard, row.lane));
            if floor.is_some_and(|floor| row.seq <= floor.scanned)
                && !self.rows.has_queued(row.shard, row.seq)
            {
                out.push(Command::Note(Note::Stranded {
                    event_id: row.event_id.clone(),
                }));
            }
        }
    }

    fn move_floors(&mut self, under_way: &UnderWay, page: &Page, shards: &[Shard]) {
        let last_seen = self.planted(Plant::ReadBehindLastRow);
        let mut found: BTreeMap<(Shard, Lane), (u32, Seq)> = BTreeMap::new();
        for row in &page.queued {
            let (count, highest) = found.entry((row.shard, row.lane)).or_default();
            (*count, *highest) = (*count + 1, row.seq.max(*highest));
        }
        // A lane that was left out for want of room is still to be swept.
        let mut swept = under_way.ranges.len() >= under_way.tokens.len() * Lane::ALL.len();
        for (range, read_to) in under_way.ranges.iter().zip(&page.read_to) {
            if !shards.contains(&range.shard) {
                continue;
            }
            let (count, highest) = found.get(&(range.shard, range.lane)).copied().unwrap_or_default();
            let floor = self.reading.ranges.entry((range.shard, range.lane)).or_default();
            floor.more = count >= range.limit;
            if page.horizon < floor.scanned && !last_seen {
                // The places began anew under our feet: tables made again, a sequence reset, a backup restored.
                floor.scanned = Seq(0);
            }
            let to = if last_seen {
                highest
            } else {
                page.horizon.min(*read_to)
            };
            if under_way.sweep {
                let done = *read_to >= floor.scanned;
                swept &= done;
                if let Some(sweep) = &mut self.reading.sweep {
                    sweep.insert((range.shard, range.lane), (*read_to).min(floor.scanned));
                }
            }
            floor.scanned = floor.scanned.max(to);
        }
        if under_way.sweep && swept {
            self.reading.sweep = None;
        }
    }
}
