//! An operator whose process ends in the middle of what it does, as by a power cut.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Act, AuditEntry, Console, Control, Cursor, Edit, EventRecord, Filter, HistoryRow, InForce, Job, JobId,
    JobKind, JobState, Kept, List, NewJob, Payload, Purge, Replay, Restore, Scope, Seq, Timestamp, Upkeep,
    Verb,
};

use super::bench::Bench;
use super::job::{ANN, begun, found, many_dead, to_the_end};
use super::keep::{everything, pages};
use super::replay::{copies, replay};
use super::words::{dead, event, pairs};
use crate::crash::{Ended, run_until};

/// Where the outbox is and what to do there, for the process that is to end.
const ADDRESS: &str = "POSTRIDER_TEST_DOOMED_ADDRESS";
const DEED: &str = "POSTRIDER_TEST_DOOMED_DEED";

const LIMIT: Duration = Duration::from_secs(60);

/// What a process that is to end needs.
#[derive(Clone, Debug)]
pub struct Doomed {
    /// The test of this binary that calls [`doomed`], by its whole name.
    pub test: &'static str,
    /// Where it finds the outbox.
    pub address: String,
}

/// What the process that is to end runs: a test of the harness that does nothing when it is run among the others.
pub fn doomed(open: impl FnOnce(&str) -> (Arc<dyn Console>, Arc<dyn Upkeep>)) {
    let (Ok(address), Ok(deed)) = (std::env::var(ADDRESS), std::env::var(DEED)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (console, upkeep) = open(&address);
        let (deed, job) = deed.split_once(':').unwrap_or((&deed, ""));
        act(&*console, &*upkeep, deed, job.into()).await;
    });
    panic!("the process ends before this");
}

/// One call, which comes by each point once.
async fn act(console: &dyn Console, upkeep: &dyn Upkeep, deed: &str, job: JobId) {
    let actor = ANN.to_owned();
    match deed {
        "step" => drop(console.step(job, 2).await),
        "begin" => drop(console.begin(new(JobKind::Act(Verb::Redrive))).await),
        "discard" => drop(console.act(of(Verb::Discard("old".to_owned()), "e00")).await),
        "edit" => drop(console.edit(edit()).await),
        "pause" => drop(console.control(Control::Pause(Scope::Outbox), actor).await),
        "purge" => drop(upkeep.purge(purge()).await),
        "restore" => drop(upkeep.restore(job, archived(), Cursor("2".to_owned())).await),
        _ => panic!("there is no deed {deed}"),
    }
}

/// Fault A2. Whatever people do is done or not, with its line in the audit.
pub(super) async fn an_operator_that_dies_leaves_nothing_half_done(bench: Bench) {
    let mut parks = many_dead(3);
    parks.push((event("edited", "k"), dead(Some("d"))));
    bench.parked(&parks).await;
    super::keep::history(&bench, &bench.relay("relay").await, &["sent"]).await;
    clock_goes_on(&bench).await;
    for (deed, audited) in [
        ("begin", "begin_job"),
        ("discard", "discard"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("purge", "purge"),
    ] {
        let before = seen(&bench).await;
        dies(&bench, deed, "operator.inside");
        assert_eq!(seen(&bench).await, before, "{deed} was not committed");
        dies(&bench, deed, "operator.after");
        let after = seen(&bench).await;
        assert_eq!(
            after.audit.len(),
            before.audit.len() + 1,
            "{deed} is written down once"
        );
        assert_eq!(after.audit[0].action, audited);
        let same =
            after.events == before.events && after.jobs == before.jobs && after.controls == before.controls;
        assert!(!same || deed == "purge", "{deed} was committed");
        assert_eq!(after.history.is_empty(), deed == "purge", "{deed}");
    }
}

/// Fault A2. Killed before the commit or before the answer, a job goes on where it is, and touches each row once.
pub(super) async fn a_job_whose_step_dies_goes_on(bench: Bench) {
    let (relay, _) = bench.parked(&many_dead(6)).await;
    let job = begun(&bench, JobKind::Act(Verb::Redrive), Filter::default()).await;
    for done in [2, 4] {
        let before = seen(&bench).await;
        step_dies(&bench, &job, "operator.inside");
        assert_eq!(seen(&bench).await, before);
        step_dies(&bench, &job, "operator.after");
        assert_eq!(found(&bench, &job.id).await.touched, done);
    }
    let ended = to_the_end(&bench.console(), &job.id, 2).await;
    assert_eq!((ended.state, ended.touched), (JobState::Done, 6));
    super::job::each_once(&relay, 6).await;
    let steps = seen(&bench).await.audit;
    let steps = steps.iter().filter(|entry| entry.action == "redrive");
    assert_eq!(steps.map(|step| step.touched).sum::<u64>(), 6);
}

/// Fault A2. The same for copies: none is made twice.
pub(super) async fn a_replay_whose_step_dies_goes_on(bench: Bench) {
    let events: Vec<_> = (0..5).map(|n| event(&format!("e{n}"), "k")).collect();
    let relay = super::replay::history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    for done in [2, 4] {
        step_dies(&bench, &job, "operator.inside");
        step_dies(&bench, &job, "operator.after");
        assert_eq!(found(&bench, &job.id).await.touched, done);
    }
    let wanted = pairs(&[("e0", "d"), ("e1", "d"), ("e2", "d"), ("e3", "d"), ("e4", "d")]);
    assert_eq!(copies(&bench, &relay, &job).await, wanted);
}

/// Fault A2. Rows and cursor are one: whoever goes on reads the cursor, and puts no row there twice.
pub(super) async fn a_restore_that_dies_goes_on(bench: Bench) {
    let relay = bench.relay("relay").await;
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let deed = format!("restore:{}", job.id);
    dies(&bench, &deed, "operator.inside");
    assert_eq!(found(&bench, &job.id).await, job, "neither rows nor cursor");
    dies(&bench, &deed, "operator.after");
    let there = found(&bench, &job.id).await;
    assert_eq!((there.touched, there.cursor), (2, Some(Cursor("2".to_owned()))));
    let end = bench
        .upkeep()
        .mark(job.id.clone(), Cursor("2".to_owned()), 0, true)
        .await;
    assert_eq!(end.expect("marked").state, JobState::Done);
    let restored = Replay {
        restored: Some(job.id),
        ..Replay::default()
    };
    let again = begun(&bench, JobKind::Replay(restored), Filter::default()).await;
    let wanted = pairs(&[("r1", "d"), ("r2", "d")]);
    assert_eq!(copies(&bench, &relay, &again).await, wanted);
}

fn step_dies(bench: &Bench, job: &Job, point: &str) {
    dies(bench, &format!("step:{}", job.id), point);
}

/// Lets another process do something, and die at a point.
fn dies(bench: &Bench, deed: &str, point: &str) {
    let Doomed { test, address } = bench.doomed();
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child
        .args(["--exact", test])
        .env(ADDRESS, address)
        .env(DEED, deed);
    child
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = tokio::task::block_in_place(|| run_until(&mut child, point, 1, LIMIT));
    let ended = ended.expect("the child runs");
    assert!(matches!(ended, Ended::AtPoint), "{deed} at {point}: {ended:?}");
}

/// Everything that people can see.
#[derive(Debug, PartialEq)]
struct Seen {
    events: Vec<EventRecord>,
    audit: Vec<AuditEntry>,
    jobs: Vec<Job>,
    controls: Vec<InForce>,
    history: Vec<HistoryRow>,
}

async fn seen(bench: &Bench) -> Seen {
    let console = bench.console();
    let list = console.list(List::first(100, Filter::default())).await;
    Seen {
        events: list.expect("a listing").events,
        audit: console.audit(100, None).await.expect("the audit").entries,
        jobs: console.jobs(None, 100).await.expect("jobs"),
        controls: console.controls().await.expect("controls"),
        history: pages(bench, everything())
            .await
            .into_iter()
            .filter(|row| row.outcome == "published")
            .collect(),
    }
}

/// Waits until what was sent is older than nothing.
async fn clock_goes_on(bench: &Bench) {
    let dry = Purge {
        dry_run: true,
        ..purge()
    };
    crate::wait::eventually("the clock goes on", async || {
        let counted = bench.upkeep().purge(dry.clone()).await.expect("counted");
        (counted.rows > 0).then_some(())
    })
    .await;
}

fn new(kind: JobKind) -> NewJob {
    NewJob {
        id: JobId::new(),
        kind,
        filter: Filter::default(),
        actor: ANN.to_owned(),
    }
}

fn of(verb: Verb, id: &str) -> Act {
    Act {
        actor: ANN.to_owned(),
        ..crate::by_hand::act(verb, id)
    }
}

fn edit() -> Edit {
    Edit {
        event_id: "edited".into(),
        destination: None,
        payload: Payload::Text("{\"n\":1}".to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    }
}

fn purge() -> Purge {
    Purge {
        actor: Some(ANN.to_owned()),
        ..Purge::of(Kept::History, Duration::ZERO, 100)
    }
}

/// Two rows of an archive.
fn archived() -> Vec<HistoryRow> {
    let row = |place| HistoryRow {
        seq: Seq(place),
        destination: Some("d".into()),
        outcome: "published".to_owned(),
        event_id: format!("r{place}").into(),
        event_type: "Tested".to_owned(),
        aggregate: ("THING".to_owned(), "k".to_owned()),
        event_key: None,
        payload: Payload::Text("{}".to_owned()),
        content_type: None,
        headers: None,
        priority: None,
        available_at: None,
        created_at: None,
        enqueued_at: Some(Timestamp(1)),
        replay: None,
        reason: None,
        receipt: None,
        attempts: 0,
        failures: 0,
        error: None,
        last_failed_at: None,
        published_at: Timestamp(2),
    };
    vec![row(1), row(2)]
}
