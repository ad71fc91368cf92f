//! What operators do: redrive, discard and pause, beside relays that know nothing of it.

use std::time::Duration;

use postrider_core::{Act, Chunk, Control, Filter, Leaves, Receipt, Scope, Settled, Status, Then, Verb};

use super::bench::Bench;
use super::words::{dead, decided, event, pairs, parks_as, refused, to, waiting};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_redriven_row_comes_due_with_a_new_version(bench: Bench) {
    let (relay, _) = bench
        .parked(&[(event("a", "k"), refused("d", Duration::ZERO))])
        .await;
    let seen = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&seen, Then::Again(dead(Some("d")))).await,
        Settled::Done
    );
    assert!(relay.due().await.is_empty());
    assert_eq!(act(&bench, Verb::Redrive, Filter::default()).await.touched, 1);
    let due = relay.due().await.remove(0);
    assert!(due.redriven && due.version > seen.version);
    // A relay that read the row before the operator acted decides nothing about it.
    assert_eq!(
        relay.settle_parked(&seen, Then::Again(dead(Some("d")))).await,
        Settled::Gone
    );
    let again = Then::Again(refused("d", Duration::ZERO));
    assert_eq!(relay.settle_parked(&due, again).await, Settled::Done);
    let due = relay.due().await.remove(0);
    assert!(
        due.redriven,
        "one failure does not take back what the person decided"
    );
    let dies = Then::Again(dead(Some("d")));
    assert_eq!(relay.settle_parked(&due, dies).await, Settled::Done);
    let other = Filter {
        event_id: vec!["a".into()],
        ..Filter::default()
    };
    let moved = act(&bench, Verb::Redrive, other).await;
    assert_eq!(moved.touched, 1, "dead again, it needs a person again");
}

pub(super) async fn a_redriven_row_waits_behind_its_head(bench: Bench) {
    let parks = [
        (event("head", "k"), refused("d", HOUR)),
        (event("dead", "k"), dead(Some("d"))),
    ];
    let (relay, _) = bench.parked(&parks).await;
    let only_dead = Filter {
        status: vec![Status::DeadLetter],
        ..Filter::default()
    };
    assert_eq!(act(&bench, Verb::Redrive, only_dead).await.touched, 1);
    assert!(relay.due().await.is_empty(), "a redrive passes nobody of its key");
}

pub(super) async fn a_row_that_only_waits_is_not_redriven(bench: Bench) {
    let parks = [
        (event("head", "k"), dead(Some("d"))),
        (event("waits", "k"), waiting("d")),
    ];
    bench.parked(&parks).await;
    let chunk = act(&bench, Verb::Redrive, Filter::default()).await;
    assert_eq!(chunk.touched, 1);
    let refused: Vec<_> = chunk
        .refused
        .iter()
        .map(|(id, status)| (id.as_str(), *status))
        .collect();
    assert_eq!(refused, [("waits", Status::Waiting)]);
}

pub(super) async fn a_discarded_row_never_comes_back(bench: Bench) {
    let parks = [
        (event("a", "k"), refused("d", Duration::ZERO)),
        (event("b", "k"), waiting("d")),
    ];
    let (relay, rows) = bench.parked(&parks).await;
    let seen = relay.due().await.remove(0);
    let only_a = Filter {
        event_id: vec!["a".into()],
        ..Filter::default()
    };
    assert_eq!(
        act(&bench, Verb::Discard("wrong".into()), only_a).await.touched,
        1
    );
    assert_eq!(relay.due_names().await, pairs(&[("b", "d")]), "its key goes on");
    // The relay had it in flight: whatever it says comes too late.
    for then in [
        Then::Again(waiting("d")),
        Then::Sent(Receipt::default()),
        Then::Split(vec![waiting("e")]),
    ] {
        assert_eq!(relay.settle_parked(&seen, then).await, Settled::Gone);
    }
    let copy = relay.settle_one(parks_as(&rows[0], vec![waiting("d")])).await;
    assert_eq!(copy, Settled::Gone);
    let shown = bench.console().show("a".into()).await.expect("shown").remove(0);
    assert_eq!(shown.status(), Status::Discarded);
    assert_eq!(shown.routes[0].error.as_deref(), Some("wrong"), "with its reason");
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!((stats.discarded, stats.published), (1, 0));
    assert_eq!(relay.due_names().await, pairs(&[("b", "d")]));
}

/// Dead for one destination, published to another: who names the other asks about the other.
pub(super) async fn a_verb_for_a_destination_is_refused_by_its_state(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let leaves = Leaves::Decided {
        sent: vec![(to("sent"), Receipt::default())],
        parked: vec![dead(Some("dead"))],
    };
    assert_eq!(relay.settle_one(decided(&rows[0], leaves)).await, Settled::Done);
    let only = |name: &str| Filter {
        event_id: vec!["a".into()],
        destination: Some(to(name)),
        ..Filter::default()
    };
    for verb in [Verb::Redrive, Verb::Discard("wrong".into())] {
        let chunk = act(&bench, verb.clone(), only("sent")).await;
        assert_eq!(chunk.touched, 0);
        assert_eq!(chunk.refused, [("a".into(), Status::Published)]);
        assert_eq!(act(&bench, verb, only("other")).await, Chunk::default());
    }
    assert_eq!(act(&bench, Verb::Redrive, only("dead")).await.touched, 1);
}

pub(super) async fn a_dry_run_only_counts(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    for verb in [Verb::Redrive, Verb::Discard("no".into())] {
        let dry = Act {
            dry_run: true,
            ..step(verb, Filter::default())
        };
        assert_eq!(bench.console().act(dry).await.expect("counted").touched, 1);
    }
    assert!(relay.due().await.is_empty());
    assert_eq!(bench.console().stats().await.expect("stats").dead, 1);
}

pub(super) async fn a_bulk_verb_goes_on_where_it_stopped(bench: Bench) {
    let parks: Vec<_> = (0..7)
        .map(|n| (event(&format!("e{n}"), &format!("k{n}")), dead(Some("d"))))
        .collect();
    let (relay, _) = bench.parked(&parks).await;
    let (mut touched, mut from) = (0, None);
    for _ in 0..=parks.len() {
        let next = Act {
            limit: 3,
            from,
            ..step(Verb::Redrive, Filter::default())
        };
        let chunk = bench.console().act(next).await.expect("a step");
        assert!(chunk.touched <= 3);
        touched += chunk.touched;
        from = chunk.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(touched, 7);
    assert_eq!(relay.due().await.len(), 7);
}

pub(super) async fn a_pause_reaches_every_relay(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let console = bench.console();
    console
        .control(Control::Pause(Scope::Destination(to("d"))), "-".to_owned())
        .await
        .expect("paused");
    console
        .control(Control::Pause(Scope::Outbox), "-".to_owned())
        .await
        .expect("paused");
    let controls = relay.say(relay.heartbeat()).await.controls;
    assert!(controls.paused);
    assert_eq!(controls.paused_destinations, [to("d")]);
    let mut late = bench.relay("two").await;
    let beat = late.heartbeat();
    assert_eq!(
        late.say(beat).await.controls,
        controls,
        "it is kept in the database"
    );
    console
        .control(Control::Resume(Scope::Destination(to("d"))), "-".to_owned())
        .await
        .expect("resumed");
    console
        .control(Control::Resume(Scope::Outbox), "-".to_owned())
        .await
        .expect("resumed");
    assert_eq!(relay.say(relay.heartbeat()).await.controls, Default::default());
}

fn step(verb: Verb, filter: Filter) -> Act {
    Act {
        verb,
        filter,
        dry_run: false,
        actor: "suite".into(),
        limit: 100,
        from: None,
    }
}

async fn act(bench: &Bench, verb: Verb, filter: Filter) -> Chunk {
    bench.console().act(step(verb, filter)).await.expect("an act")
}
