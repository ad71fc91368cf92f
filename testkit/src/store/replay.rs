//! Sent events that are sent again.

use std::collections::BTreeMap;

use postrider_core::{
    Blocked, Event, Filter, Job, JobKind, JobState, JobVerb, ParkedRow, Receipt, Replay, Settled, Status,
    StoreErrorKind, Then,
};

use super::bench::{Bench, Relay};
use super::job::{ANN, begun, found, to_the_end};
use super::words::{dead, event, goes_on, names, pairs, sent, to, waiting};
use crate::wait::eventually;

pub(super) async fn a_replay_keeps_order_by_key(bench: Bench) {
    let ids: Vec<_> = (0..30).map(|n| format!("e{n:02}")).collect();
    let events: Vec<_> = (0..30).map(|n| event(&ids[n], &format!("k{}", n % 3))).collect();
    let relay = history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    let mut arrived: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut steps = 0;
    while found(&bench, &job.id).await.state == JobState::Running {
        bench.console().step(job.id.clone(), 7).await.expect("a step");
        for row in deliver(&relay).await {
            let id = row.row.event_id.to_string();
            arrived.entry(row.row.key.to_string()).or_default().push(id);
        }
        steps += 1;
        assert!(steps < 200, "the replay does not end");
    }
    assert_eq!(arrived.len(), 3, "a line a key");
    assert_eq!(arrived.values().map(Vec::len).sum::<usize>(), 30);
    assert!(arrived.values().all(|ids| ids.is_sorted()), "{arrived:?}");
    let job = found(&bench, &job.id).await;
    assert_eq!((job.state, job.touched, job.waiting), (JobState::Done, 30, 0));
}

pub(super) async fn a_replay_blocks_and_waits_for_nobody(bench: Bench) {
    let relay = history(&bench, &[event("old", "k")]).await;
    bench.commit(&[event("dead", "k")]).await;
    let row = relay.queued().await.remove(0);
    let parked = super::words::parks_as(&row, vec![dead(Some("d"))]);
    assert_eq!(relay.settle_one(parked).await, Settled::Done);
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    bench.console().step(job.id.clone(), 10).await.expect("a step");
    let copy = relay.due().await.remove(0);
    assert_eq!(
        copy.row.event_id.as_str(),
        "old",
        "it does not wait for the dead one of its key"
    );
    assert_eq!(copy.row.replay.as_deref(), Some(job.id.as_str()));
    assert_eq!(copy.row.sent_before, [], "that it was sent is why it is here");
    // The copy dies, and holds nobody of the live flow.
    assert_eq!(
        relay.settle_parked(&copy, Then::Again(dead(Some("d")))).await,
        Settled::Done
    );
    bench.commit(&[event("new", "k"), event("other", "l")]).await;
    let blocked: Vec<_> = relay
        .queued()
        .await
        .iter()
        .map(|row| row.blocked.clone())
        .collect();
    assert_eq!(
        blocked,
        [Blocked::At(vec![to("d")]), Blocked::Nowhere],
        "by the dead live one alone"
    );
    let job = to_the_end(&bench.console(), &job.id, 10).await;
    assert_eq!(
        job.state,
        JobState::Done,
        "a dead copy is a person's, not the replay's"
    );
    let shown = bench.console().show("old".into()).await.expect("shown");
    let states: Vec<_> = shown
        .iter()
        .map(|record| (record.replay.clone(), record.status()))
        .collect();
    assert_eq!(
        states,
        [(None, Status::Published), (Some(job.id), Status::DeadLetter)]
    );
}

/// Whatever is killed between two steps, and in the middle of one, makes no copy twice and leaves none out.
pub(super) async fn a_replay_resumes(bench: Bench) {
    let events: Vec<_> = (0..10).map(|n| event(&format!("e{n}"), "k")).collect();
    let relay = history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    let first = bench.console().step(job.id.clone(), 3).await.expect("a step").job;
    assert_eq!((first.touched, first.waiting), (3, 3));
    for polls in 0..6 {
        super::faults::abandon(bench.console().step(job.id.clone(), 1), polls).await;
    }
    let wanted: Vec<_> = events
        .iter()
        .map(|event| (event.id.to_string(), "d".to_owned()))
        .collect();
    assert_eq!(copies(&bench, &relay, &job).await, wanted);
}

/// Whoever comes second knows of the copies that the first has made, and does not take the job for done.
pub(super) async fn two_who_step_one_replay_end_it_once(bench: Bench) {
    let events: Vec<_> = (0..5).map(|n| event(&format!("e{n}"), "k")).collect();
    let relay = history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    let stepper = async || {
        let console = bench.console();
        for _ in 0..5 {
            match console.step(job.id.clone(), 100).await {
                Ok(step) => assert_eq!(step.job.state, JobState::Running, "five copies wait"),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}"),
            }
        }
    };
    tokio::join!(stepper(), stepper(), stepper());
    assert_eq!(copies(&bench, &relay, &job).await.len(), 5);
}

/// Whoever made the copies has gone before they were sent. Nothing is left to be done, and the job says so.
pub(super) async fn a_replay_that_nobody_drives_is_done(bench: Bench) {
    let relay = history(&bench, &[event("a", "k"), event("b", "k")]).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    let console = bench.console();
    for _ in 0..2 {
        console.step(job.id.clone(), 10).await.expect("a step");
    }
    assert_eq!(
        super::job::found(&bench, &job.id).await.state,
        JobState::Running,
        "two copies wait"
    );
    assert_eq!(deliver(&relay).await.len(), 2);
    let done = super::job::found(&bench, &job.id).await;
    assert_eq!((done.state, done.touched, done.waiting), (JobState::Done, 2, 0));
    for verb in [JobVerb::Pause, JobVerb::Cancel] {
        let steered = console.steer(job.id.clone(), verb, ANN.to_owned()).await;
        assert_eq!(steered.expect("steered").state, JobState::Done);
    }
    let step = console.step(job.id.clone(), 0).await.expect("a step");
    assert_eq!(
        step.job.state,
        JobState::Done,
        "and is written down by whoever looks after it"
    );
}

pub(super) async fn a_cancelled_replay_takes_its_copies_back(bench: Bench) {
    let relay = history(&bench, &[event("a", "k"), event("b", "k"), event("c", "l")]).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    bench.console().step(job.id.clone(), 1).await.expect("a step");
    let first = relay.due().await.remove(0);
    let sent = relay.settle_parked(&first, Then::Sent(Receipt::default())).await;
    assert_eq!(sent, Settled::Done);
    bench.console().step(job.id.clone(), 2).await.expect("a step");
    let seen = relay.due().await.remove(0);
    let steered = bench
        .console()
        .steer(job.id.clone(), JobVerb::Cancel, ANN.to_owned())
        .await;
    let job = steered.expect("cancelled");
    // A store may take them back in several steps.
    let job = eventually("the copies are taken back", async || {
        let job = bench
            .console()
            .step(job.id.clone(), 10)
            .await
            .expect("a step")
            .job;
        (job.waiting == 0).then_some(job)
    })
    .await;
    assert_eq!(
        (job.state, job.touched),
        (JobState::Cancelled, 1),
        "only what was sent is done"
    );
    assert!(relay.due().await.is_empty());
    // A relay had one in flight: whatever it says comes too late.
    for then in [Then::Again(waiting("d")), Then::Sent(Receipt::default())] {
        assert_eq!(relay.settle_parked(&seen, then).await, Settled::Gone);
    }
}

/// Whoever goes on with a replay goes on as fast as it was begun, or as somebody decided since.
pub(super) async fn a_replay_keeps_its_pace(bench: Bench) {
    history(&bench, &[event("a", "k")]).await;
    let slow = Replay {
        rate: Some(7),
        ..Replay::default()
    };
    let job = replay(&bench, slow, Filter::default()).await;
    let rate = async |verb: Option<JobVerb>| {
        let job = match verb {
            Some(verb) => bench.console().steer(job.id.clone(), verb, ANN.to_owned()).await,
            None => bench
                .console()
                .jobs(Some(job.id.clone()), 1)
                .await
                .map(|mut jobs| jobs.remove(0)),
        };
        let job = job.expect("the job");
        match job.kind {
            JobKind::Replay(replay) => (replay.rate, job.state),
            other => panic!("{other:?} is no replay"),
        }
    };
    assert_eq!(rate(None).await, (Some(7), JobState::Running));
    assert_eq!(rate(Some(JobVerb::Pause)).await, (Some(7), JobState::Paused));
    assert_eq!(rate(Some(JobVerb::Pace(9))).await, (Some(9), JobState::Paused));
    assert_eq!(rate(Some(JobVerb::Resume)).await, (Some(9), JobState::Running));
    assert_eq!(rate(None).await, (Some(9), JobState::Running));
    assert_eq!(rate(Some(JobVerb::Cancel)).await, (Some(9), JobState::Cancelled));
    assert_eq!(
        rate(Some(JobVerb::Pace(1))).await,
        (Some(9), JobState::Cancelled),
        "an end is one"
    );
}

/// The copies that wait are bounded, however large the step.
pub(super) async fn a_replay_is_bounded(bench: Bench) {
    let count = Replay::BESIDE as usize + 100;
    let events: Vec<_> = (0..count)
        .map(|n| event(&format!("e{n:03}"), &format!("k{n}")))
        .collect();
    let relay = history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    for _ in 0..5 {
        let stepped = bench
            .console()
            .step(job.id.clone(), 10_000)
            .await
            .expect("a step")
            .job;
        assert!(
            stepped.waiting <= u64::from(Replay::BESIDE),
            "{}",
            stepped.waiting
        );
        assert_eq!(stepped.state, JobState::Running);
    }
    let stands = found(&bench, &job.id).await;
    assert_eq!(
        (stands.touched, stands.waiting),
        (u64::from(Replay::BESIDE), u64::from(Replay::BESIDE))
    );
    assert_eq!(deliver(&relay).await.len(), Replay::BESIDE as usize);
    assert_eq!(copies(&bench, &relay, &job).await.len(), 100);
}

/// A dead copy holds back later copies of its key, and not the replay: no other key waits for a person.
pub(super) async fn a_replay_goes_on_beside_a_dead_copy(bench: Bench) {
    let of_one_key = (0..=Replay::BESIDE).map(|n| event(&format!("e{n:03}"), "k"));
    let events: Vec<_> = of_one_key.chain([event("other", "l")]).collect();
    let relay = history(&bench, &events).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    let console = bench.console();
    console.step(job.id.clone(), 10_000).await.expect("a step");
    let head = relay.due().await.remove(0);
    let dies = Then::Again(dead(Some("d")));
    assert_eq!(relay.settle_parked(&head, dies).await, Settled::Done);
    for _ in 0..2 {
        console.step(job.id.clone(), 10_000).await.expect("a step");
    }
    assert_eq!(relay.due_names().await, pairs(&[("other", "d")]));
    let stands = found(&bench, &job.id).await;
    assert_eq!(
        (stands.touched, stands.state),
        (events.len() as u64, JobState::Running)
    );
}

pub(super) async fn a_replay_of_a_queued_id_disturbs_no_producer(bench: Bench) {
    let relay = history(&bench, &[event("same", "k")]).await;
    bench.commit(&[event("same", "k")]).await;
    let job = replay(&bench, Replay::default(), Filter::default()).await;
    bench.console().step(job.id.clone(), 10).await.expect("a step");
    let row = relay.queued().await.remove(0);
    assert_eq!(row.replay, None);
    assert_eq!(row.blocked, Blocked::Nowhere);
    assert_eq!(
        row.sent_before.len(),
        1,
        "it is the original that was sent before"
    );
    bench.commit(&[event("next", "k")]).await;
    assert_eq!(copies(&bench, &relay, &job).await, pairs(&[("same", "d")]));
}

pub(super) async fn a_copy_sent_elsewhere_is_no_delivery_of_the_event(bench: Bench) {
    let relay = history(&bench, &[event("same", "k")]).await;
    let told = Replay {
        to: Some(to("x")),
        ..Replay::default()
    };
    let job = replay(&bench, told, Filter::default()).await;
    assert_eq!(copies(&bench, &relay, &job).await, pairs(&[("same", "x")]));
    bench.commit(&[event("same", "k")]).await;
    let before = relay.queued().await.remove(0).sent_before;
    let known: Vec<_> = before.iter().map(|known| known.destination.clone()).collect();
    assert_eq!(known, [to("d")], "the first delivery to x is still owed");
}

/// Events that were sent to one destination.
pub(super) async fn history(bench: &Bench, events: &[Event]) -> Relay {
    let (relay, rows) = bench.queued(events).await;
    let entries = rows.iter().map(|row| sent(row, &["d"])).collect();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; rows.len()]
    );
    relay
}

/// A replay that began after everything that was sent, also by a clock that goes in milliseconds.
pub(super) async fn replay(bench: &Bench, replay: Replay, filter: Filter) -> Job {
    let last = last_sent(bench).await;
    eventually("the clock goes on", async || {
        let job = begun(bench, JobKind::Replay(replay.clone()), filter.clone()).await;
        if job.begun_at > last {
            return Some(job);
        }
        let steered = bench
            .console()
            .steer(job.id, JobVerb::Cancel, ANN.to_owned())
            .await;
        steered.expect("cancelled");
        None
    })
    .await
}

pub(super) async fn last_sent(bench: &Bench) -> postrider_core::Timestamp {
    let page = bench.console().sent(None, 1, None).await.expect("the history");
    page.events.last().expect("something was sent").published_at
}

/// Sends everything that is due, followers too; answers it in the order of the page.
pub(super) async fn deliver(relay: &Relay) -> Vec<ParkedRow> {
    let mut read = relay.everything();
    read.parked.followers = 1_000;
    let due = relay.read(read).await.parked;
    let entries: Vec<_> = due
        .iter()
        .map(|row| goes_on(row, Then::Sent(Receipt::default())))
        .collect();
    let settled = relay.settle(Vec::new(), entries).await;
    assert_eq!(settled, vec![Settled::Done; due.len()]);
    due
}

/// Goes through with a replay; answers what arrived, by place.
pub(super) async fn copies(bench: &Bench, relay: &Relay, job: &Job) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for _ in 0..1_000 {
        let state = bench
            .console()
            .step(job.id.clone(), 100)
            .await
            .expect("a step")
            .job
            .state;
        all.extend(deliver(relay).await);
        if state != JobState::Running {
            assert_eq!(state, JobState::Done);
            all.retain(|row| row.row.replay.as_deref() == Some(job.id.as_str()));
            all.sort_by_key(|row| row.row.seq);
            return names(&all);
        }
    }
    panic!("the replay does not end");
}
