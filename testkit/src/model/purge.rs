//! Removing what was kept for long enough.

use std::time::Duration;

use postrider_core::{Job, JobId, JobKind, JobState, Kept, Purge, Purged, Seq, Timestamp};

use super::audit::Deed;
use super::{Model, Record, time};

impl Model {
    /// Removes what is older than its term; see `Upkeep::purge`.
    pub fn purge(&mut self, now: Duration, purge: &Purge) -> Purged {
        let limit = match purge.dry_run {
            true => usize::MAX,
            false => purge.limit as usize,
        };
        let rows = match &purge.what {
            Kept::History => self.purge_history(now, purge, limit),
            Kept::Audit => {
                let old = |at: Timestamp| is_old(now, at, purge.older_than);
                let entries = self.audit.iter().filter(|(_, entry)| old(entry.at));
                let numbers: Vec<u64> = entries.map(|(number, _)| *number).take(limit).collect();
                remove(purge, numbers, |number| drop(self.audit.remove(number)))
            }
            Kept::Jobs => {
                let old = |job: &Job| has_ended(job) && is_old(now, job.updated_at, purge.older_than);
                let ended = self.jobs.iter().filter(|filed| old(&filed.job));
                let ids: Vec<_> = ended.map(|filed| filed.job.id.clone()).take(limit).collect();
                remove(purge, ids, |id| self.jobs.retain(|filed| filed.job.id != *id))
            }
            Kept::Originals => {
                // Not while anything of its event is parked, for whatever destination: a row without one may be split
                // since. Nor while the history shows it.
                let is_parked = |seq: Seq| self.parked.keys().any(|(parked, _)| *parked == seq);
                let is_told = |seq: Seq| self.history.values().any(|record| record.row.seq == seq);
                let gone = self.originals.iter().filter(|((seq, _), original)| {
                    is_old(now, original.edited_at, purge.older_than) && !is_parked(*seq) && !is_told(*seq)
                });
                let places: Vec<_> = gone.map(|(place, _)| place.clone()).take(limit).collect();
                remove(purge, places, |place| drop(self.originals.remove(place)))
            }
            Kept::Restored => {
                let is_old = |(job, at, _): &(JobId, Duration, Record)| {
                    is_older(now, *at, purge.older_than) && !self.is_read_back(job)
                };
                let old = (0..self.restored.len()).filter(|number| is_old(&self.restored[*number]));
                // The last first, so that the numbers of the others stay.
                let numbers: Vec<usize> = old.take(limit).collect::<Vec<_>>().into_iter().rev().collect();
                remove(purge, numbers, |number| drop(self.restored.remove(*number)))
            }
            // There are no inboxes here, and so nothing in them.
            Kept::Inbox(_) => 0,
        };
        if let Some(actor) = purge.actor.as_deref().filter(|_| !purge.dry_run && rows > 0) {
            let deed = Deed {
                touched: rows,
                ..Deed::of(actor, Purge::WORD, purge.detail(true))
            };
            self.note(now, deed);
        }
        let more = !purge.dry_run && rows >= u64::from(purge.limit);
        Purged {
            rows,
            exact: true,
            more,
            held: self.held(now, purge).filter(|_| !more),
            rest: None,
        }
    }

    /// Whether a job that has not ended writes or reads what this one restored.
    fn is_read_back(&self, restored: &JobId) -> bool {
        let reads = |kind: &JobKind| match kind {
            JobKind::Replay(replay) => replay.restored.as_ref() == Some(restored),
            _ => false,
        };
        let mut jobs = self.jobs.iter().filter(|filed| !has_ended(&filed.job));
        jobs.any(|filed| filed.job.id == *restored || reads(&filed.job.kind) && filed.has_to_read())
    }

    /// Which replay keeps history that is old enough, in words.
    fn held(&self, now: Duration, purge: &Purge) -> Option<String> {
        let (job, passed) = self.passed_by_replays()?;
        let is_held = |record: &super::rows::Record| {
            is_older(now, record.at, purge.older_than)
                && purge.before.is_none_or(|before| time(record.at) < before)
                && record.row.seq > passed
        };
        let held = purge.what == Kept::History && self.history.values().any(is_held);
        held.then(|| Purged::held_by(job.as_str()))
    }

    /// The replay that keeps what is older than this.
    pub fn forgotten(&self, now: Duration, older_than: Duration) -> Option<JobId> {
        let (job, passed) = self.passed_by_replays()?;
        let is_kept =
            |record: &super::rows::Record| record.row.seq > passed && is_older(now, record.at, older_than);
        self.history.values().any(is_kept).then(|| job.clone())
    }

    /// The replay of the history that is least far, and the last place that it has passed.
    fn passed_by_replays(&self) -> Option<(&JobId, Seq)> {
        let reads = |kind: &JobKind| matches!(kind, JobKind::Replay(replay) if replay.restored.is_none());
        let replays = self
            .jobs
            .iter()
            .filter(|filed| reads(&filed.job.kind) && !has_ended(&filed.job) && filed.has_to_read());
        let passed = replays.map(|filed| {
            let passed = filed.from().map_or(Seq(0), |(seq, _)| seq.before());
            (&filed.job.id, passed)
        });
        passed.min_by_key(|(_, passed)| *passed)
    }

    fn purge_history(&mut self, now: Duration, purge: &Purge, limit: usize) -> u64 {
        let passed = self.passed_by_replays().map_or(Seq::MAX, |(_, passed)| passed);
        let archived = purge.before.unwrap_or(Timestamp(i64::MAX));
        let old = self.history.iter().filter(|(_, record)| {
            is_older(now, record.at, purge.older_than)
                && time(record.at) < archived
                && record.row.seq <= passed
        });
        let numbers: Vec<u64> = old.map(|(n, _)| *n).take(limit).collect();
        remove(purge, numbers, |n| {
            if let Some(record) = self.history.remove(n)
                && let Some(known) = self.history_by_id.get_mut(record.row.event_id())
            {
                known.remove(n);
                if known.is_empty() {
                    self.history_by_id.remove(record.row.event_id());
                }
            }
        })
    }
}

/// Removes what was found unless it is only counted; answers how many.
fn remove<T>(purge: &Purge, found: Vec<T>, mut one: impl FnMut(&T)) -> u64 {
    if !purge.dry_run {
        found.iter().for_each(&mut one);
    }
    found.len() as u64
}

fn is_older(now: Duration, at: Duration, than: Duration) -> bool {
    now.saturating_sub(at) > than
}

fn is_old(now: Duration, Timestamp(at): Timestamp, than: Duration) -> bool {
    let age = time(now).0.saturating_sub(at);
    Duration::from_micros(u64::try_from(age).unwrap_or(0)) > than
}

fn has_ended(job: &Job) -> bool {
    matches!(job.state, JobState::Done | JobState::Cancelled)
}
