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
