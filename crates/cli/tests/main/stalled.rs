//! Events that are refused and still tried: listed with the dead, and looked after like them.

use crate::support::{ORDERS_ONLY, Place};

/// One dead event and one that has been refused for two hours, both for want of a route; the second is followed by one
/// of its key.
fn refused() -> Place {
    let place = Place::ready(ORDERS_ONLY);
    for (id, aggregate) in [
        ("dead-1", "TICKET/1"),
        ("slow-1", "TICKET/2"),
        ("next-1", "TICKET/2"),
    ] {
        place.send(id, aggregate, "{}").expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let hours = 3_600_000_000_i64 * 2;
    let refuse = "UPDATE outbox_parked SET dead = 0, attempts = 0, failures = 3, first_failed_at = first_failed_at - ?1,
                  next_attempt_at = next_attempt_at + ?1 WHERE event_id = 'slow-1'";
    assert_eq!(database.execute(refuse, [hours]).unwrap(), 1);
    place
}

#[test]
fn what_the_listing_shows_can_be_shown() {
    let place = refused();
    place
        .run(&["dead", "list"])
        .expect(0)
        .says("slow-1  stalled: no_route");
    place.run(&["dead", "show", "slow-1"]).expect(0).says("RETRYING");
    place
        .run(&["dead", "show", "nobody"])
        .expect(1)
        .complains("no dead or refused event");
}

/// What is refused is in the group that an operator looks at, so the verb with that group means it too.
#[test]
fn a_redrive_of_a_group_takes_what_is_refused_too() {
    let place = refused();
    let groups = place.run(&["dead", "list", "--group", "--json"]).expect(0);
    let groups: Vec<serde_json::Value> = groups
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for group in &groups {
        let name = group["group"].as_str().unwrap();
        let dry = ["dead", "redrive", "--group", name, "--dry-run", "--json"];
        let would = place.run(&dry).expect(0).json();
        assert_eq!(would["touched"], group["count"], "{group}");
    }
    place.mend();
    let redriven = ["dead", "redrive", "--kind", "no_route", "--yes"];
    place.run(&redriven).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    let arrived = place.read("events.jsonl");
    assert!(
        ["dead-1", "slow-1", "next-1"]
            .iter()
            .all(|id| arrived.contains(id)),
        "{arrived}"
    );
}

/// What a filter leaves out is counted, with the reason.
#[test]
fn what_a_filter_leaves_out_is_said() {
    let place = Place::busy();
    let dry = ["dead", "redrive", "--type", "Reminder", "--dry-run"];
    place
        .run(&dry)
        .expect(0)
        .says("nothing to redrive")
        .says("left out: 1 delivery in state SCHEDULED: it leaves at its time");
    let json = place.run(&[&dry[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(json["left_out"], serde_json::json!({ "SCHEDULED": 1 }));
    let place = refused();
    let discard = ["dead", "discard", "--all", "--reason", "test", "--dry-run"];
    place
        .run(&discard)
        .expect(0)
        .says("in state RETRYING: redriven, or refused and tried again by itself")
        .says("this command takes it once it is dead");
}

/// The name of a group is that of one line of the listing, and the line has one outbox.
#[test]
fn a_group_that_two_outboxes_have_needs_a_name() {
    let two = format!("[outbox.other]\nurl = \"sqlite:other.db\"\n{ORDERS_ONLY}");
    let place = Place::ready(&two);
    for outbox in ["main", "other"] {
        let send = [
            "send",
            "--type",
            "T",
            "--aggregate",
            "TICKET/1",
            "--payload",
            "{}",
        ];
        place.run(&[&send[..], &["--outbox", outbox]].concat()).expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let listed = ["dead", "list", "--group", "--json"];
    let listed = place.run(&listed).expect(0).out;
    let group: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let name = group["group"].as_str().unwrap();
    let discard = ["dead", "discard", "--group", name, "--reason", "x", "--dry-run"];
    place
        .run(&discard)
        .expect(2)
        .complains("several outboxes have that group: main (1), other (1)")
        .complains("--outbox");
    let here = [&discard[..], &["--outbox", "main"]].concat();
    place.run(&here).expect(0).says("would be discarded");
}
