//! Events in any state, listed.

use std::time::Duration;

use postrider_testkit::wait::blocking;

use crate::support::{ORDERS_ONLY, Place, Running};

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

/// Of an event with several destinations the line shows what the filter found, not something else of the same event.
#[test]
fn a_line_shows_the_delivery_that_matched() {
    let place = Place::ready(
        r#"
[outbox.main]
url = "sqlite:postrider.db"
[broker.one]
url = "file:one.jsonl"
[broker.two]
url = "file:two.jsonl"
[[route]]
to = [{ broker = "one" }, { broker = "two" }]
[admin]
listen = "off"
"#,
    );
    place.run(&["pause", "--destination", "one"]).expect(0);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    // A relay that runs keeps what one destination is owed in mind, and writes it down when it ends.
    let relay = Running::start(&place, &["run"]);
    blocking(Duration::from_secs(30), "it is published at two", || {
        let arrived = std::fs::read_to_string(place.path("two.jsonl")).unwrap_or_default();
        match arrived.contains("order-1") {
            true => Ok(()),
            false => Err(arrived),
        }
    });
    relay.stop().expect(0);
    let row = |args: &[&str]| {
        let listed = place.run(&[&["events"][..], args].concat()).expect(0).out;
        let words = listed.lines().nth(1).unwrap_or_default().split_whitespace();
        let words: Vec<String> = words.map(str::to_owned).collect();
        (words[1].clone(), words[4].clone())
    };
    let is = |status: &str, name: &str| (status.to_owned(), name.to_owned());
    assert_eq!(row(&[]), is("HELD", "one"), "the worst of all");
    assert_eq!(row(&["--status", "published"]), is("PUBLISHED", "two"));
    assert_eq!(row(&["--destination", "two"]), is("PUBLISHED", "two"));
    assert_eq!(row(&["--destination", "one"]), is("HELD", "one"));
    let found = ["events", "--destination", "two", "--json"];
    let found = place.run(&found).expect(0).json();
    assert_eq!(found["matched"], serde_json::json!(["two"]));
    place.run(&["resume", "--destination", "one"]).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    place
        .run(&["events"])
        .expect(0)
        .says("PUBLISHED")
        .says("one, two");
}

/// No line must not look like no event.
#[test]
fn a_listing_of_nothing_is_refused() {
    let place = Place::busy();
    for list in [&["events"][..], &["dead", "list"]] {
        place.run(&[list, &["-n", "0"]].concat()).expect(2).complains("0");
    }
}
