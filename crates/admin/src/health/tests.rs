//! What makes an outbox degraded, and what failing.

use postrider_core::{Limits, LiveRelay, RelayId, Timestamp};

use super::*;

fn seen(change: impl FnOnce(&mut Seen)) -> Seen {
    let mut seen = Seen::default();
    change(&mut seen);
    seen
}

fn words(seen: &Seen) -> (Level, Vec<&'static str>) {
    let health = judge(Ok(seen), &[], &[], &Thresholds::default());
    (
        health.level,
        health.reasons.iter().map(|reason| reason.word).collect(),
    )
}

#[test]
fn each_threshold_has_its_two_sides() {
    use Level::{Degraded, Failing, Healthy};
    let age = |seconds| seen(|it| it.stats.oldest = Some(Duration::from_secs(seconds)));
    let queued = |number| seen(|it| it.stats.queued = number);
    for (seen, level, word) in [
        (queued(999), Healthy, ""),
        (queued(1_000), Degraded, "backlog"),
        (queued(99_999), Degraded, "backlog"),
        (queued(100_000), Failing, "backlog"),
        (age(300), Healthy, ""),
        (age(301), Degraded, "lag"),
        (age(3_600), Degraded, "lag"),
        (age(3_601), Failing, "lag"),
        (seen(|it| it.stats.dead = 1), Degraded, "dead"),
        (seen(|it| it.stalled = 1), Degraded, "stalled"),
    ] {
        let expected: Vec<&str> = [word].into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(words(&seen), (level, expected), "{seen:?}");
    }
}

/// None that was found is good news only where everything was looked through.
#[test]
fn a_search_that_did_not_end_is_not_told_as_none() {
    let told = |stalled, more_stalled| {
        let seen = seen(|it| {
            it.stats.parked.insert(Status::Retrying.as_str(), 7);
            (it.stalled, it.more_stalled) = (stalled, more_stalled);
        });
        let health = judge(Ok(&seen), &[], &[], &Thresholds::default());
        let text = health.reasons.first().map(|reason| reason.text.clone());
        (health.level, seen.stalled_known(), text.unwrap_or_default())
    };
    assert_eq!(told(0, false), (Level::Healthy, Some(0), String::new()));
    let (level, known, text) = told(0, true);
    assert_eq!((level, known), (Level::Degraded, None));
    assert!(
        text.starts_with("not known whether any is stalled") && text.contains("7 are refused"),
        "{text}"
    );
    for (more, start) in [(false, "3 stalled"), (true, "at least 3 stalled")] {
        let (level, known, text) = told(3, more);
        assert_eq!((level, known), (Level::Degraded, Some(3)));
        assert!(text.starts_with(start), "{text}");
    }
}

/// Whoever sees a relay run is not asked whether one does.
#[test]
fn a_backlog_asks_for_a_relay_only_where_none_runs() {
    let old = |relays: Vec<LiveRelay>| {
        let seen = seen(|it| {
            it.stats.oldest = Some(Duration::from_secs(301));
            it.stats.relays = relays;
        });
        judge(Ok(&seen), &[], &[], &Thresholds::default()).reasons[0]
            .text
            .clone()
    };
    let relay = LiveRelay {
        relay: RelayId("a".into()),
        expires_in: Duration::from_secs(1),
        shards: Vec::new(),
    };
    assert_eq!(
        old(vec![relay]),
        "the oldest is unpublished for 5m1s, longer than 5m"
    );
    assert!(old(Vec::new()).ends_with("longer than 5m: is a relay running?"));
}

/// It changes no level: a person knows of it. Whoever finds the backlog learns why there is one.
#[test]
fn a_pause_is_named_and_no_illness() {
    let pause = |scope, paused| InForce {
        scope,
        paused,
        limits: Limits {
            max_rate: Some(1),
            ..Limits::default()
        },
        actor: "cli:ann\n".to_owned(),
        since: Timestamp(0),
        limited: None,
    };
    let fine = seen(|it| {
        it.controls = vec![
            pause(Scope::Outbox, true),
            pause(Scope::Destination("rabbit".into()), true),
            pause(Scope::Key("ORDER/42".to_owned()), true),
            pause(Scope::Destination("limited".into()), false),
        ];
    });
    assert_eq!(words(&fine), (Level::Healthy, vec!["paused"; 3]));
    let health = judge(Ok(&fine), &[], &[], &Thresholds::default());
    assert_eq!(health.problems().count(), 0);
    assert!(health.reasons[1].text.contains("the destination rabbit"));
    assert!(health.reasons[2].text.contains("ORDER/42"));
    for (reason, args) in health
        .reasons
        .iter()
        .zip(["", " --destination rabbit", " --key ORDER/42"])
    {
        assert!(
            reason.text.contains(&format!("`postrider resume{args}`")),
            "{reason:?}"
        );
    }
    assert!(
        !health.reasons[0].text.contains('\n'),
        "who it was is untrusted text"
    );
}

#[test]
fn what_is_scheduled_or_dead_is_not_unpublished() {
    let seen = seen(|it| {
        it.stats.parked.insert(Status::Scheduled.as_str(), 5_000);
        it.stats.parked.insert(Status::Held.as_str(), 998);
        it.stats.queued = 1;
        it.stats.dead = 0;
    });
    assert_eq!(seen.stats.unpublished(), 999);
    assert_eq!(words(&seen), (Level::Healthy, vec![]));
}

#[test]
fn credentials_and_a_lost_database_are_failing_and_an_outage_is_not() {
    let circuit = |kind| OpenCircuit {
        destination: "rabbit".to_owned(),
        kind,
        text: "because".into(),
        open_for: Duration::from_secs(90),
    };
    let fine = seen(|_| {});
    let limits = Thresholds::default();
    let away = judge(Ok(&fine), &[circuit(ErrorKind::Unreachable)], &[], &limits);
    assert_eq!(
        (away.level, away.reasons[0].word),
        (Level::Degraded, "circuit_open")
    );
    let both = [circuit(ErrorKind::Unreachable), circuit(ErrorKind::Credentials)];
    let refused = judge(Ok(&fine), &both, &[], &limits);
    assert_eq!((refused.level, refused.reasons[0].word), (Level::Failing, "auth"));
    assert_eq!(refused.reasons.len(), 2);
    for (kind, word) in [
        (StoreErrorKind::Unreachable, "database"),
        (StoreErrorKind::Denied, "auth"),
    ] {
        let trouble = Trouble {
            kind,
            text: "gone".into(),
        };
        let health = judge(Err(&trouble), &[], &[], &limits);
        assert_eq!((health.level, health.reasons[0].word), (Level::Failing, word));
    }
}

#[test]
fn a_call_that_keeps_failing_is_failing_although_the_numbers_are_fine() {
    let fine = seen(|_| {});
    for (seconds, level) in [(9, Level::Healthy), (10, Level::Failing)] {
        let call = FailingCall {
            doing: "settle",
            error: "no partition".to_owned(),
            failing_for: Duration::from_secs(seconds),
        };
        let health = judge(Ok(&fine), &[], &[call], &Thresholds::default());
        assert_eq!(health.level, level, "{health:?}");
    }
}

#[test]
fn durations_are_short() {
    assert_eq!(shown(Duration::from_millis(250)), "250ms");
    let text = |seconds| shown(Duration::from_secs(seconds));
    assert_eq!(
        [text(0), text(59), text(60), text(61), text(3_600), text(3_660)],
        ["0s", "59s", "1m", "1m1s", "1h", "1h1m"]
    );
}
