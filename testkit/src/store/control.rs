//! Pauses and limits: who decided them, and what a paused key holds.

use postrider_core::{
    Act, Blocked, Control, DestinationName, Event, Filter, InForce, Lane, Limits, List, Read, Scope, Settled,
    Status, Then, Verb,
};

use super::bench::{Bench, Relay};
use super::job::ANN;
use super::words::{dead, event, event_in, pairs, parks_as, sent, to, waiting};

pub(super) async fn a_pause_says_who(bench: Bench) {
    assert!(in_force(&bench).await.is_empty());
    let limits = Limits {
        max_in_flight: Some(3),
        max_rate: None,
    };
    control(&bench, Control::Pause(Scope::Destination(to("d")))).await;
    control(&bench, Control::Limit(to("d"), limits)).await;
    control(&bench, Control::Pause(Scope::Outbox)).await;
    let all = in_force(&bench).await;
    assert_eq!(scopes(&all), [&Scope::Outbox, &Scope::Destination(to("d"))]);
    assert!(all.iter().all(|decided| decided.paused && decided.actor == ANN));
    assert_eq!((all[0].limits, all[1].limits), (Limits::default(), limits));
    control(&bench, Control::Resume(Scope::Outbox)).await;
    control(&bench, Control::Resume(Scope::Destination(to("d")))).await;
    let all = in_force(&bench).await;
    assert_eq!(
        scopes(&all),
        [&Scope::Destination(to("d"))],
        "its limits are in force"
    );
    assert!(!all[0].paused);
    control(&bench, Control::Unlimit(to("d"))).await;
    assert!(in_force(&bench).await.is_empty());
}

pub(super) async fn limits_reach_every_relay(bench: Bench) {
    let mut one = bench.relay("one").await;
    let limits = Limits {
        max_in_flight: Some(3),
        max_rate: Some(50),
    };
    control(&bench, Control::Limit(to("d"), limits)).await;
    let wanted = [(to("d"), limits)].into();
    assert_eq!(one.say(one.heartbeat()).await.controls.limits, wanted);
    let mut late = bench.idle_relay("two", super::bench::LONG).await;
    let beat = late.heartbeat();
    assert_eq!(
        late.say(beat).await.controls.limits,
        wanted,
        "it is kept in the database"
    );
    control(&bench, Control::Unlimit(to("d"))).await;
    assert_eq!(one.say(one.heartbeat()).await.controls, Default::default());
}

/// Two people who change one limit each, at once: neither is lost, and neither has read what the other wrote.
pub(super) async fn a_limit_that_is_not_given_stays(bench: Bench) {
    let rate = Limits {
        max_rate: Some(50),
        ..Limits::default()
    };
    let in_flight = Limits {
        max_in_flight: Some(3),
        ..Limits::default()
    };
    let both = Limits {
        max_rate: Some(50),
        max_in_flight: Some(3),
    };
    let mut relay = bench.relay("one").await;
    control(&bench, Control::Limit(to("d"), rate)).await;
    control(&bench, Control::Limit(to("d"), in_flight)).await;
    assert_eq!(in_force(&bench).await[0].limits, both);
    control(&bench, Control::Limit(to("d"), Limits::default())).await;
    let limits = relay.say(relay.heartbeat()).await.controls.limits;
    assert_eq!(limits, [(to("d"), both)].into(), "what is given is nothing");
    control(&bench, Control::Unlimit(to("d"))).await;
    assert!(in_force(&bench).await.is_empty());
}

/// Of what is paused and limited people ask who paused it. To say the same again decides nothing.
pub(super) async fn who_paused_it_is_kept(bench: Bench) {
    let limit = |rate| {
        let limits = Limits {
            max_rate: Some(rate),
            ..Limits::default()
        };
        Control::Limit(to("d"), limits)
    };
    let by = async |control: Control, actor: &str| {
        let console = bench.console();
        let decided = console.control(control.clone(), actor.to_owned()).await;
        decided.expect("decided");
        let all = in_force(&bench).await.into_iter();
        let mut its = all.filter(|one| one.scope == control.scope());
        its.next().map(|one| (one.actor, one.since))
    };
    for scope in [
        Scope::Destination(to("d")),
        Scope::Outbox,
        Scope::Key("k".to_owned()),
    ] {
        let ann = by(Control::Pause(scope.clone()), "ann").await;
        assert_eq!(ann.as_ref().map(|(actor, _)| actor.as_str()), Some("ann"));
        assert_eq!(by(Control::Pause(scope.clone()), "bob").await, ann, "{scope:?}");
        if let Scope::Destination(name) = &scope {
            assert_eq!(by(limit(5), "bob").await, ann, "it is still paused by her");
            assert_eq!(by(Control::Unlimit(name.clone()), "bob").await, ann);
        }
        assert_eq!(by(Control::Resume(scope), "bob").await, None);
    }
    let ann = by(limit(5), "ann").await;
    assert_eq!(ann.as_ref().map(|(actor, _)| actor.as_str()), Some("ann"));
    assert_eq!(by(limit(5), "bob").await, ann, "as it was");
    let bob = by(limit(6), "bob").await;
    assert_eq!(bob.as_ref().map(|(actor, _)| actor.as_str()), Some("bob"));
    let paused = by(Control::Pause(Scope::Destination(to("d"))), "ann").await;
    assert_eq!(paused.map(|(actor, _)| actor).as_deref(), Some("ann"));
    let limited = in_force(&bench).await.remove(0).limited;
    assert_eq!(limited, bob, "the limit is his");
    assert_eq!(by(Control::Resume(Scope::Destination(to("d"))), "ann").await, bob);
}

pub(super) async fn a_paused_key_holds_its_key_only(bench: Bench) {
    let parks = [
        (event("parked", "k"), waiting("d")),
        (event("other", "l"), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    pause(&bench, "THING/k").await;
    assert_eq!(relay.due_names().await, pairs(&[("other", "d")]));
    let queued: Vec<Event> = Lane::ALL
        .iter()
        .flat_map(|lane| ["k", "m"].map(|key| event_in(&format!("{key}{}", lane.sign()), key, *lane)))
        .collect();
    bench.commit(&queued).await;
    for (skip_dead, what) in [
        (vec![], "held"),
        (vec![to("d")], "held also where dead rows are passed over"),
    ] {
        for row in relay.read(skipping(&relay, skip_dead)).await.queued {
            let wanted = match row.event_id.as_str().starts_with('k') {
                true => Blocked::Everywhere,
                false => Blocked::Nowhere,
            };
            assert_eq!(row.blocked, wanted, "{}: {what}", row.event_id);
        }
    }
    assert_eq!(
        listed(&bench, Status::Held).await,
        ["parked", "other"],
        "and said so"
    );
}

pub(super) async fn a_key_is_paused_as_people_see_it(bench: Bench) {
    let given = Event {
        key: Some("THING/k".to_owned()),
        ..event("given", "x")
    };
    let part = Event {
        aggregate_type: "T".to_owned(),
        aggregate_id: "HING/k".to_owned(),
        ..event("part", "x")
    };
    bench.commit(&[given, event("made", "k"), part]).await;
    pause(&bench, "THING/k").await;
    let relay = bench.relay("one").await;
    let blocked = async || -> Vec<bool> {
        let rows = relay.queued().await;
        rows.iter()
            .map(|row| row.blocked == Blocked::Everywhere)
            .collect()
    };
    assert_eq!(blocked().await, [true, true, false]);
    let all = in_force(&bench).await;
    assert_eq!(
        scopes(&all),
        [&Scope::Key("THING/k".to_owned())],
        "one pause, as it was said"
    );
    control(&bench, Control::Resume(Scope::Key("THING/k".to_owned()))).await;
    assert_eq!(blocked().await, [false, false, false]);
    assert!(in_force(&bench).await.is_empty());
}

pub(super) async fn a_paused_key_resumes_in_order(bench: Bench) {
    let parks = [(event("a", "k"), waiting("d")), (event("b", "k"), waiting("d"))];
    let (relay, _) = bench.parked(&parks).await;
    for _ in 0..2 {
        // Twice is once: nobody counts how often a key was paused.
        pause(&bench, "THING/k").await;
    }
    let seen = relay.due().await;
    assert!(seen.is_empty(), "{seen:?}");
    // What a relay had in memory may be parked while the key is paused.
    bench.commit(&[event("c", "k")]).await;
    let row = relay.queued().await.remove(0);
    assert_eq!(
        relay.settle_one(parks_as(&row, vec![waiting("d")])).await,
        Settled::Done
    );
    assert!(relay.due().await.is_empty());
    control(&bench, Control::Resume(Scope::Key("THING/k".to_owned()))).await;
    for id in ["a", "b", "c"] {
        let due = relay.due().await;
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].row.event_id.as_str(), id);
        let settled = relay.settle_parked(&due[0], Then::Sent(Default::default())).await;
        assert_eq!(settled, Settled::Done);
    }
}

/// What holds a key is no event, whatever a store makes of it.
pub(super) async fn a_pause_is_seen_by_nobody_as_an_event(bench: Bench) {
    pause(&bench, "THING/k").await;
    let console = bench.console();
    let stats = console.stats().await.expect("stats");
    assert_eq!(
        (stats.dead, stats.parked.values().sum::<u64>(), stats.oldest),
        (0, 0, None)
    );
    assert!(console.groups().await.expect("groups").is_empty());
    let all = console
        .list(List::first(10, Filter::default()))
        .await
        .expect("a listing");
    assert!(all.events.is_empty());
    for verb in [Verb::Redrive, Verb::Discard("all of it".into())] {
        let everything = Act {
            verb,
            filter: Filter::default(),
            dry_run: false,
            actor: ANN.to_owned(),
            limit: 100,
            from: None,
        };
        assert_eq!(console.act(everything).await.expect("an act"), Default::default());
    }
    let relay = bench.relay("one").await;
    let page = relay.read(relay.everything()).await;
    assert!(page.parked.is_empty() && page.next_due_in.is_none());
    bench.commit(&[event("a", "k")]).await;
    assert_eq!(
        relay.queued().await[0].blocked,
        Blocked::Everywhere,
        "it is still in force"
    );
    // What was handed to the broker before the pause is settled as ever.
    let row = relay.queued().await.remove(0);
    assert_eq!(relay.settle_one(sent(&row, &["d"])).await, Settled::Done);
}

pub(super) async fn a_dead_row_of_a_paused_key_is_redriven_and_held(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    pause(&bench, "THING/k").await;
    let by_id = Act {
        verb: Verb::Redrive,
        filter: Filter {
            event_id: vec!["a".into()],
            ..Filter::default()
        },
        dry_run: false,
        actor: ANN.to_owned(),
        limit: 10,
        from: None,
    };
    assert_eq!(bench.console().act(by_id).await.expect("an act").touched, 1);
    assert!(relay.due().await.is_empty());
    control(&bench, Control::Resume(Scope::Key("THING/k".to_owned()))).await;
    assert_eq!(relay.due_names().await, pairs(&[("a", "d")]));
}

async fn control(bench: &Bench, control: Control) {
    let decided = bench.console().control(control, ANN.to_owned()).await;
    decided.expect("a decision is kept");
}

async fn pause(bench: &Bench, key: &str) {
    control(bench, Control::Pause(Scope::Key(key.to_owned()))).await;
}

/// What is in force, by what it is about.
async fn in_force(bench: &Bench) -> Vec<InForce> {
    let mut all = bench.console().controls().await.expect("what is in force");
    all.sort_by(|a, b| a.scope.cmp(&b.scope));
    all
}

fn scopes(all: &[InForce]) -> Vec<&Scope> {
    all.iter().map(|decided| &decided.scope).collect()
}

fn skipping(relay: &Relay, skip_dead: Vec<DestinationName>) -> Read {
    Read {
        skip_dead,
        ..relay.everything()
    }
}

async fn listed(bench: &Bench, status: Status) -> Vec<String> {
    let filter = Filter {
        status: vec![status],
        ..Filter::default()
    };
    let listed = bench
        .console()
        .list(List::first(10, filter))
        .await
        .expect("a listing");
    let events = listed.events.into_iter();
    events.map(|record| record.event_id.to_string()).collect()
}
