//! Failures that look alike: narrowed by what a group knows, and never by what it does not.

use crate::support::Place;

/// Events of one type have no route, those of another lack a header that their destination's path needs.
const TWO_KINDS: &str = r#"
[outbox.main]
url = "sqlite:postrider.db"

[broker.events]
url = "file:events.jsonl"

[[route]]
when = { aggregate_type = "ORDER" }
to = [{ broker = "events", path = "{header.tenant}.jsonl" }]
"#;

fn failed() -> Place {
    let place = Place::ready(TWO_KINDS);
    for (id, aggregate) in [("a-1", "TICKET/1"), ("a-2", "TICKET/2"), ("b-1", "ORDER/1")] {
        place.send(id, aggregate, "{}").expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    place
}

/// Whoever narrows the groups takes a name from what is left and redrives or discards by it.
#[test]
fn groups_are_narrowed_by_what_they_know() {
    let place = failed();
    let kinds = |args: &[&str]| {
        let command = [&["dead", "list", "--group", "--json"][..], args].concat();
        let listed = place.run(&command).expect(0).out;
        let kind = |line: &str| {
            let group: serde_json::Value = serde_json::from_str(line).unwrap();
            group["error_kind"].as_str().unwrap().to_owned()
        };
        listed.lines().map(kind).collect::<Vec<_>>()
    };
    let (no_route, no_value) = ("no_route", "template_value_missing");
    assert_eq!(kinds(&[]), [no_route, no_value], "the most frequent first");
    assert_eq!(kinds(&["-n", "1"]), [no_route]);
    assert_eq!(kinds(&["--kind", no_value]), [no_value]);
    assert_eq!(
        kinds(&["--destination", "events/{header.tenant}.jsonl"]),
        [no_value]
    );
    assert_eq!(kinds(&["--text", "TENANT"]), [no_value]);
    assert_eq!(kinds(&["--kind", no_route, "--text", "tenant"]), [""; 0]);
    let limited = place.run(&["dead", "list", "--group", "-n", "1"]).expect(0);
    drop(limited.says("… and more: raise --limit (1)"));
    let none = place.run(&["dead", "list", "--group", "--kind", "rejected"]);
    none.expect(0).says("no failures");
}

/// An answer that passes over an option looks like the answer to it.
#[test]
fn groups_refuse_what_is_about_single_events() {
    let place = failed();
    for (option, value) in [
        ("--type", "OrderPlaced"),
        ("--key", "TICKET/1"),
        ("--since", "1h"),
        ("--older-than", "1h"),
    ] {
        let ran = place.run(&["dead", "list", "--group", option, value]).expect(2);
        let ran = ran.complains(&format!("{option} is about single events"));
        drop(ran.complains(&format!("`postrider dead list {option} …` without --group")));
        place.run(&["dead", "list", option, value]).expect(0);
    }
    let kind = ["dead", "list", "--group", "--kind", "nope"];
    place.run(&kind).expect(2).complains("no kind of error named");
}
