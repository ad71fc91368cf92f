//! Pauses and limits: kept in the database, seen by everybody.

use crate::support::{ORDERS_ONLY, Place};

#[test]
fn a_paused_destination_sends_nothing_until_it_is_resumed() {
    let place = Place::ready(ORDERS_ONLY);
    let pause = ["pause", "--destination", "events"];
    place
        .run_with(&pause, &[("USER", "ann")])
        .expect(0)
        .says("the destination events is paused, and relays obey within 4s; ")
        .says("`postrider resume --destination events` lets it go on");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (&status["controls"][0]["name"], &status["controls"][0]["actor"]),
        (&"events".into(), &"cli:ann".into())
    );
    place
        .run(&["status"])
        .expect(0)
        .says("main: the destination events is paused by cli:ann since");
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place
        .run(&["show", "order-1"])
        .expect(0)
        .says("the destination events is paused by cli:ann");
    let bounded = "timeout --preserve-status --signal=INT 2 postrider run --until-empty";
    place
        .shell(bounded)
        .complains("paused by a person: what is meant for it is held");
    let checked = place.run(&["status", "--check", "--json"]).expect(0).json();
    assert_eq!(
        checked["problems"],
        serde_json::json!([]),
        "a pause is no problem"
    );
    assert!(!place.path("events.jsonl").exists() || place.read("events.jsonl").is_empty());
    place
        .run(&["resume", "--destination", "events"])
        .expect(0)
        .says("goes on");
    place
        .run(&["resume", "--destination", "events"])
        .expect(1)
        .complains("is not paused");
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(place.read("events.jsonl").contains("order-1"));
    assert_eq!(
        place.run(&["status", "--json"]).expect(0).json()["controls"],
        serde_json::json!([])
    );
    place
        .run(&["pause", "--destination", "event"])
        .expect(2)
        .complains("did you mean `events`?");
}

#[test]
fn a_paused_key_holds_back_its_own_events() {
    let place = Place::ready(ORDERS_ONLY);
    place.run(&["pause", "--key", "ORDER/1"]).expect(0);
    place.send("held-1", "ORDER/1", "{}").expect(0);
    place.send("free-1", "ORDER/2", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let arrived = place.read("events.jsonl");
    assert!(
        arrived.contains("free-1") && !arrived.contains("held-1"),
        "{arrived}"
    );
    place.run(&["show", "held-1"]).expect(0).says("HELD");
    place
        .run(&["show", "held-1"])
        .expect(0)
        .says("the key ORDER/1 is paused by");
    let free = place.run(&["show", "free-1", "--json"]).expect(0).json();
    assert!(free[0].get("paused").is_none(), "{free}");
    place.run(&["status"]).expect(0).says("the key ORDER/1 is paused");
    place.run(&["resume", "--key", "ORDER/1"]).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(place.read("events.jsonl").contains("held-1"));
}

/// Whoever sends an event again is told what keeps it, and by what it goes on.
#[test]
fn what_is_redriven_into_a_pause_says_so() {
    let place = Place::busy();
    place.mend();
    let redrive = ["dead", "redrive", "dead-1"];
    place.run(&["pause", "--key", "TICKET/2"]).expect(0);
    let dry = place.run(&[&redrive[..], &["--dry-run"]].concat()).expect(0);
    assert!(!dry.out.contains("paused"), "of another key: {}", dry.out);
    place.run(&["pause", "--key", "TICKET/1"]).expect(0);
    let dry = place.run(&[&redrive[..], &["--dry-run"]].concat()).expect(0);
    drop(dry.says("dead-1 would stay where it is: the key TICKET/1 is paused"));
    let ran = place.run(&redrive).expect(0).says("1 delivery redriven");
    drop(ran.says(
        "dead-1 stays where it is: the key TICKET/1 is paused, and `postrider resume --key TICKET/1` lets it go on",
    ));
    place.run(&["pause", "--destination", "events"]).expect(0);
    let json = place.run(&[&redrive[..], &["--json"]].concat()).expect(0).json();
    let paused = json["paused"].as_array().unwrap();
    let mut names: Vec<_> = paused.iter().map(|one| one["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["TICKET/1", "events"], "{json}");
}

/// What the refusal says would work does work.
#[test]
fn a_queued_event_is_discarded_once_its_key_is_paused() {
    let place = Place::ready(ORDERS_ONLY);
    place.send("queued-1", "ORDER/1", "{}").expect(0);
    let discard = ["dead", "discard", "queued-1", "--reason", "a slip", "--yes"];
    place
        .run(&discard)
        .expect(1)
        .says("it is PENDING: it is queued, and no relay is running that would hold it for you")
        .says("`postrider pause --key`");
    place.run(&["pause", "--key", "ORDER/1"]).expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    place.run(&discard).expect(0).says("1 delivery discarded");
    assert!(!place.read("events.jsonl").contains("queued-1"));
}

#[test]
fn limits_add_up_until_they_are_taken_back() {
    let place = Place::ready(ORDERS_ONLY);
    place
        .run(&["limit", "events", "--rate", "100"])
        .expect(0)
        .says("gets 100 events/s for each relay");
    let both = place
        .run(&["limit", "events", "--in-flight", "10", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&both["max_rate"], &both["max_in_flight"]),
        (&100.into(), &10.into())
    );
    place.run(&["status"]).expect(0).says(
        "the destination events is limited to 100 events/s and 10 events in flight for each relay by cli:",
    );
    let reset = place
        .run(&["limit", "events", "--reset", "--json"])
        .expect(0)
        .json();
    assert_eq!(reset["done"], "unlimited", "{reset}");
    place
        .run(&["limit", "events", "--reset"])
        .expect(0)
        .says("has its configured limits");
    assert!(!place.run(&["status"]).expect(0).out.contains("limited"));
    place
        .run(&["limit", "events"])
        .expect(2)
        .complains("no limit is given")
        .complains("--rate, --in-flight or both, or --reset");
    for change in [&["--rate", "1"][..], &["--reset"]] {
        place
            .run(&[&["limit", "event"][..], change].concat())
            .expect(2)
            .complains("there is no destination named \"event\"");
    }
}

/// A pause that stands in an outbox which never sends there only frightens whoever reads its status.
#[test]
fn a_destination_is_paused_where_it_has_a_route() {
    let config = r#"
[outbox.main]
url = "sqlite:postrider.db"
[outbox.other]
url = "sqlite:other.db"
[broker.events]
url = "file:events.jsonl"
[broker.rest]
url = "file:rest.jsonl"
[[route]]
when = { outbox = "main" }
to = [{ broker = "events" }]
[[route]]
to = [{ broker = "rest" }]
"#;
    let place = Place::ready(config);
    let paused = place.run(&["pause", "--destination", "events"]).expect(0);
    assert_eq!(paused.out.lines().count(), 1, "{}", paused.out);
    assert!(paused.out.starts_with("main:"), "{}", paused.out);
    let paused = paused.says("`postrider resume --destination events --outbox main`");
    drop(paused);
    let limited = place.run(&["limit", "events", "--rate", "5"]).expect(0);
    assert_eq!(limited.out.lines().count(), 1, "{}", limited.out);
    let both = place.run(&["pause", "--destination", "rest"]).expect(0);
    assert_eq!(both.out.lines().count(), 2, "{}", both.out);
    place.run(&["resume", "--destination", "events"]).expect(0);
}
