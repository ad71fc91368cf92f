//! A job reads what it wrote, and means what it meant when it began.

use super::*;

#[test]
fn a_spec_is_read_back_as_it_was() {
    let kinds = [
        JobKind::Act(Verb::Redrive),
        JobKind::Act(Verb::Discard("a \"test\"".to_owned())),
        JobKind::Act(Verb::Move(Duration::from_secs(90))),
        JobKind::Replay(Replay::default()),
        JobKind::Replay(Replay {
            since: Some(Timestamp(-1)),
            until: Some(Timestamp(5)),
            to: Some("other".into()),
            restored: Some("r".into()),
            rate: Some(50),
        }),
        JobKind::Restore(Restore::default()),
        JobKind::Restore(Restore {
            since: Some(Timestamp(3)),
            until: Some(Timestamp(5)),
        }),
    ];
    for kind in kinds {
        let filter = Filter {
            key: vec!["ORDER/1".to_owned()],
            ..Filter::default()
        };
        let job = NewJob {
            id: JobId::new(),
            kind,
            filter,
            actor: "ann".to_owned(),
        };
        let read = JobKind::of_spec(job.kind.as_str(), &job.kind.spec(&job.filter));
        assert_eq!(read, Some((job.kind, job.filter)));
    }
}

fn job(filter: Filter, verb: Verb) -> Job {
    Job {
        id: "j".into(),
        kind: JobKind::Act(verb),
        filter,
        state: JobState::Running,
        actor: "ann".to_owned(),
        touched: 0,
        refused: 0,
        waiting: 0,
        cursor: None,
        begun_at: Timestamp(100),
        updated_at: Timestamp(500),
    }
}

#[test]
fn a_job_means_what_it_meant_when_it_began() {
    let record = EventRecord {
        seq: crate::Seq(1),
        event: Err("not of interest".to_owned()),
        bad_payload: None,
        event_id: "one".into(),
        event_type: "Placed".to_owned(),
        key: "k".to_owned(),
        created_at: Timestamp(90),
        replay: None,
        routes: Vec::new(),
        timeline: Vec::new(),
        original: None,
    };
    let failed = |status, first, last| Route {
        failures: 1,
        failed: Some((Timestamp(first), Timestamp(last))),
        ..Route::new(None, status)
    };
    let (dead, retrying) = (Status::DeadLetter, Status::Retrying);
    let of = |status: &[Status], route: &Route| {
        let filter = Filter {
            status: status.to_vec(),
            ..Filter::default()
        };
        job(filter, Verb::Redrive).means(&record, route)
    };
    assert!(of(&[dead], &failed(dead, 50, 100)));
    assert!(!of(&[dead], &failed(dead, 50, 101)), "it died afterwards");
    assert!(
        of(&[dead, retrying], &failed(dead, 50, 101)),
        "it was refused before"
    );
    assert!(of(&[dead, retrying], &failed(retrying, 50, 101)));
    assert!(!of(&[], &failed(retrying, 101, 101)), "it failed afterwards");
    assert!(of(&[], &Route::new(None, Status::Scheduled)));
    let age = |micros| {
        let newer_than = Some(Duration::from_micros(micros));
        let filter = Filter {
            newer_than,
            ..Filter::default()
        };
        job(filter, Verb::Redrive).means(&record, &failed(dead, 50, 50))
    };
    assert!(age(10) && !age(9), "as old as it was");
}

#[test]
fn a_time_from_the_beginning_comes_nearer() {
    let by = |micros| Verb::Move(Duration::from_micros(micros));
    let moved = |now| job(Filter::default(), by(50)).verb(Timestamp(now));
    assert_eq!(moved(100), Some(by(50)));
    assert_eq!(moved(120), Some(by(30)));
    assert_eq!(moved(900), Some(by(0)));
}
