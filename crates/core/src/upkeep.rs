//! What keeps a database small: duties that one relay does for all, and the history as rows.

use std::time::Duration;

use serde_json::json;

use crate::{
    BoxFuture, Cursor, DestinationName, EventId, Job, JobId, Payload, RelayId, Seq, StoreError,
    StoreErrorKind, Timestamp,
};

/// What the housekeeping of an outbox asks of its database.
pub trait Upkeep: Send + Sync {
    /// Claims a duty for its slot, or renews the claim. The database's clock decides whether the slot has come, and
    /// every slot is finished once, whoever asks.
    fn claim(&self, duty: Duty) -> BoxFuture<'_, Result<Claim, StoreError>> {
        let _ = duty;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// The duty's slot is done.
    fn finish(&self, duty: Duty, note: String) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (duty, note);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Duties whose names begin with a prefix and that nobody is at: done, or given up by whoever had claimed them.
    fn past_duties(&self, prefix: String) -> BoxFuture<'_, Result<Vec<PastDuty>, StoreError>> {
        let _ = prefix;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Forgets duties, so that they may be claimed again; answers how many. One that was claimed or done anew since it
    /// was seen stays.
    fn forget_duties(&self, seen: Vec<PastDuty>) -> BoxFuture<'_, Result<u64, StoreError>> {
        let _ = seen;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Removes what is older than its term, in one transaction of at most `limit` rows. Queued and parked rows are
    /// never touched. History that a replay has still to read stays, and the answer says so.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        let _ = purge;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// A page of the history in the order of its places, with payloads. An event that was edited while it was being
    /// sent has two rows of one place and destination: they stand on one page, because the next one begins behind them,
    /// and what an archive did not see is removed after it. A page may be empty although there are more.
    fn history(&self, ask: HistoryAsk) -> BoxFuture<'_, Result<HistoryPage, StoreError>> {
        let _ = ask;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// How far a job that writes or reads files has come.
    fn mark(
        &self,
        job: JobId,
        cursor: Cursor,
        rows: u64,
        done: bool,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        let _ = (job, cursor, rows, done);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// The replay that is least far of those that have still to read history, where some of that is older than this.
    /// Whoever looks after the history asks with [`Purge::longest`] and cancels it before that history goes, so that it
    /// does not end as if it had read all of it.
    fn forgotten(&self, older_than: Duration) -> BoxFuture<'_, Result<Option<JobId>, StoreError>> {
        let _ = older_than;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Puts rows of an archive where a replay finds them, and says how far the job has come, in one transaction. The
    /// cursors of such a job grow as texts. Rows that do not lead beyond where it is are there: somebody else goes on
    /// with the same job, and they are not written again. A row whose place the database cannot have is
    /// [out of place](HistoryRow::out_of_place), and none of them is written.
    fn restore(
        &self,
        job: JobId,
        rows: Vec<HistoryRow>,
        cursor: Cursor,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        let _ = (job, rows, cursor);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// How many of the rows that a job restored are still there. They go one by one when they are past their term, so
    /// that a replay of fewer than the job wrote would look like one of all.
    fn restored(&self, job: JobId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let _ = job;
        Box::pin(async { Err(StoreError::unsupported()) })
    }
}

/// Something that one relay does for all, once a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Which.
    pub name: String,
    /// Who asks.
    pub holder: RelayId,
    /// How long the claim lasts unless it is renewed.
    pub term: Duration,
    /// The moment for which it is due.
    pub slot: Timestamp,
}

impl Duty {
    /// What becomes of a claim where the database knows this of the duty; none: nothing.
    pub fn decide(&self, known: Option<KnownDuty<'_>>, now: Timestamp) -> Claim {
        if self.slot > now {
            let micros = u64::try_from(self.slot.0.saturating_sub(now.0)).unwrap_or(0);
            return Claim::Early(Duration::from_micros(micros));
        }
        let Some(known) = known else {
            return Claim::Yours;
        };
        if known.slot > self.slot || (known.slot == self.slot && known.is_finished) {
            return Claim::Done;
        }
        let is_others = known.owner != Some(&*self.holder.0);
        match is_others && !known.is_finished && known.expires_at > now {
            true => Claim::Held,
            false => Claim::Yours,
        }
    }
}

/// A duty as the database has it.
#[derive(Clone, Copy, Debug)]
pub struct KnownDuty<'a> {
    /// The slot that was claimed last.
    pub slot: Timestamp,
    /// By whom.
    pub owner: Option<&'a str>,
    /// When that claim ends.
    pub expires_at: Timestamp,
    /// Whether it was done.
    pub is_finished: bool,
}

/// A duty that nobody is at, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastDuty {
    /// Which.
    pub name: String,
    /// When it was done, or when the last claim of it ended, by the database's clock.
    pub at: Timestamp,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's, for the term.
    Yours,
    /// The slot has not come by the database's clock; this long to go.
    Early(Duration),
    /// The slot was done.
    Done,
    /// Somebody else is at it.
    Held,
}

/// What is kept for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Sent, discarded and duplicate events.
    History,
    /// What people did.
    Audit,
    /// Jobs that have ended.
    Jobs,
    /// Payloads before people changed them, whose events are gone: neither parked nor in the history.
    Originals,
    /// What an archive was read back into.
    Restored,
    /// What consumers have seen, in the inbox with this name.
    Inbox(String),
}

impl Kept {
    /// The word of the audit.
    pub fn as_str(&self) -> &str {
        match self {
            Kept::History => "history",
            Kept::Audit => "audit",
            Kept::Jobs => "jobs",
            Kept::Originals => "originals",
            Kept::Restored => "restored",
            Kept::Inbox(name) => name,
        }
    }
}

/// One step of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Of what.
    pub what: Kept,
    /// Older than this.
    pub older_than: Duration,
    /// At most so many rows in this step.
    pub limit: u32,
    /// Only count, and all that would go, whatever the limit is.
    pub dry_run: bool,
    /// Of the history only what was published before this moment, because the rest is in no archive yet.
    pub before: Option<Timestamp>,
    /// Only what goes at little cost: where the history is kept by day, whole days.
    pub in_bulk: bool,
    /// Who asks, for the audit; none: the housekeeping itself.
    pub actor: Option<String>,
}

impl Purge {
    /// So many rows that are older than this, by the housekeeping itself.
    pub fn of(what: Kept, older_than: Duration, limit: u32) -> Self {
        Self {
            what,
            older_than,
            limit,
            dry_run: false,
            before: None,
            in_bulk: false,
            actor: None,
        }
    }

    /// The word of the audit.
    pub const WORD: &'static str = "purge";

    /// What is said of a replay that [kept](Purge::longest) the history for too long.
    pub const FORGOTTEN: &'static str = "cancelled a replay: what it had still to read is far past its \
                                         term; a longer retention keeps it longer";

    /// Of what, as JSON: what the audit keeps. `exact` is that of the answer.
    pub fn detail(&self, exact: bool) -> String {
        json!({
            "what": self.what.as_str(),
            "older_than_seconds": self.older_than.as_secs(),
            "exact": exact,
        })
        .to_string()
    }

    /// The age from which on no history of this term is kept for a replay that has still to read it. One that somebody
    /// paused and forgot must not fill the disk: it has as long again as the history is kept, and at least a day.
    pub fn longest(kept: Duration) -> Duration {
        const DAY: Duration = Duration::from_secs(86_400);
        kept.saturating_add(kept.max(DAY))
    }
}

/// What a step of a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Rows removed, or that would be.
    pub rows: u64,
    /// The number is counted, not estimated.
    pub exact: bool,
    /// There is more to remove.
    pub more: bool,
    /// Why something that is old enough was left, in words.
    pub held: Option<String>,
    /// For how long producers should have the database for themselves before the next step; none: as long as this one
    /// took.
    pub rest: Option<Duration>,
}

impl Purged {
    /// Why something was left that a replay has still to read, in words.
    pub fn held_by(job: &str) -> String {
        format!("the replay {job} has still to read it")
    }
}

/// Which page of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryAsk {
    /// Behind this row.
    pub after: Option<Cursor>,
    /// Published at or after this moment.
    pub since: Option<Timestamp>,
    /// Published before this moment.
    pub until: Option<Timestamp>,
    /// At most so many rows, but for further ones of the last place and destination.
    pub limit: u32,
    /// No more rows once the payloads are this large.
    pub max_bytes: u64,
}

/// A row of the history, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Its place.
    pub seq: Seq,
    /// Where it went; none: nowhere.
    pub destination: Option<DestinationName>,
    /// `published`, `duplicate` or `discarded`.
    pub outcome: String,
    /// The event's id.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Type and id of its aggregate.
    pub aggregate: (String, String),
    /// The key that the producer gave.
    pub event_key: Option<String>,
    /// Its payload, byte for byte.
    pub payload: Payload,
    /// The content type beside it.
    pub content_type: Option<String>,
    /// Its headers, as they are stored.
    pub headers: Option<String>,
    /// Its priority.
    pub priority: Option<i32>,
    /// When it was to leave.
    pub available_at: Option<Timestamp>,
    /// When it was made, as the producer said.
    pub created_at: Option<Timestamp>,
    /// When its row was written.
    pub enqueued_at: Option<Timestamp>,
    /// The replay that it was a copy of.
    pub replay: Option<JobId>,
    /// Why it was discarded.
    pub reason: Option<String>,
    /// The destination's receipt.
    pub receipt: Option<String>,
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not.
    pub failures: u32,
    /// Kind and text of the last error.
    pub error: Option<(String, String)>,
    /// When it failed last.
    pub last_failed_at: Option<Timestamp>,
    /// When its destination had confirmed it, or when it was settled otherwise.
    pub published_at: Timestamp,
}

impl HistoryRow {
    /// Of a row whose place no row of this database can have: it could not be replayed.
    pub fn out_of_place(&self) -> StoreError {
        let text = format!(
            "{} has the place {}, which this database cannot have",
            self.event_id, self.seq.0
        );
        let advice = "restore the archive into a database of the kind that it comes from";
        StoreError::new(StoreErrorKind::Invalid, text).with_advice(advice)
    }
}

/// A page of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The rows, in the order of their places.
    pub rows: Vec<HistoryRow>,
    /// Behind the last of them; none at the end.
    pub next: Option<Cursor>,
}
