//! The cleanup: at its time, by one relay, in small steps.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{BoxFuture, Claim, Duty, JobVerb, Kept, Purge, Timestamp, causes};

use super::Duties;
use crate::archive::{self, SETTLED};
use crate::commands::job;
use crate::failure::Failure;
use crate::leave::Leave;

/// How long a claim lasts. A relay that dies in the middle is followed by another after this.
const TERM: Duration = Duration::from_secs(60);
/// How long to wait where the database did not answer, or somebody else is at it.
const AGAIN: Duration = Duration::from_secs(60);
/// The longest sleep: a clock that was set is noticed by then.
const LOOK: Duration = Duration::from_secs(600);

/// Waits for each moment of the schedule and does what is due.
pub(super) async fn keep(duties: Arc<Duties>) {
    loop {
        let now = Timestamp::now();
        let schedule = &duties.config.cleanup.schedule;
        let pause = match schedule.last_before(now) {
            Some(slot) => duties.at(slot).await,
            None => LOOK,
        };
        let next = schedule.next_after(now).map_or(LOOK, until);
        if !duties.rest(pause.min(next).min(LOOK)).await {
            return;
        }
    }
}

fn until(Timestamp(at): Timestamp) -> Duration {
    let micros = at.saturating_sub(Timestamp::now().0);
    // Never zero: the moment itself has come when the next look is made.
    Duration::from_micros(u64::try_from(micros).unwrap_or(0)) + Duration::from_millis(10)
}

impl Duties {
    /// Does what is due at a moment of the schedule, unless it is done; answers when to look again.
    async fn at(&self, slot: Timestamp) -> Duration {
        let duty = Duty {
            name: "cleanup".to_owned(),
            holder: self.holder.clone(),
            term: TERM,
            slot,
        };
        match self.opened.upkeep.claim(duty.clone()).await {
            Ok(Claim::Yours) => self.clean(&duty).await,
            Ok(Claim::Early(wait)) => wait,
            Ok(Claim::Done) => LOOK,
            Ok(Claim::Held) => AGAIN,
            Err(error) => {
                let error = causes(&error);
                tracing::warn!(
                    outbox = self.opened.name,
                    error,
                    "the cleanup cannot be claimed, will retry"
                );
                AGAIN
            }
        }
    }

    async fn clean(&self, duty: &Duty) -> Duration {
        let began = Instant::now();
        let mut claimed = Claimed {
            duties: self,
            duty,
            since: Instant::now(),
            unfinished: false,
        };
        match claimed.clean().await {
            Some(removed) => {
                let (outbox, took_ms) = (&self.opened.name, began.elapsed().as_millis() as u64);
                let Removed { rows, exact } = removed;
                tracing::info!(outbox, removed = rows, exact, took_ms, "cleaned up {removed}");
                let note = format!("removed {removed}");
                if let Err(error) = self.opened.upkeep.finish(duty.clone(), note).await {
                    tracing::warn!(outbox, error = causes(&error), "the cleanup is done again");
                }
                LOOK
            }
            // Somebody else has it, or stands in the way, something failed, or we are stopping: whoever is next goes on
            // where this ended.
            None => AGAIN,
        }
    }
}

impl Leave for Claimed<'_> {
    fn to_go_on(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(self.is_still_ours())
    }
}

/// A claim, with when it was renewed.
struct Claimed<'a> {
    duties: &'a Duties,
    duty: &'a Duty,
    since: Instant,
    /// Something could not be done yet, and can be soon.
    unfinished: bool,
}

/// How many rows went. A day of the history goes as a whole where the database has it as one, and nobody counts it.
#[derive(Clone, Copy)]
struct Removed {
    rows: u64,
    exact: bool,
}

impl Default for Removed {
    fn default() -> Self {
        Self { rows: 0, exact: true }
    }
}

impl Removed {
    /// What removed nothing has estimated nothing.
    fn add(&mut self, rows: u64, exact: bool) {
        self.rows += rows;
        self.exact &= exact || rows == 0;
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.exact { "" } else { "about " };
        write!(f, "{about}{} rows", self.rows)
    }
}

/// What is removed from which age on.
struct Due {
    what: Kept,
    kept: Duration,
    /// Up to where the archive has it, if it must be there first.
    before: Option<Timestamp>,
}

impl Due {
    fn of(what: Kept, kept: Duration) -> Self {
        Self {
            what,
            kept,
            before: None,
        }
    }
}

impl Claimed<'_> {
    /// Does everything that is due; answers how many rows went, or none if it had to leave off or something failed.
    async fn clean(&mut self) -> Option<Removed> {
        // What fails keeps nothing else from being removed, but for the history that is in no archive yet.
        let outbox = self.duties.opened.name.as_str();
        let history = match self.archive().await {
            Ok(history) => history?,
            Err(failure) => {
                let (error, advice) = (failure.line(), failure.advised());
                tracing::warn!(
                    outbox,
                    error,
                    advice,
                    "not archived, so the history stays, will retry"
                );
                self.unfinished = true;
                None
            }
        };
        // A job that only a newer version can read must not stand in the way of everything else.
        let looked = match history {
            Some(_) => self.cancel_forgotten().await,
            None => Ok(()),
        };
        let ended = job::end_replays(&self.duties.opened, self).await;
        if let Err(failure) = looked.and(ended) {
            tracing::warn!(outbox, error = %failure, "replays that nobody drives were not looked after");
        }
        if !self.is_still_ours().await {
            return None;
        }
        let cleanup = self.duties.config.cleanup.clone();
        let audit = cleanup.audit_retention;
        // Without a history there are still those that people edited and those that came out of an archive.
        let kept = self.duties.history.unwrap_or(audit);
        let mut due: Vec<Due> = history.into_iter().collect();
        due.push(Due::of(Kept::Originals, kept));
        due.push(Due::of(Kept::Restored, kept));
        due.push(Due::of(Kept::Audit, audit));
        due.push(Due::of(Kept::Jobs, audit));
        for name in &cleanup.inbox {
            due.push(Due::of(Kept::Inbox(name.clone()), cleanup.inbox_retention));
        }
        let mut removed = Removed::default();
        for due in due {
            match self.purge(&due, cleanup.batch_size).await {
                Ok(more) => {
                    let more = more?;
                    removed.add(more.rows, more.exact);
                }
                Err(failure) => {
                    let what = due.what.as_str();
                    tracing::warn!(outbox, what, error = %failure, "what is old was not removed, will retry");
                    self.unfinished = true;
                }
            }
        }
        Some(removed).filter(|_| !self.unfinished)
    }

    /// Cancels replays that keep the history for too long: what they have still to read goes, and they must not end as
    /// if they had read it.
    async fn cancel_forgotten(&self) -> Result<(), Failure> {
        let opened = &self.duties.opened;
        let Some(kept) = self.duties.history else {
            return Ok(());
        };
        let failed = |error| Failure::store(&opened.name, &error);
        let longest = Purge::longest(kept);
        while let Some(job) = opened.upkeep.forgotten(longest).await.map_err(failed)? {
            let cancel = opened
                .console
                .steer(job.clone(), JobVerb::Cancel, "cleanup".to_owned());
            cancel.await.map_err(failed)?;
            tracing::warn!(outbox = opened.name, %job, "{}", Purge::FORGOTTEN);
        }
        Ok(())
    }

    /// Writes the archive where there is one; answers which of the history may go.
    async fn archive(&mut self) -> Result<Option<Option<Due>>, Failure> {
        let duties = self.duties;
        let Some(kept) = duties.history else {
            return Ok(Some(None));
        };
        let due = Due::of(Kept::History, kept);
        let Some(archive) = &duties.config.cleanup.archive else {
            return Ok(Some(Some(due)));
        };
        // By the moment of the schedule, which has come by the database's clock: what is settled from now on has a
        // later time.
        let before = archive.after.max(SETTLED);
        let micros = i64::try_from(before.as_micros()).unwrap_or(i64::MAX);
        let until = Timestamp(self.duty.slot.0.saturating_sub(micros));
        let written = archive::write(&duties.opened, &archive.dir, until, self).await?;
        let Some(written) = written else {
            return Ok(None);
        };
        if let Some(folder) = &written.folder {
            let (outbox, folder) = (&duties.opened.name, folder.display());
            tracing::info!(outbox, rows = written.rows, %folder, "archived the history");
        }
        let covered = archive::on_disk(|| archive::archived_until(&archive.dir, &duties.opened.name))?;
        // Nothing goes that is in no folder.
        Ok(Some(covered.map(|until| Due {
            before: Some(until),
            ..due
        })))
    }

    async fn purge(&mut self, due: &Due, batch: u32) -> Result<Option<Removed>, Failure> {
        let opened = &self.duties.opened;
        let what = due.what.as_str();
        let mut removed = Removed::default();
        loop {
            let began = Instant::now();
            let purge = Purge {
                in_bulk: due.what == Kept::History,
                before: due.before,
                ..Purge::of(due.what.clone(), due.kept, batch)
            };
            let step = opened.upkeep.purge(purge).await;
            let step = step.map_err(|error| Failure::store(&opened.name, &error))?;
            removed.add(step.rows, step.exact);
            if let Some(held) = &step.held {
                tracing::warn!(outbox = opened.name, what, held, "what is past its term stays");
                self.unfinished |= step.more;
                break;
            }
            if !step.more {
                break;
            }
            let rest = step.rest.unwrap_or_else(|| began.elapsed());
            if !self.duties.rest(rest).await || !self.is_still_ours().await {
                return Ok(None);
            }
        }
        if removed.rows > 0 {
            let (outbox, Removed { rows, exact }) = (&opened.name, removed);
            tracing::info!(
                outbox,
                what,
                removed = rows,
                exact,
                "removed what was old: {removed}"
            );
        }
        Ok(Some(removed))
    }

    /// Renews the claim before it ends.
    async fn is_still_ours(&mut self) -> bool {
        if self.duties.stop.is_cancelled() {
            return false;
        }
        if self.since.elapsed() < TERM / 4 {
            return true;
        }
        let asked = Instant::now();
        let claim = self.duties.opened.upkeep.claim(self.duty.clone()).await;
        let is_ours = matches!(claim, Ok(Claim::Yours));
        // Whoever has lost it once asks again every time: some of those who are told go on with something else.
        if is_ours {
            self.since = asked;
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "sqlite")]
    use postrider_core::RelayId;

    use super::*;

    #[test]
    fn what_was_estimated_is_not_told_as_counted() {
        let mut removed = Removed::default();
        removed.add(3, true);
        removed.add(0, false);
        assert_eq!(removed.to_string(), "3 rows");
        removed.add(40, false);
        removed.add(1, true);
        assert_eq!(removed.to_string(), "about 44 rows");
    }

    /// Some of those who are told that it is lost go on with something else, and ask before that again.
    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_claim_that_is_lost_stays_lost() {
        use crate::config::{Config, DEFAULT, Origin, Place, parse};
        use crate::wire::{Missing, open};

        let folder = tempfile::tempdir().unwrap();
        let config: Config = parse(Origin::File("postrider.toml".into()), DEFAULT, []).unwrap();
        let mut outbox = config.outboxes["main"].clone();
        outbox.place = Place::Sqlite(folder.path().join("shop.db"));
        let opened = open("main", &outbox, Missing::Create).unwrap();
        opened.schema.up().await.unwrap();
        let duty = |holder: &str| Duty {
            name: "cleanup".to_owned(),
            holder: RelayId(holder.into()),
            term: TERM,
            slot: Timestamp(1),
        };
        let claim = opened.upkeep.claim(duty("other")).await;
        assert_eq!(claim.unwrap(), Claim::Yours);
        let duties = Duties::new(&config, &opened, &outbox, Default::default());
        let mut claimed = Claimed {
            duties: &duties,
            duty: &duty("this"),
            since: Instant::now() - TERM / 4,
            unfinished: false,
        };
        for _ in 0..3 {
            assert!(!claimed.is_still_ours().await);
        }
    }
}
