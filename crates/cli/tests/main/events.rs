//! Events in any state, listed.

use crate::support::{ORDERS_ONLY, Place};

fn ids(place: &Place, args: &[&str]) -> Vec<String> {
    let listed = place.run(&[&["events", "--json"][..], args].concat()).expect(0);
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["event_id"].as_str().unwrap().to_owned()
    };
    listed.out.lines().map(id).collect()
}

#[test]
fn they_are_listed_newest_first_and_filtered() {
    let place = Place::busy();
    place.send("new-1", "ORDER/3", "{}").expect(0);
    assert_eq!(ids(&place, &[]), ["new-1", "later-1", "dead-1", "order-1"]);
    assert_eq!(
        ids(&place, &["--oldest-first"]),
        ["order-1", "dead-1", "later-1", "new-1"]
    );
    assert_eq!(ids(&place, &["-n", "2"]), ["new-1", "later-1"]);
    assert_eq!(
        ids(&place, &["--status", "dead", "--status", "pending"]),
        ["new-1", "dead-1"]
    );
    assert_eq!(ids(&place, &["--type", "Reminder"]), ["later-1"]);
    assert_eq!(ids(&place, &["--key", "ORDER/1"]), ["order-1"]);
    assert_eq!(ids(&place, &["--kind", "no_route"]), ["dead-1"]);
    assert_eq!(ids(&place, &["--text", "LATER"]), ["later-1"]);
    assert!(ids(&place, &["--older-than", "1h"]).is_empty());
    assert_eq!(
        ids(&place, &["--since", "1h", "--destination", "events"]).len(),
        2
    );
    place
        .run(&["events", "-n", "1"])
        .expect(0)
        .says("PENDING")
        .says("… and more: raise --limit (1)");
    place
        .run(&["events", "--status", "lost"])
        .expect(2)
        .complains("must be pending, retrying");
    let empty = Place::ready(ORDERS_ONLY);
    empty.run(&["events"]).expect(0).says("no events");
}
