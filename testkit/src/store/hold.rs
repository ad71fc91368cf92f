//! What a replay has still to read, and how it begins.

use std::time::Duration;

use postrider_core::{
    Cursor, Filter, JobId, JobKind, JobState, JobVerb, Kept, NewJob, Replay, Restore, StoreErrorKind,
};

use super::bench::Bench;
use super::job::{ANN, begun, clock_goes_on};
use super::keep::{HOUR, everything, history, pages, purge, sent_ids};

pub(super) async fn a_replay_that_has_still_to_read_what_is_old_is_told(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b", "c"]).await;
    let forgotten = async |age| bench.upkeep().forgotten(age).await.expect("looked");
    assert_eq!(forgotten(Duration::ZERO).await, None, "there is none");
    let restored = restored(&bench).await;
    let of_restored = Replay {
        restored: Some(restored),
        ..Replay::default()
    };
    begun(&bench, JobKind::Replay(of_restored), Filter::default()).await;
    assert_eq!(forgotten(Duration::ZERO).await, None, "it reads no history");

    let far = begun(&bench, JobKind::Replay(Replay::default()), Filter::default()).await;
    let step = bench.console().step(far.id.clone(), 2).await.expect("a step");
    assert_eq!(step.job.touched, 2);
    clock_goes_on(&bench, &far).await;
    assert_eq!(forgotten(Duration::ZERO).await, Some(far.id.clone()));
    assert_eq!(forgotten(HOUR).await, None, "nothing is that old");
    let near = begun(&bench, JobKind::Replay(Replay::default()), Filter::default()).await;
    assert_eq!(
        forgotten(Duration::ZERO).await,
        Some(near.id.clone()),
        "the least far"
    );
    steer(&bench, &near.id, JobVerb::Pause).await;
    assert_eq!(
        forgotten(Duration::ZERO).await,
        Some(near.id.clone()),
        "it may go on"
    );
    steer(&bench, &near.id, JobVerb::Cancel).await;
    assert_eq!(forgotten(Duration::ZERO).await, Some(far.id.clone()));

    let job = bench.console().step(far.id, 100).await.expect("a step").job;
    assert_eq!(
        (job.touched, job.state),
        (3, JobState::Running),
        "its copies wait"
    );
    assert_eq!(forgotten(Duration::ZERO).await, None, "it has read all");
}

async fn steer(bench: &Bench, job: &JobId, verb: JobVerb) {
    let steered = bench.console().steer(job.clone(), verb, ANN.to_owned()).await;
    steered.expect("steered");
}

/// A restore of the whole history.
async fn restored(bench: &Bench) -> JobId {
    let rows = pages(bench, everything()).await;
    let job = begun(bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let done = bench
        .upkeep()
        .restore(job.id.clone(), rows, Cursor("1".to_owned()))
        .await;
    done.expect("restored");
    job.id
}

/// Whoever lost the answer begins it again.
pub(super) async fn a_job_begins_once(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a"]).await;
    let new = NewJob {
        id: JobId::new(),
        kind: JobKind::Replay(Replay::default()),
        filter: Filter::default(),
        actor: ANN.to_owned(),
    };
    let first = bench.console().begin(new.clone()).await.expect("begun");
    assert_eq!(first.id, new.id);
    let stepped = bench
        .console()
        .step(first.id.clone(), 10)
        .await
        .expect("a step")
        .job;
    assert_eq!(stepped.touched, 1);
    let again = bench.console().begin(new).await.expect("it has begun");
    assert_eq!((again.begun_at, again.touched), (first.begun_at, 1));
    assert_eq!(bench.console().jobs(None, 10).await.expect("jobs").len(), 1);
    let audit = bench.console().audit(10, None).await.expect("the audit").entries;
    let begins = audit.iter().filter(|entry| entry.action == NewJob::BEGUN);
    assert_eq!(begins.count(), 1);
}

/// The history is not searched for it by every store, and one that took too much for a match would send it again.
pub(super) async fn a_replay_is_not_chosen_by_texts_or_failures(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a"]).await;
    let filters = [
        Filter {
            text: Some("M\u{fc}ller".to_owned()),
            ..Filter::default()
        },
        Filter {
            error_kind: Some("rejected".to_owned()),
            ..Filter::default()
        },
        Filter {
            failing_for: Some(Duration::ZERO),
            ..Filter::default()
        },
    ];
    for filter in filters {
        let new = NewJob {
            id: JobId::new(),
            kind: JobKind::Replay(Replay::default()),
            filter,
            actor: ANN.to_owned(),
        };
        let refused = bench
            .console()
            .begin(new)
            .await
            .expect_err("it cannot be asked for");
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
    }
    assert!(bench.console().jobs(None, 10).await.expect("jobs").is_empty());
}

/// Of what was there when it had begun a replay misses nothing, however a removal and its beginning meet.
pub(super) async fn a_replay_that_begins_beside_removals_reads_all_that_is_there(bench: Bench) {
    let relay = bench.relay("relay").await;
    for round in 0..10 {
        let ids: Vec<String> = (0..20).map(|n| format!("e{round}-{n}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        history(&bench, &relay, &ids).await;
        let removing = async {
            for _ in 0..5 {
                purge(&bench, Kept::History, Duration::ZERO).await;
            }
        };
        let beginning = async {
            let job = begun(&bench, JobKind::Replay(Replay::default()), Filter::default()).await;
            (job, sent_ids(&bench).await.len() as u64)
        };
        let ((), (job, there)) = tokio::join!(removing, beginning);
        let job = bench.console().step(job.id, 100).await.expect("a step").job;
        assert_eq!(job.touched, there, "in round {round}");
        steer(&bench, &job.id, JobVerb::Cancel).await;
    }
}
