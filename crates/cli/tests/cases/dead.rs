//! Dead events: listed, shown, sent again, thrown away.

use crate::support::{ORDERS_ONLY, Place};

#[test]
fn they_are_listed_and_shown() {
    let place = Place::busy();
    let listed = place.run(&["dead", "list", "--json"]).expect(0).json();
    assert_eq!(listed["event_id"], "dead-1");
    assert_eq!(listed["destinations"][0]["error_kind"], "no_route");
    place
        .run(&["dead", "list", "--kind", "rejected"])
        .expect(0)
        .says("no dead events");
    place.run(&["dead", "list", "--group"]).expect(0).says("no_route");
    place
        .run(&["dead", "show", "dead-1"])
        .expect(0)
        .says("DEAD_LETTER")
        .says("what to do");
    place
        .run(&["dead", "show", "order-1"])
        .expect(1)
        .complains("no dead event");
}

#[test]
fn redrive_routes_anew() {
    let place = Place::busy();
    let dry = place
        .run(&["dead", "redrive", "--all", "--dry-run", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (dry["touched"].as_u64(), dry["dry_run"].as_bool()),
        (Some(1), Some(true))
    );
    place
        .run(&["dead", "redrive", "--all"])
        .expect(2)
        .complains("redrive 1 event?")
        .complains("--yes");
    place.write(
        "postrider.toml",
        &ORDERS_ONLY.replace("when = { aggregate_type = \"ORDER\" }", ""),
    );
    place
        .run(&["dead", "redrive", "dead-1"])
        .expect(0)
        .says("1 event redriven");
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(place.read("events.jsonl").contains("dead-1"));
    place.run(&["dead", "redrive", "dead-1"]).expect(1);
}

#[test]
fn discard_keeps_the_reason() {
    let place = Place::busy();
    place
        .run(&["dead", "discard", "dead-1"])
        .expect(2)
        .complains("--reason");
    place
        .run(&["dead", "discard", "--all", "--reason", "test data", "--yes"])
        .expect(0)
        .says("1 event discarded");
    place.run(&["dead", "list"]).expect(0).says("no dead events");
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(!place.read("events.jsonl").contains("dead-1"));
}

#[test]
fn a_dead_event_holds_back_its_own_key_and_no_other() {
    let place = Place::busy();
    place.send("behind", "TICKET/1", "{}").expect(0);
    place.send("beside", "ORDER/2", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let arrived = place.read("events.jsonl");
    assert!(
        arrived.contains("beside") && !arrived.contains("behind"),
        "{arrived}"
    );
}
