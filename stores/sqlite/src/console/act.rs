//! What operators do to parked rows, one bounded transaction a step, each written down.

use std::collections::BTreeSet;

use postrider_core::{Act, Chunk, Cursor, EventId, Filter, Job, Status, Timestamp, Verb};
use rusqlite::params;

use super::arm::{Arm, STRIDE, Towards};
use super::audit::{Entry, write_down};
use super::seen::Seen;
use super::{View, list, place_of};
use crate::error::Result;
use crate::write::{RECORD_PARKED, REMOVE_PARKED};
use crate::{clock, row};

/// Rows that one step looks at. A step holds the write lock, and a filter that matches little must not hold it for
/// long.
const VISITS: usize = 2_000;

/// One step of a verb without a job.
pub(super) fn act(view: &View<'_>, act: &Act) -> Result<Chunk> {
    let walk = Walk {
        verb: &act.verb,
        filter: &act.filter,
        job: None,
        from: place_of(act.from.as_ref())?,
        bound: i64::MAX,
        limit: act.limit,
        dry_run: act.dry_run,
    };
    let walked = walk.go(view)?;
    let mut chunk = Chunk {
        touched: walked.touched,
        refused: walked.refused,
        next: (!walked.done).then(|| Cursor::at(walked.at.0, &walked.at.1)),
    };
    let refused = chunk.refused.iter().map(|(id, _)| id.clone());
    let told = walked.touched_ids.into_iter().chain(refused).collect();
    for id in act.unheard(&told, &BTreeSet::new()) {
        let records = list::find(view, id)?;
        let now = Timestamp(view.standing.now);
        chunk.refused.extend(act.heard(&records, walked.done, now));
    }
    if !act.dry_run {
        write_down(
            view,
            &Entry {
                event_id: act.filter.only_id(),
                touched: chunk.touched,
                refused: chunk.refused.len() as u64,
                ..Entry::new(&act.actor, act.verb.as_str(), &act.detail())
            },
        )?;
    }
    Ok(chunk)
}

/// A verb on its way over the parked rows.
pub(super) struct Walk<'a> {
    pub(super) verb: &'a Verb,
    pub(super) filter: &'a Filter,
    /// The job that it is a step of.
    pub(super) job: Option<&'a Job>,
    pub(super) from: (i64, String),
    /// Rows with a higher place came later and are not meant.
    pub(super) bound: i64,
    pub(super) limit: u32,
    pub(super) dry_run: bool,
}

/// How far it came.
pub(super) struct Walked {
    pub(super) touched: u64,
    /// Which events that were named were touched.
    touched_ids: Vec<EventId>,
    pub(super) refused: Vec<(EventId, Status)>,
    pub(super) at: (i64, String),
    pub(super) done: bool,
}

impl Walk<'_> {
    /// One step, in the order of the places: what a step that is never followed by another has touched is a beginning
    /// of every key.
    pub(super) fn go(self, view: &View<'_>) -> Result<Walked> {
        let arm = Arm::parked(view, self.filter, Towards::Newest);
        let limit = self.limit.max(1) as usize;
        let mut walked = Walked {
            touched: 0,
            touched_ids: Vec::new(),
            refused: Vec::new(),
            at: self.from.clone(),
            done: false,
        };
        let mut visits = 0;
        while visits < VISITS.max(limit) {
            let rows = arm.stride(view, (walked.at.0, &walked.at.1))?;
            let is_last = rows.len() < STRIDE;
            for row in rows {
                if row.place > self.bound {
                    walked.done = true;
                    return self.end(view, walked);
                }
                if self.means(view, &row) {
                    if walked.touched as usize + walked.refused.len() >= limit {
                        return self.end(view, walked);
                    }
                    match self.verb.suits(row.status(), row.is_alone()) {
                        true => {
                            walked.touched += 1;
                            if !self.filter.event_id.is_empty() {
                                walked.touched_ids.push(row.event_id().clone());
                            }
                            self.apply(view, row.place, &row.destination)?;
                        }
                        false => walked.refused.push((row.event_id().clone(), row.status())),
                    }
                }
                visits += 1;
                walked.at = (row.place, row.destination);
            }
            if is_last {
                walked.done = true;
                break;
            }
        }
        self.end(view, walked)
    }

    fn means(&self, view: &View<'_>, row: &Seen) -> bool {
        match self.job {
            Some(job) => row.is_meant_by(job),
            None => row.is_meant(view, self.filter),
        }
    }

    /// Counts that survive the clean-up of the history.
    fn end(&self, view: &View<'_>, walked: Walked) -> Result<Walked> {
        if matches!(self.verb, Verb::Discard(_)) && !self.dry_run && walked.touched > 0 {
            let sql = view.sql("UPDATE {outbox_meta} SET discarded = discarded + ?1");
            view.tx.execute(&sql, [super::number(walked.touched)])?;
        }
        Ok(walked)
    }

    fn apply(&self, view: &View<'_>, place: i64, destination: &str) -> Result<()> {
        match self.verb {
            _ if self.dry_run => Ok(()),
            Verb::Redrive => redrive(view, place, destination),
            Verb::Discard(reason) => discard(view, place, destination, reason),
            Verb::Move(by) => {
                let at = view.standing.now.saturating_add(clock::micros(*by));
                move_to(view, place, destination, Timestamp(at))
            }
        }
    }
}

/// A person has decided, so the row gets all its attempts again. Its failure stays for people to read.
pub(super) fn redrive(view: &View<'_>, place: i64, destination: &str) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_parked} SET dead = 0, next_attempt_at = ?3, attempts = 0, failures = 0, redriven = 1,
                version = version + 1, updated_at = ?3
         WHERE seq = ?1 AND destination = ?2",
    );
    let values = params![place, destination, view.standing.now];
    view.tx.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}

fn discard(view: &View<'_>, place: i64, destination: &str, reason: &str) -> Result<()> {
    let derived = row::derived_id(&view.standing.outbox_id, place);
    let values = params![
        place,
        destination,
        derived.as_str(),
        view.standing.now,
        None::<&str>,
        "discarded",
        reason
    ];
    view.tx
        .prepare_cached(&view.sql(RECORD_PARKED))?
        .execute(values)?;
    view.tx
        .prepare_cached(&view.sql(REMOVE_PARKED))?
        .execute(params![place, destination])?;
    Ok(())
}

fn move_to(view: &View<'_>, place: i64, destination: &str, at: Timestamp) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_parked} SET next_attempt_at = ?3, available_at = ?4, version = version + 1, updated_at = ?5
         WHERE seq = ?1 AND destination = ?2",
    );
    let values = params![place, destination, at.0, clock::stored(at), view.standing.now];
    view.tx.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}
