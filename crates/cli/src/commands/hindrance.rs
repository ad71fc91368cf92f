//! What keeps deliveries where they are that a job has sent again: that no relay runs, that something is paused, that
//! they are refused.

use std::time::{Duration, Instant};

use postrider_core::{EventRecord, Filter, InForce, Job, JobKind, Scope, Status, Verb};
use serde_json::Value;

use super::control;
use super::job;
use super::page::through;
use crate::failure::Failure;
use crate::wire::Opened;

/// How long it is looked for what a pause holds. Who waits for the command does not wait for a hint.
const PATIENCE: Duration = Duration::from_secs(2);

/// What stands in their way.
pub struct Hindrance {
    is_alone: bool,
    /// What is paused of what they are for, and what lets it go on.
    pauses: Vec<String>,
    /// Copies of a replay that were refused and are tried again.
    refused: u64,
}

/// What keeps what is left of a job from going out; none where nothing is left to a relay.
pub async fn of(outbox: &Opened, job: &Job) -> Result<Option<Hindrance>, Failure> {
    let Some(left) = left(job) else {
        return Ok(None);
    };
    let stats = outbox.console.stats().await;
    let stats = stats.map_err(|error| Failure::store(&outbox.name, &error))?;
    Ok(Some(Hindrance {
        is_alone: stats.relays.is_empty(),
        pauses: pauses(outbox, &left).await?,
        refused: job::copies(outbox, job, Status::Retrying).await?,
    }))
}

/// The deliveries that a job has left to a relay. Ages were those of the moment in which it began.
fn left(job: &Job) -> Option<Filter> {
    match &job.kind {
        JobKind::Replay(_) if job.waiting > 0 => Some(Filter {
            replay: Some(job.id.clone()),
            status: vec![Status::Retrying, Status::Waiting, Status::Held, Status::Scheduled],
            ..Filter::default()
        }),
        // What was sent again keeps the error that it had, and so is none of those that wait or are held.
        JobKind::Act(Verb::Redrive) if job.touched > 0 => Some(Filter {
            status: vec![Status::Retrying],
            older_than: None,
            newer_than: None,
            failing_for: None,
            ..job.filter.clone()
        }),
        _ => None,
    }
}

/// What is paused of what deliveries are for, and what takes it back.
pub async fn pauses(outbox: &Opened, left: &Filter) -> Result<Vec<String>, Failure> {
    let (mut pauses, began) = (Vec::new(), Instant::now());
    let controls = control::in_force(outbox).await?;
    for one in controls.iter().filter(|one| one.paused) {
        if holds(outbox, one, left, began).await? {
            let (what, args) = (control::said(&one.scope), one.scope.as_args());
            // A destination is resumed wherever it is paused; the others have to be told where.
            let option = match one.scope {
                Scope::Destination(_) => String::new(),
                Scope::Outbox | Scope::Key(_) => format!(" --outbox {}", outbox.name),
            };
            pauses.push(format!(
                "{what} is paused, `postrider resume{args}{option}` lets it go on"
            ));
        }
    }
    Ok(pauses)
}

/// Whether a pause holds any of them.
async fn holds(outbox: &Opened, pause: &InForce, left: &Filter, began: Instant) -> Result<bool, Failure> {
    let held = match &pause.scope {
        Scope::Outbox => return Ok(true),
        Scope::Destination(name) if left.destination.as_ref().is_none_or(|one| one == name) => Filter {
            destination: Some(name.clone()),
            ..left.clone()
        },
        // Copies stand outside of it.
        Scope::Key(_) if left.replay.is_some() => return Ok(false),
        Scope::Key(key) if left.key.is_empty() || left.key.contains(key) => Filter {
            key: vec![key.clone()],
            ..left.clone()
        },
        Scope::Destination(_) | Scope::Key(_) => return Ok(false),
    };
    if began.elapsed() >= PATIENCE {
        return Ok(false);
    }
    let mut is_any = false;
    let look = |events: &[EventRecord]| {
        is_any |= !events.is_empty();
        !is_any && began.elapsed() < PATIENCE
    };
    through(outbox, &held, look).await?;
    Ok(is_any)
}

impl Hindrance {
    /// Puts it into a job's JSON.
    pub fn tell(&self, value: &mut Value) {
        value["relay_runs"] = (!self.is_alone).into();
        value["paused"] = self.pauses.clone().into();
    }

    /// What sends them, for people; none where nothing is in their way.
    pub fn text(&self) -> Option<String> {
        let alone = match (self.is_alone, self.pauses.is_empty()) {
            (true, true) => Some("no relay is running, `postrider run` sends them"),
            (true, false) => Some("no relay is running, `postrider run` starts one"),
            (false, _) => None,
        };
        let parts: Vec<&str> = self.pauses.iter().map(String::as_str).chain(alone).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// How many copies were refused, for people.
    pub fn refused(&self, job: &Job) -> Option<String> {
        (self.refused > 0).then(|| {
            format!(
                "{} of them refused and tried again, `postrider events --replay {} --status retrying` says why",
                self.refused, job.id
            )
        })
    }
}
