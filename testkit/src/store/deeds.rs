//! What people did, in the same words in every store: whoever reads audits has to know one language.

use std::time::Duration;

use postrider_core::{
    Act, Control, Edit, Filter, JobKind, JobVerb, Kept, Limits, Payload, Purge, Replay, Status, Verb,
};
use serde_json::{Value, json};

use super::bench::Bench;
use super::job::{ANN, begun, to_the_end};
use super::words::{dead, event, to};
use crate::wait::eventually;

pub(super) async fn the_same_deeds_are_written_down_in_the_same_words(bench: Bench) {
    let parks = [
        (event("a", "k"), dead(Some("d"))),
        (event("b", "l"), dead(Some("d"))),
    ];
    bench.parked(&parks).await;
    let console = bench.console();
    let only_dead = Filter {
        status: vec![Status::DeadLetter],
        ..Filter::default()
    };
    let first = parks[0].0.payload.hash();
    let edit = Edit {
        event_id: "a".into(),
        destination: Some(to("d")),
        payload: Payload::Text("{}".to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    };
    let changed = edit.payload.hash();
    assert_eq!(console.edit(edit).await.expect("edited").touched, 1);
    let old = || Verb::Discard("old".to_owned());
    let discard = begun(&bench, JobKind::Act(old()), only_dead.clone()).await;
    to_the_end(&console, &discard.id, 10).await;
    let named = Act {
        actor: ANN.to_owned(),
        ..crate::by_hand::act(old(), "a")
    };
    assert_eq!(console.act(named).await.expect("an act").touched, 1);
    let limits = Limits {
        max_rate: Some(5),
        ..Limits::default()
    };
    for control in [Control::Limit(to("d"), limits), Control::Unlimit(to("d"))] {
        let limit = console.control(control, ANN.to_owned());
        limit.await.expect("limited");
    }
    let replay = begun(&bench, JobKind::Replay(Replay::default()), Filter::default()).await;
    for verb in [JobVerb::Pace(7), JobVerb::Cancel] {
        let steered = console.steer(replay.id.clone(), verb, ANN.to_owned()).await;
        steered.expect("steered");
    }
    purged(&bench).await;
    let none = Filter::default().to_json();
    let wanted = [
        (
            "purge",
            2,
            json!({ "what": "history", "older_than_seconds": 0, "exact": true }),
        ),
        ("cancel_job", 0, json!({})),
        ("pace_job", 0, json!({ "rate": 7 })),
        ("begin_job", 0, {
            let kind = JobKind::Replay(Replay::default());
            with(kind.spec(&Filter::default()), "kind", "replay")
        }),
        (
            "limit",
            1,
            json!({ "destination": "d", "max_in_flight": null, "max_rate": null }),
        ),
        ("limit", 1, json!({ "destination": "d", "max_rate": 5 })),
        ("discard", 1, with(filter_of("a"), "reason", "old")),
        (
            "discard",
            1,
            json!({ "filter": only_dead.to_json(), "reason": "old" }),
        ),
        (
            "begin_job",
            0,
            json!({ "kind": "discard", "filter": only_dead.to_json(), "reason": "old" }),
        ),
        (
            "edit",
            1,
            json!({ "destination": "d", "before": [first], "after": changed }),
        ),
    ];
    assert_ne!(none, only_dead.to_json());
    let audit = console.audit(100, None).await.expect("the audit").entries;
    let told: Vec<(&str, u64, Value)> = audit
        .iter()
        .map(|entry| (entry.action.as_str(), entry.touched, parsed(&entry.detail)))
        .collect();
    assert_eq!(told, wanted);
    assert!(audit.iter().all(|entry| entry.actor == ANN));
    let jobs: Vec<_> = audit.iter().filter_map(|entry| entry.job.clone()).collect();
    let (replay, discard) = (replay.id, discard.id);
    assert_eq!(
        jobs,
        [replay.clone(), replay.clone(), replay, discard.clone(), discard]
    );
}

/// Both that were discarded, once they are older than nothing. What is not there yet is not worth a line.
async fn purged(bench: &Bench) {
    let by_hand = Purge {
        actor: Some(ANN.to_owned()),
        ..Purge::of(Kept::History, Duration::ZERO, 10)
    };
    let dry = Purge {
        dry_run: true,
        ..by_hand.clone()
    };
    eventually("both are old", async || {
        let counted = bench.upkeep().purge(dry.clone()).await.expect("counted");
        (counted.rows == 2).then_some(())
    })
    .await;
    assert_eq!(bench.upkeep().purge(by_hand).await.expect("purged").rows, 2);
}

fn filter_of(id: &str) -> String {
    let filter = crate::by_hand::act(Verb::Redrive, id).filter;
    filter.to_json().to_string()
}

fn with(object: String, name: &str, value: &str) -> Value {
    let mut object = parsed(&object);
    object[name] = value.into();
    object
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
