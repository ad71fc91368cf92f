//! What operators need of a database.

mod act;
mod audit;
mod control;
mod job;
mod list;
mod record;
mod sent;
mod stats;
mod status;
mod timeline;

pub use act::{Act, Chunk, Edit, Verb};
pub use audit::{AuditEntry, AuditPage};
pub use control::{Control, InForce, Scope};
pub use job::{Job, JobId, JobKind, JobState, JobVerb, NewJob, Replay, Restore, Step};
pub use list::{Cursor, Group, List, Listing};
pub use record::{EventRecord, Head, Moment, Original, Route, What};
pub use sent::{Sent, SentPage};
pub use stats::{LiveRelay, Stats};
pub use status::Status;
pub use timeline::{EditedAt, Left, Story};

use crate::{BoxFuture, EventId, StoreError};

/// An outbox as operators see it. Every call works beside running relays and blocks none of them.
pub trait Console: Send + Sync {
    /// The state in numbers.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>>;

    /// Events that match, a page at a time.
    ///
    /// A page is searched for about 120 ms, so it may be short or empty and still have a cursor: only a page without
    /// one is the last. Every page moves its cursor, however late it is, so that whoever follows the cursors comes to
    /// the end. An event is in one page with all its destinations; its rows are never cut apart, and it is listed if
    /// any of them matches. What stands still while the pages are asked for is listed exactly once.
    fn list(&self, list: List) -> BoxFuture<'_, Result<Listing, StoreError>>;

    /// One event with its payload and its timeline; every record that has the id (a reused id has several, and so has
    /// one that is replayed). Of a parked row that is not the first of its key, lane and destination it names the one
    /// that is, whatever state either is in; a row without a destination stands in every line of its key, and one that
    /// stands alone in none.
    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>>;

    /// What was published, of one type or of any, newest last: the last `limit` of the history, or the first `limit`
    /// behind a cursor that an earlier page gave.
    ///
    /// It is for looking, not for consuming: what is written by a settle that took longer than a later one may be
    /// missed by whoever follows the history.
    fn sent(
        &self,
        event_type: Option<String>,
        limit: u32,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<SentPage, StoreError>>;

    /// Failures by destination, kind and fingerprint, the most frequent first.
    fn groups(&self) -> BoxFuture<'_, Result<Vec<Group>, StoreError>>;

    /// One step of a verb; each step is one transaction. The cursor is the caller's: what must survive the caller is a
    /// job. An event that the filter names by its id is refused with its state also where it is not parked.
    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>>;

    /// Changes the payload of a dead or refused event and sends it again. Refused with its state where it is in another
    /// one; an event that would not be valid with the new payload is an error of the kind `Invalid`, and nothing is
    /// changed.
    fn edit(&self, edit: Edit) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        let _ = edit;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Begins a job, if it [can be](NewJob::check). Rows that come later than this are not meant by it. One that has
    /// begun already is answered as it is: whoever lost the answer may begin it again. From here on nothing is removed
    /// that a replay has still to read, however far a removal had come that began before.
    fn begin(&self, job: NewJob) -> BoxFuture<'_, Result<Job, StoreError>> {
        let _ = job;
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// One step of a verb's or a replay's job, of at most `limit` rows (where two events share a place, a replay takes
    /// both): one transaction with the job's own state, so that a caller that dies leaves a job that goes on exactly
    /// where it was. A job that is not running is answered as it is.
    ///
    /// A verb's job is done when it has come to its end. A replay's is done when in addition none of its copies waits;
    /// until then a step that makes no copy looks whether they are gone, also one of 0 rows behind one that filled its
    /// limit with the last of them: nobody else ends a replay whose driver is gone. Dead copies wait for nobody.
    fn step(&self, job: JobId, limit: u32) -> BoxFuture<'_, Result<Step, StoreError>> {
        let _ = (job, limit);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Jobs, newest first; or the one that is named. A replay whose copies are all gone is told as done, whether or not
    /// that is written down. A job of a newer version, which cannot be read, is left out; named, it is an error.
    fn jobs(&self, only: Option<JobId>, limit: u32) -> BoxFuture<'_, Result<Vec<Job>, StoreError>> {
        let _ = (only, limit);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Pauses, resumes, cancels or paces a job. One that has ended is answered as it is; an unknown one is an error.
    fn steer(&self, job: JobId, verb: JobVerb, actor: String) -> BoxFuture<'_, Result<Job, StoreError>> {
        let _ = (job, verb, actor);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Pauses, resumes or limits.
    fn control(&self, control: Control, actor: String) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What is paused or limited now.
    fn controls(&self) -> BoxFuture<'_, Result<Vec<InForce>, StoreError>> {
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// Writes down what somebody did beside the outbox, such as to an inbox in its database: the word of what was done,
    /// with what as JSON, and how many rows it touched.
    fn note(
        &self,
        actor: String,
        action: &'static str,
        detail: String,
        touched: u64,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (actor, action, detail, touched);
        Box::pin(async { Err(StoreError::unsupported()) })
    }

    /// What people did, newest first.
    fn audit(&self, limit: u32, from: Option<Cursor>) -> BoxFuture<'_, Result<AuditPage, StoreError>> {
        let _ = (limit, from);
        Box::pin(async { Err(StoreError::unsupported()) })
    }
}
