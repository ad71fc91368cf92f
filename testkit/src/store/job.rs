//! Long work: verbs in steps, whose state is in the database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use postrider_core::{
    Act, Console, Event, Filter, Job, JobId, JobKind, JobState, JobVerb, List, NewJob, Park, Restore,
    Settled, Status, StoreErrorKind, Then, Timestamp, Verb,
};

use super::bench::{Bench, Relay};
use super::faults::abandon;
use super::words::{dead, event, parks_as, refused, waiting};
use crate::wait::eventually;

/// Who acts in the suite.
pub(super) const ANN: &str = "suite:ann";

pub(super) async fn a_job_goes_on_where_it_was_killed(bench: Bench) {
    let (relay, _) = bench.parked(&many_dead(12)).await;
    let job = begun(&bench, redrive(), Filter::default()).await;
    assert_eq!((job.state, job.touched), (JobState::Running, 0));
    let first = bench.console().step(job.id.clone(), 3).await.expect("a step");
    assert_eq!((first.job.state, first.job.touched), (JobState::Running, 3));
    // One that is connected: a new one would be abandoned before it has begun.
    let console = bench.console();
    for polls in 0..12 {
        abandon(console.step(job.id.clone(), 1), polls).await;
        console.jobs(None, 1).await.expect("it is of use again");
    }
    let job = to_the_end(&bench.console(), &job.id, 3).await;
    assert_eq!((job.state, job.touched, job.refused), (JobState::Done, 12, 0));
    each_once(&relay, 12).await;
    let after = bench.console().step(job.id.clone(), 3).await.expect("a step");
    assert_eq!(after.job.touched, 12, "a job that is done touches nothing");
}

pub(super) async fn two_who_step_one_job_touch_each_row_once(bench: Bench) {
    let (relay, _) = bench.parked(&many_dead(30)).await;
    let job = begun(&bench, redrive(), Filter::default()).await;
    let (one, other) = (bench.console(), bench.console());
    let (left, right) = tokio::join!(to_the_end(&one, &job.id, 2), to_the_end(&other, &job.id, 3));
    assert_eq!((left.state, right.state), (JobState::Done, JobState::Done));
    assert_eq!(found(&bench, &job.id).await.touched, 30);
    each_once(&relay, 30).await;
}

pub(super) async fn a_job_leaves_later_rows_alone(bench: Bench) {
    bench.parked(&many_dead(2)).await;
    let job = begun(&bench, redrive(), Filter::default()).await;
    bench.parked(&[(event("later", "k"), dead(Some("d")))]).await;
    let job = to_the_end(&bench.console(), &job.id, 10).await;
    assert_eq!((job.state, job.touched), (JobState::Done, 2));
    assert_eq!(dead_ids(&bench).await, ["later"]);
}

/// What was queued or refused when a person counted the dead is not thrown away because it has died since.
pub(super) async fn a_job_leaves_what_died_later_alone(bench: Bench) {
    let parks = [
        (event("counted", "k"), dead(Some("d"))),
        (event("refused", "l"), refused("d", Duration::ZERO)),
    ];
    let (relay, _) = bench.parked(&parks).await;
    bench.commit(&[event("queued", "m")]).await;
    let only_dead = Filter {
        status: vec![Status::DeadLetter],
        ..Filter::default()
    };
    let job = begun(&bench, JobKind::Act(Verb::Discard("old".into())), only_dead).await;
    clock_goes_on(&bench, &job).await;
    let seen = relay.due().await.remove(0);
    let dies = relay.settle_parked(&seen, Then::Again(dead(Some("d")))).await;
    assert_eq!(dies, Settled::Done);
    let queued = relay.queued().await.remove(0);
    let dies = relay.settle_one(parks_as(&queued, vec![dead(Some("d"))])).await;
    assert_eq!(dies, Settled::Done);
    let job = to_the_end(&bench.console(), &job.id, 10).await;
    assert_eq!((job.state, job.touched, job.refused), (JobState::Done, 1, 0));
    assert_eq!(dead_ids(&bench).await, ["refused", "queued"]);
}

/// However late somebody goes on with it.
pub(super) async fn a_job_means_the_ages_of_its_beginning(bench: Bench) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_micros();
    // It is a second old in four seconds: both jobs have begun by then.
    let made = Timestamp(i64::try_from(now).expect("a time") + 3_000_000);
    let young = Event {
        created_at: Some(made),
        ..event("a", "k")
    };
    let (relay, _) = bench.parked(&[(young, dead(Some("d")))]).await;
    let second = Some(Duration::from_secs(1));
    let older = Filter {
        older_than: second,
        ..Filter::default()
    };
    let newer = Filter {
        newer_than: second,
        ..Filter::default()
    };
    let discard = begun(&bench, JobKind::Act(Verb::Discard("old".into())), older.clone()).await;
    let redrives = begun(&bench, redrive(), newer).await;
    assert!(
        redrives.begun_at.0 < made.0 + 1_000_000,
        "the jobs began too late"
    );
    eventually("the event grows old", async || {
        let page = bench.console().list(List::first(10, older.clone())).await;
        (!page.expect("a listing").events.is_empty()).then_some(())
    })
    .await;
    let discard = to_the_end(&bench.console(), &discard.id, 10).await;
    assert_eq!((discard.state, discard.touched), (JobState::Done, 0));
    let redrives = to_the_end(&bench.console(), &redrives.id, 10).await;
    assert_eq!((redrives.state, redrives.touched), (JobState::Done, 1));
    each_once(&relay, 1).await;
}

pub(super) async fn a_cancelled_job_touches_nothing_more(bench: Bench) {
    bench.parked(&many_dead(4)).await;
    let console = bench.console();
    let job = begun(&bench, redrive(), Filter::default()).await;
    let step = async || console.step(job.id.clone(), 1).await.expect("a step").job;
    let steer = async |verb| {
        let steered = console.steer(job.id.clone(), verb, ANN.to_owned()).await;
        steered.expect("steered").state
    };
    assert_eq!(step().await.touched, 1);
    assert_eq!(steer(JobVerb::Pause).await, JobState::Paused);
    let paused = step().await;
    assert_eq!((paused.state, paused.touched), (JobState::Paused, 1));
    assert_eq!(steer(JobVerb::Resume).await, JobState::Running);
    assert_eq!(step().await.touched, 2, "it goes on where it was");
    assert_eq!(steer(JobVerb::Cancel).await, JobState::Cancelled);
    let cancelled = step().await;
    assert_eq!((cancelled.state, cancelled.touched), (JobState::Cancelled, 2));
    assert_eq!(steer(JobVerb::Resume).await, JobState::Cancelled, "an end is one");
    assert_eq!(dead_ids(&bench).await.len(), 2);
}

pub(super) async fn each_step_is_audited_with_its_job(bench: Bench) {
    bench.parked(&many_dead(5)).await;
    let job = begun(
        &bench,
        JobKind::Act(Verb::Discard("because it is old".into())),
        Filter::default(),
    )
    .await;
    let job = to_the_end(&bench.console(), &job.id, 2).await;
    let audit = bench.console().audit(100, None).await.expect("the audit");
    let steps: Vec<_> = audit
        .entries
        .iter()
        .filter(|entry| entry.job.as_ref() == Some(&job.id) && entry.touched > 0)
        .collect();
    assert!(steps.len() >= 3, "steps of two rows: {steps:?}");
    assert!(steps.iter().all(|step| step.actor == ANN
        && step.action == "discard"
        && step.detail.contains("because it is old")));
    assert_eq!(steps.iter().map(|step| step.touched).sum::<u64>(), job.touched);
    assert_eq!(job.touched, 5);
}

pub(super) async fn a_dry_run_makes_no_job(bench: Bench) {
    bench.parked(&many_dead(2)).await;
    let dry = Act {
        verb: Verb::Redrive,
        filter: Filter::default(),
        dry_run: true,
        actor: ANN.to_owned(),
        limit: 10,
        from: None,
    };
    assert_eq!(bench.console().act(dry).await.expect("counted").touched, 2);
    assert!(bench.console().jobs(None, 10).await.expect("jobs").is_empty());
}

/// Killed anywhere, a redrive has sent the beginning of every key again and not the end.
pub(super) async fn a_thousand_dead_are_redriven_in_order(bench: Bench) {
    let parks: Vec<_> = (0..1_000)
        .map(|n| {
            (
                event(&format!("e{n:03}"), &format!("k{}", n % 10)),
                dead(Some("d")),
            )
        })
        .collect();
    let (relay, _) = bench.parked(&parks).await;
    let console = bench.console();
    let job = begun(&bench, redrive(), Filter::default()).await;
    let mut now = job.clone();
    while now.touched < 300 && now.state == JobState::Running {
        now = console.step(job.id.clone(), 150).await.expect("a step").job;
    }
    assert!(now.touched < 1_000, "a step is bounded");
    let left = dead_ids(&bench).await;
    let ids: Vec<_> = (0..1_000).map(|n| format!("e{n:03}")).collect();
    assert!(
        left == ids[now.touched as usize..],
        "the first were redriven, not {left:?}"
    );
    let job = to_the_end(&console, &job.id, 150).await;
    assert_eq!((job.state, job.touched), (JobState::Done, 1_000));
    let mut read = relay.everything();
    read.parked.followers = 1_000;
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in relay.read(read).await.parked {
        let id = row.row.event_id.to_string();
        by_key.entry(row.row.key.to_string()).or_default().push(id);
    }
    assert_eq!(by_key.values().map(Vec::len).sum::<usize>(), 1_000);
    assert!(by_key.values().all(|ids| ids.is_sorted()), "in order of each key");
}

pub(super) async fn a_job_says_what_it_refused(bench: Bench) {
    let parks = [
        (event("head", "k"), dead(Some("d"))),
        (event("waits", "k"), waiting("d")),
    ];
    bench.parked(&parks).await;
    let job = begun(&bench, redrive(), Filter::default()).await;
    let step = bench.console().step(job.id, 10).await.expect("a step");
    assert_eq!(step.refused, [("waits".into(), Status::Waiting)]);
    assert_eq!((step.job.touched, step.job.refused), (1, 1));
}

pub(super) async fn jobs_are_listed_newest_first(bench: Bench) {
    let filter = Filter {
        key: vec!["THING/k".to_owned()],
        status: vec![Status::DeadLetter],
        ..Filter::default()
    };
    let mut begun_jobs = Vec::new();
    for reason in ["one", "two", "three"] {
        let kind = JobKind::Act(Verb::Discard(reason.to_owned()));
        begun_jobs.push(begun(&bench, kind, filter.clone()).await);
    }
    let console = bench.console();
    let two = console.jobs(None, 2).await.expect("jobs");
    assert_eq!(two, [begun_jobs[2].clone(), begun_jobs[1].clone()]);
    let first = found(&bench, &begun_jobs[0].id).await;
    assert_eq!(first, begun_jobs[0], "with its kind, its filter and its actor");
    assert_eq!((first.actor.as_str(), &first.filter), (ANN, &filter));
    let nobody = JobId::from("nobody");
    assert!(
        console
            .jobs(Some(nobody.clone()), 1)
            .await
            .expect("none")
            .is_empty()
    );
    assert!(console.step(nobody.clone(), 1).await.is_err());
    assert!(
        console
            .steer(nobody, JobVerb::Pause, ANN.to_owned())
            .await
            .is_err()
    );
}

pub(super) async fn begun(bench: &Bench, kind: JobKind, filter: Filter) -> Job {
    let job = NewJob {
        id: JobId::new(),
        kind,
        filter,
        actor: ANN.to_owned(),
    };
    bench.console().begin(job).await.expect("a job begins")
}

/// Steps until the job does not run any more. Somebody else may step it too, and make a step busy.
pub(super) async fn to_the_end(console: &Arc<dyn Console>, id: &JobId, limit: u32) -> Job {
    for _ in 0..2_000 {
        match console.step(id.clone(), limit).await {
            Ok(step) if step.job.state != JobState::Running => return step.job,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}"),
        }
    }
    panic!("job {id} does not end");
}

/// Waits until the database's clock, which may go in milliseconds, is past the beginning of a job.
pub(super) async fn clock_goes_on(bench: &Bench, job: &Job) {
    eventually("the clock goes on", async || {
        let later = begun(bench, JobKind::Restore(Restore::default()), Filter::default()).await;
        (later.begun_at > job.begun_at).then_some(())
    })
    .await;
}

/// A job as anyone finds it.
pub(super) async fn found(bench: &Bench, id: &JobId) -> Job {
    let jobs = bench.console().jobs(Some(id.clone()), 1).await;
    jobs.expect("jobs").pop().expect("the job is there")
}

fn redrive() -> JobKind {
    JobKind::Act(Verb::Redrive)
}

pub(super) fn many_dead(count: u32) -> Vec<(Event, Park)> {
    (0..count)
        .map(|n| (event(&format!("e{n:02}"), &format!("k{n:02}")), dead(Some("d"))))
        .collect()
}

/// Every row is due, and changed as often as every other.
pub(super) async fn each_once(relay: &Relay, count: usize) {
    let due = relay.due().await;
    assert_eq!(due.len(), count);
    assert!(
        due.iter()
            .all(|row| row.redriven && row.version == due[0].version),
        "{due:?}"
    );
}

/// Ids of the dead, by place. A page may be short where a store bounds the time of a listing.
async fn dead_ids(bench: &Bench) -> Vec<String> {
    let filter = Filter {
        status: vec![Status::DeadLetter],
        ..Filter::default()
    };
    let (mut list, mut ids) = (List::first(1_000, filter), Vec::new());
    for _ in 0..1_000 {
        let page = bench.console().list(list.clone()).await.expect("a listing");
        ids.extend(page.events.iter().map(|record| record.event_id.to_string()));
        list.from = page.next;
        if list.from.is_none() {
            return ids;
        }
    }
    panic!("the listing does not end");
}
