//! Events whose time has not come.

use crate::support::Place;

#[test]
fn a_scheduled_event_is_listed_and_moved() {
    let place = Place::busy();
    place
        .run(&["schedule", "list"])
        .expect(0)
        .says("later-1")
        .says("Reminder");
    place
        .run(&["schedule", "move", "later-1", "--in", "2h"])
        .expect(0)
        .says("1 delivery moved");
    place
        .run(&["show", "later-1"])
        .expect(0)
        .says("SCHEDULED")
        .says("moved");
    place
        .run(&["schedule", "move", "later-1", "--in", "0s"])
        .expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    assert!(place.read("events.jsonl").contains("later-1"));
    place
        .run(&["schedule", "list"])
        .expect(0)
        .says("nothing is scheduled");
    place
        .run(&["schedule", "move", "later-1", "--in", "1h"])
        .expect(1)
        .says("not later-1: it is PUBLISHED: it was sent");
}

/// They are sent in another order than that in which they leave.
#[test]
fn the_next_is_listed_first() {
    let place = Place::busy();
    for (id, delay) in [
        ("last", "5h"),
        ("third", "3h"),
        ("first", "10m"),
        ("second", "2h"),
    ] {
        let event = [
            "send",
            "--type",
            "Nap",
            "--aggregate",
            "ORDER/1",
            "--id",
            id,
            "--delay",
            delay,
        ];
        place.run(&event).expect(0);
    }
    // Nobody has parked it yet, and it has its time all the same.
    place
        .run(&["show", "second"])
        .expect(0)
        .says("PENDING")
        .says("available");
    place.run(&["run", "--until-empty"]).expect(1);
    let list = ["schedule", "list", "--type", "Nap", "-n", "3"];
    let ran = place.run(&[&list[..], &["--json"]].concat()).expect(0);
    let ids: Vec<String> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event_id"].to_string())
        .collect();
    assert_eq!(ids, ["\"first\"", "\"second\"", "\"third\""]);
    let ran = place
        .run(&list)
        .expect(0)
        .says("… and later ones: raise --limit (3)");
    assert!(!ran.out.contains("last"), "{}", ran.out);
}

/// Nothing is paused and every destination answers: whoever is refused must not look for what is not there.
#[test]
fn an_event_whose_time_has_come_may_wait_for_a_relay() {
    let place = Place::busy();
    let shift = |time: &str| place.run(&["schedule", "move", "later-1", "--in", time]);
    shift("0s").expect(0);
    let cancel = ["schedule", "cancel", "later-1", "--reason", "a slip"];
    for ran in [shift("1h"), place.run(&cancel)] {
        let ran = ran
            .expect(1)
            .says("not later-1: it is HELD: its time has come, and a pause");
        drop(ran.says("or no relay runs, or none has come to it yet"));
    }
    let shown = place.run(&["show", "later-1"]).expect(0);
    drop(shown.says("no relay runs or has come to it yet"));
    let discard = ["dead", "discard", "later-1", "--reason", "a slip"];
    let ran = place.run(&discard).expect(1);
    drop(ran.says("goes out when a relay comes to it"));
}

#[test]
fn a_scheduled_event_is_cancelled_and_others_say_why_not() {
    let place = Place::busy();
    let cancel = |id: &str| place.run(&["schedule", "cancel", id, "--reason", "order is gone"]);
    cancel("dead-1")
        .expect(1)
        .says("not dead-1: it is DEAD_LETTER: its time has come and it failed");
    cancel("order-1").expect(1).says("it is PUBLISHED");
    cancel("nobody").expect(1).says("not nobody: no such event");
    cancel("later-1").expect(0).says("1 delivery cancelled");
    place
        .run(&["show", "later-1"])
        .expect(0)
        .says("DISCARDED")
        .says("order is gone");
    place
        .run(&["schedule", "cancel", "later-1", "--reason", " "])
        .expect(2)
        .complains("needs a reason");
    place.run(&["show", "dead-1"]).expect(0).says("DEAD_LETTER");
}
