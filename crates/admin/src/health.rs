//! Whether an outbox is well: the one function that decides it, for `/health/outbox`, for the metrics and for
//! `postrider status`.

use std::time::Duration;

use postrider_core::{
    Console, ErrorKind, Filter, Group, InForce, Job, JobState, List, MAX_ERROR_TEXT, Scope, Stats, Status,
    StoreError, StoreErrorKind, causes, inert, limits,
};
use tokio::time::Instant;

/// A call that fails for less is repeated and no reason for anything.
const LASTING: Duration = Duration::from_secs(10);
/// Stalled events are counted up to this many: more says no more.
const STALLED: u32 = 100;
/// How long the first of them is searched for, page by page. Less than a client waits for an answer, or a search that
/// does not end would take the other numbers away.
const SEARCH: Duration = Duration::from_secs(2);
/// Jobs are looked through up to this many: older ones that are not over were forgotten by whoever began them.
const JOBS: u32 = 20;
/// Groups of failures are told up to this many: the most frequent ones are what to look at first.
const GROUPS: usize = 10;

/// From when on something counts as trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// From this many unpublished events on, the outbox is degraded.
    pub max_unpublished: u64,
    /// Older than this, the oldest unpublished event means that publishing stands still.
    pub max_age: Duration,
    /// More dead letters than this degrade it.
    pub max_dead: u64,
    /// From this many unpublished events on, it is failing.
    pub failing_unpublished: u64,
    /// With an unpublished event older than this, it is failing.
    pub failing_age: Duration,
    /// An event that is refused for longer than this is stalled; the same as the relay's setting.
    pub stalled_after: Duration,
    /// A relay whose loop is late by more than this is not alive.
    pub stuck_after: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            max_unpublished: 1_000,
            max_age: Duration::from_secs(300),
            max_dead: 0,
            failing_unpublished: 100_000,
            failing_age: Duration::from_secs(3_600),
            stalled_after: postrider_relay::DEFAULT_STALLED_AFTER,
            // Longer than any single call of the loop may take, so that a slow database is not taken for a stuck loop.
            stuck_after: Duration::from_secs(30),
        }
    }
}

/// How an outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Events flow.
    #[default]
    Healthy,
    /// A person should look, today.
    Degraded,
    /// A person should look, now: 503.
    Failing,
}

impl Level {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Healthy => "healthy",
            Level::Degraded => "degraded",
            Level::Failing => "failing",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// How bad it is.
    pub level: Level,
    /// A word for alerts: `backlog`, `lag`, `dead`, `stalled`, `circuit_open`, `auth` or `database`.
    pub word: &'static str,
    /// A sentence for people.
    pub text: String,
}

/// A destination that takes nothing, as the relay of this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCircuit {
    /// Which destination.
    pub destination: String,
    /// Why.
    pub kind: ErrorKind,
    /// The destination's own words, inert.
    pub text: Box<str>,
    /// For how long; zero: nothing was tried yet, and there is no connection to try it with.
    pub open_for: Duration,
}

/// A call of the relay of this process that the database does not answer, although it may answer others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingCall {
    /// What is being done: `heartbeat`, `read` or `settle`.
    pub doing: &'static str,
    /// The error and its causes, inert.
    pub error: String,
    /// For how long.
    pub failing_for: Duration,
}

/// What was learnt of an outbox's database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its state in numbers.
    pub stats: Stats,
    /// Events that are refused for longer than `stalled_after`, up to a hundred, as far as they were searched for.
    pub stalled: u64,
    /// Whether there may be more of them: the search did not come to its end.
    pub more_stalled: bool,
    /// What is paused or limited.
    pub controls: Vec<InForce>,
    /// Jobs that are not over, the newest first, up to twenty.
    pub jobs: Vec<Job>,
    /// Failures that look alike, the most frequent first, up to ten.
    pub groups: Vec<Group>,
}

impl Seen {
    /// How many events are stalled, at least where there may be more; none: none was found, and nobody knows.
    pub fn stalled_known(&self) -> Option<u64> {
        (self.stalled > 0 || !self.more_stalled).then_some(self.stalled)
    }
}

/// Why nothing could be learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The kind of trouble.
    pub kind: StoreErrorKind,
    /// The error and its causes, inert.
    pub text: Box<str>,
}

impl From<&StoreError> for Trouble {
    fn from(error: &StoreError) -> Self {
        Trouble {
            kind: error.kind(),
            text: causes(error).into(),
        }
    }
}

/// How an outbox is, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The worst of its reasons.
    pub level: Level,
    /// Everything that is wrong, the worst first.
    pub reasons: Vec<Reason>,
}

/// Asks a database what health is judged by.
pub async fn look(console: &dyn Console, stalled_after: Duration) -> Result<Seen, StoreError> {
    let stats = console.stats().await?;
    // Nothing is refused at the moment in almost every outbox, and then one question is enough.
    let (stalled, more_stalled) = match stats.parked_as(Status::Retrying) {
        0 => (0, false),
        _ => count_stalled(console, stalled_after).await?,
    };
    let mut jobs = console.jobs(None, JOBS).await?;
    jobs.retain(|job| matches!(job.state, JobState::Running | JobState::Paused));
    // What fails is parked with its error, so where nothing of the kind is parked there is nothing to group.
    let mut groups = match stats.dead + stats.parked_as(Status::Retrying) {
        0 => Vec::new(),
        _ => console.groups().await?,
    };
    groups.truncate(GROUPS);
    Ok(Seen {
        stats,
        stalled,
        more_stalled,
        controls: console.controls().await?,
        jobs,
        groups,
    })
}

/// How many events are stalled, and whether there may be more. A page is bounded by time, and an empty one says nothing
/// of what is behind it: only the end of the search does. One that was found is enough to know that there are some.
async fn count_stalled(console: &dyn Console, stalled_after: Duration) -> Result<(u64, bool), StoreError> {
    let refused = Filter {
        status: vec![Status::Retrying],
        failing_for: Some(stalled_after),
        ..Filter::default()
    };
    let until = Instant::now() + SEARCH;
    let mut list = List::first(STALLED, refused);
    loop {
        let listing = console.list(list.clone()).await?;
        let more = listing.next.is_some();
        if !listing.events.is_empty() || !more || Instant::now() >= until {
            return Ok((listing.events.len() as u64, more));
        }
        list.from = listing.next;
    }
}

impl Health {
    /// What is wrong: the reasons that somebody has to look at.
    pub fn problems(&self) -> impl Iterator<Item = &Reason> {
        self.reasons
            .iter()
            .filter(|reason| reason.level != Level::Healthy)
    }
}

/// Judges an outbox. Circuits and calls are known only to the process whose relay opened or made them.
pub fn judge(
    seen: Result<&Seen, &Trouble>,
    circuits: &[OpenCircuit],
    calls: &[FailingCall],
    thresholds: &Thresholds,
) -> Health {
    let mut reasons = match seen {
        Ok(seen) => judge_numbers(seen, thresholds),
        Err(trouble) => vec![no_connection(trouble)],
    };
    reasons.extend(circuits.iter().map(open));
    reasons.extend(
        calls
            .iter()
            .filter(|call| call.failing_for >= LASTING)
            .map(failing),
    );
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    Health {
        level: reasons.first().map_or(Level::Healthy, |reason| reason.level),
        reasons,
    }
}

fn judge_numbers(seen: &Seen, thresholds: &Thresholds) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |level, word, text| reasons.push(Reason { level, word, text });
    let stats = &seen.stats;
    let unpublished = stats.unpublished();
    let limits = [
        (Level::Failing, thresholds.failing_unpublished),
        (Level::Degraded, thresholds.max_unpublished),
    ];
    if let Some((level, limit)) = limits.into_iter().find(|(_, limit)| unpublished >= *limit) {
        add(
            level,
            "backlog",
            format!("{unpublished} unpublished, the limit is {limit}"),
        );
    }
    let limits = [
        (Level::Failing, thresholds.failing_age),
        (Level::Degraded, thresholds.max_age),
    ];
    let age = stats.oldest.unwrap_or_default();
    if let Some((level, limit)) = limits.into_iter().find(|(_, limit)| age > *limit) {
        let (age, limit) = (shown(age), shown(limit));
        // Where one is known to run the question would contradict what else is said of it.
        let asks = match stats.relays.is_empty() {
            true => ": is a relay running?",
            false => "",
        };
        add(
            level,
            "lag",
            format!("the oldest is unpublished for {age}, longer than {limit}{asks}"),
        );
    }
    if stats.dead > thresholds.max_dead {
        add(
            Level::Degraded,
            "dead",
            format!("{} dead: `postrider dead list` shows them", stats.dead),
        );
    }
    for one in seen.controls.iter().filter(|one| one.paused) {
        // What a person decided is no illness, but it explains what else is said.
        add(Level::Healthy, "paused", paused(one));
    }
    reasons.extend(stalled(seen, &shown(thresholds.stalled_after)));
    reasons
}

/// What could not be searched to its end is no good news: among so much that is refused, somebody has to look.
fn stalled(seen: &Seen, after: &str) -> Option<Reason> {
    let text = match (seen.stalled_known(), seen.more_stalled) {
        (Some(0), _) => return None,
        (Some(number), more) => {
            let least = if more { "at least " } else { "" };
            format!(
                "{least}{number} stalled, refused or not tried for longer than {after}: see `postrider dead list`"
            )
        }
        (None, _) => format!(
            "not known whether any is stalled, refused or not tried for longer than {after}: {} are refused, and the \
             search among them was not finished within {}; `postrider dead list` searches for longer",
            seen.stats.parked_as(Status::Retrying),
            shown(SEARCH)
        ),
    };
    Some(Reason {
        level: Level::Degraded,
        word: "stalled",
        text,
    })
}

fn paused(one: &InForce) -> String {
    let what = match &one.scope {
        Scope::Outbox => "the outbox".to_owned(),
        Scope::Destination(name) => format!("the destination {}", inert(name.as_str(), limits::KEY)),
        Scope::Key(key) => format!("the key {}", inert(key, limits::KEY)),
    };
    let (actor, since) = (inert(&one.actor, limits::KEY), one.since);
    let args = one.scope.as_args();
    format!("{what} is paused by {actor} since {since}: `postrider resume{args}` lets it go on")
}

/// No connection is not the same as no work.
fn no_connection(trouble: &Trouble) -> Reason {
    let word = match trouble.kind {
        StoreErrorKind::Denied => "auth",
        _ => "database",
    };
    Reason {
        level: Level::Failing,
        word,
        text: format!(
            "the database cannot be asked: {}; {}",
            trouble.text,
            trouble.kind.advice()
        ),
    }
}

/// The numbers may be had while nothing can be settled: that is no health.
fn failing(call: &FailingCall) -> Reason {
    let FailingCall { doing, error, .. } = call;
    Reason {
        level: Level::Failing,
        word: "database",
        text: format!(
            "the relay's {doing} fails for {}: {error}",
            shown(call.failing_for)
        ),
    }
}

/// A destination that is away comes back by itself; one that refuses our credentials does not.
fn open(circuit: &OpenCircuit) -> Reason {
    let (level, word) = match circuit.kind {
        ErrorKind::Credentials => (Level::Failing, "auth"),
        _ => (Level::Degraded, "circuit_open"),
    };
    let (destination, kind, advice) = (
        inert(&circuit.destination, MAX_ERROR_TEXT),
        circuit.kind.as_str(),
        circuit.kind.policy().sentence,
    );
    let text = &circuit.text;
    let what = match circuit.open_for.is_zero() {
        true => "cannot be connected to".to_owned(),
        false => format!("takes nothing for {}", shown(circuit.open_for)),
    };
    Reason {
        level,
        word,
        text: format!("{destination:?} {what} ({kind}: {text}). {advice}"),
    }
}

/// A duration as people write it, in whole seconds from one second on.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 && !duration.is_zero() {
        return format!("{}ms", duration.as_millis());
    }
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests;
