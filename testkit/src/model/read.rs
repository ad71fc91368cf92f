//! Reading: which queued rows lie above the floors and which parked rows are due, in one snapshot.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::time::Duration;

use postrider_core::{DestinationName, Event, Lane, OrderKey, Page, ParkedRange, Range, Read, Seq, Shard};

use super::{Line, Model, Parked, Row};

impl Model {
    /// Reads in one snapshot; see `Store::read`.
    pub fn read(&self, now: Duration, read: &Read) -> Page {
        let mut budget = Budget {
            left: read.max_bytes,
            empty: true,
        };
        let mut page = Page {
            horizon: self.horizon(),
            ..Page::default()
        };
        // Parked rows come first: what is returned is busy at the next read, so they cannot starve the queue, whereas a
        // steady backlog would starve them.
        self.read_parked(now, read, &mut budget, &mut page);
        self.read_queued(now, read, &mut budget, &mut page);
        page
    }

    fn read_parked(&self, now: Duration, read: &Read, budget: &mut Budget, page: &mut Page) {
        let mut heads = Vec::new();
        let mut next: Option<Duration> = None;
        for head in self.heads(&read.parked, &read.skip_dead) {
            if head.dead {
                continue;
            }
            if head.next_attempt <= now {
                heads.push(head);
            } else {
                let wait = head.next_attempt - now;
                next = Some(next.map_or(wait, |known| known.min(wait)));
            }
        }
        page.next_due_in = next;
        heads.sort_by(|a, b| (a.row.seq, &a.destination).cmp(&(b.row.seq, &b.destination)));
        page.parked_to_end = heads.len() <= read.parked.heads as usize;
        for head in heads.into_iter().take(read.parked.heads as usize) {
            for row in std::iter::once(head).chain(self.followers(now, head, read)) {
                if !budget.take(bytes_of(&row.row.event)) {
                    page.parked_to_end = false;
                    return;
                }
                page.parked.push(self.parked_answer(now, row));
            }
        }
    }

    /// The head of every key, lane and destination, whether its time has come or not.
    fn heads(&self, range: &ParkedRange, skip_dead: &[DestinationName]) -> Vec<&Parked> {
        let busy: BTreeSet<(&OrderKey, Lane, &Option<DestinationName>)> = range
            .busy
            .iter()
            .filter_map(|place| self.parked.get(place))
            .map(|parked| (&parked.row.key, parked.row.lane, &parked.destination))
            .collect();
        let shards: BTreeSet<Shard> = range.shards.iter().copied().collect();
        let mut heads = Vec::new();
        for shard in shards {
            for ((key, lane), line) in self.lines_of(shard) {
                if self.paused_keys.contains(key) {
                    continue;
                }
                let unrouted = line.get(&None).and_then(|seqs| seqs.first());
                for (destination, seqs) in line {
                    if busy.contains(&(key, lane, destination)) {
                        continue;
                    }
                    if destination
                        .as_ref()
                        .is_some_and(|name| range.not_for.contains(name))
                    {
                        continue;
                    }
                    let own = seqs
                        .iter()
                        .map(|seq| &self.parked[&(*seq, destination.clone())])
                        .find(|parked| !passed_over(parked, skip_dead));
                    // A row without a destination stands in every line of its key, at its own place.
                    let held = |parked: &Parked| {
                        destination.is_some() && unrouted.is_some_and(|seq| *seq < parked.row.seq)
                    };
                    heads.extend(own.filter(|parked| !held(parked)));
                }
            }
        }
        heads
    }

    /// The rows that may go directly behind a head: those that would be due if they were the head themselves. The first
    /// that would not be holds the rest.
    fn followers<'a>(
        &'a self,
        now: Duration,
        head: &'a Parked,
        read: &'a Read,
    ) -> impl Iterator<Item = &'a Parked> {
        let line = self.line_of(&head.row);
        let unrouted = match head.destination {
            Some(_) => line
                .and_then(|line| line.get(&None))
                .and_then(|seqs| seqs.first()),
            None => None,
        };
        line.and_then(|line| line.get(&head.destination))
            .into_iter()
            .flat_map(move |seqs| seqs.range(head.row.seq..).skip(1))
            .take_while(move |seq| unrouted.is_none_or(|held| *seq < held))
            .map(move |seq| &self.parked[&(*seq, head.destination.clone())])
            .filter(move |parked| !passed_over(parked, &read.skip_dead))
            .take_while(move |parked| !parked.dead && parked.next_attempt <= now)
            .take(read.parked.followers as usize)
    }

    fn read_queued(&self, now: Duration, read: &Read, budget: &mut Budget, page: &mut Page) {
        let mut cursors: Vec<_> = read.ranges.iter().map(|range| self.cursor(range)).collect();
        // One row of each range in turn, so that a bound on bytes is shared by all of them.
        'full: loop {
            let mut moved = false;
            for cursor in &mut cursors {
                if cursor.taken.len() >= cursor.limit {
                    continue;
                }
                let Some(seq) = cursor.rows.peek().copied() else {
                    continue;
                };
                if !budget.take(bytes_of(&self.rows[&seq].event)) {
                    break 'full;
                }
                cursor.rows.next();
                cursor.taken.push(seq);
                moved = true;
            }
            if !moved {
                break;
            }
        }
        for mut cursor in cursors {
            let taken = cursor.taken.iter().map(|seq| &self.rows[seq]);
            page.queued
                .extend(taken.map(|row| self.queued_answer(now, row, &read.skip_dead)));
            page.read_to
                .push(cursor.rows.peek().map_or(Seq::MAX, |left_out| left_out.before()));
        }
    }

    fn cursor(&self, range: &Range) -> Cursor<impl Iterator<Item = Seq> + use<'_>> {
        let skip: BTreeSet<Seq> = range.skip.iter().copied().collect();
        let from = Seq(range.floor.0.saturating_add(1));
        let rows = self
            .visible
            .get(&(range.shard, range.lane))
            .into_iter()
            .flat_map(move |seqs| seqs.range(from..).copied())
            .filter(move |seq| !skip.contains(seq));
        Cursor {
            rows: rows.peekable(),
            taken: Vec::new(),
            limit: range.limit as usize,
        }
    }

    pub(super) fn line_of(&self, row: &Row) -> Option<&Line> {
        self.lines.get(&(row.shard, row.key.clone(), row.lane))
    }

    fn lines_of(&self, shard: Shard) -> impl Iterator<Item = ((&OrderKey, Lane), &Line)> {
        let from = (shard, OrderKey::new(""), Lane::High);
        self.lines
            .range(from..)
            .take_while(move |((of, ..), _)| *of == shard)
            .map(|((_, key, lane), line)| ((key, *lane), line))
    }
}

/// Whether a row does not hold its line: it is dead, and its destination lets the others pass.
pub(super) fn passed_over(parked: &Parked, skip_dead: &[DestinationName]) -> bool {
    parked.dead
        && parked
            .destination
            .as_ref()
            .is_some_and(|name| skip_dead.contains(name))
}

struct Cursor<I: Iterator<Item = Seq>> {
    rows: Peekable<I>,
    taken: Vec<Seq>,
    limit: usize,
}

/// The bytes of an event's columns.
fn bytes_of(event: &Event) -> usize {
    let names = [&event.event_type, &event.aggregate_type, &event.aggregate_id];
    let optional = [&event.key, &event.content_type, &event.headers_text()];
    let names = names.into_iter().chain(optional.into_iter().flatten());
    event.payload.len() + event.id.as_str().len() + names.map(|name| name.len()).sum::<usize>()
}

/// What is left of the bound on bytes.
struct Budget {
    left: usize,
    empty: bool,
}

impl Budget {
    /// Whether a row of this size still fits. The first always does, or nothing would move.
    fn take(&mut self, size: usize) -> bool {
        if !self.empty && size > self.left {
            return false;
        }
        self.empty = false;
        self.left = self.left.saturating_sub(size);
        true
    }
}
