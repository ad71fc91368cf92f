//! Several outboxes: one list of all, and advice that says which.

use serde_json::Value;

use crate::support::Place;

const TWO: &str = r#"
[outbox.main]
url = "sqlite:postrider.db"
[outbox.shop]
url = "sqlite:shop.db"
[broker.events]
url = "file:events.jsonl"
[[route]]
when = { aggregate_type = "ORDER" }
to = [{ broker = "events" }]
"#;

fn send(place: &Place, outbox: &str, id: &str, aggregate: &str) {
    let what = ["send", "--type", "A", "--payload", "{}", "--aggregate", aggregate];
    let which = ["--outbox", outbox, "--id", id];
    place.run(&[&what[..], &which].concat()).expect(0);
}

/// One field of every line.
fn told(place: &Place, args: &[&str], field: &str) -> Vec<String> {
    let listed = place.run(&[args, &["--json"]].concat()).expect(0).out;
    let field = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        value[field].as_str().unwrap().to_owned()
    };
    listed.lines().map(field).collect()
}

#[test]
fn the_newest_of_all_outboxes_come_first() {
    let place = Place::ready(TWO);
    for (outbox, id) in [("main", "a1"), ("shop", "b1"), ("main", "a2"), ("shop", "b2")] {
        send(&place, outbox, id, "TICKET/1");
    }
    let events = |args: &[&str]| told(&place, &[&["events"], args].concat(), "event_id");
    assert_eq!(events(&[]), ["b2", "a2", "b1", "a1"]);
    assert_eq!(events(&["-n", "3"]), ["b2", "a2", "b1"]);
    assert_eq!(events(&["-n", "3", "--oldest-first"]), ["a1", "b1", "a2"]);
    assert_eq!(events(&["-n", "3", "--outbox", "main"]), ["a2", "a1"]);
    let listed = place.run(&["events", "-n", "2"]).expect(0);
    let listed = listed.says("… and more: raise --limit (2)");
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    let all = place.run(&["events", "-n", "4"]).expect(0).out;
    assert!(!all.contains("and more"), "{all}");
    for outbox in ["main", "shop", "main"] {
        place.run(&["run", "--until-empty"]).expect(1);
        let redrive = ["dead", "redrive", "--all", "--yes", "--outbox", outbox];
        place.run(&redrive).expect(0);
    }
    for command in [["job", "list"].as_slice(), &["audit"]] {
        assert_eq!(told(&place, command, "outbox"), ["main", "shop", "main"]);
        let two = [command, &["-n", "2"]].concat();
        assert_eq!(told(&place, &two, "outbox"), ["main", "shop"]);
    }
}

/// A discard cannot be taken back, and two outboxes may have given the same id to different events.
#[test]
fn an_id_that_several_outboxes_have_needs_a_name() {
    let place = Place::ready(TWO);
    for outbox in ["main", "shop"] {
        send(&place, outbox, "same-1", "TICKET/1");
        let later = ["--outbox", outbox, "--id", "later-1", "--delay", "1h"];
        let what = ["send", "--type", "A", "--payload", "{}", "--aggregate", "ORDER/9"];
        place.run(&[&what[..], &later].concat()).expect(0);
    }
    send(&place, "main", "only-1", "TICKET/2");
    send(&place, "shop", "only-1", "ORDER/2");
    place.run(&["run", "--until-empty"]).expect(1);
    let before = place.run(&["audit", "--json"]).expect(0).out;
    for verb in [
        &["dead", "redrive", "same-1"][..],
        &["dead", "redrive", "only-1", "same-1", "--dry-run"],
        &["dead", "discard", "same-1", "--reason", "a slip"],
        &["dead", "edit", "same-1", "--payload", "{}", "--yes"],
        &["schedule", "move", "later-1", "--in", "2h"],
        &["schedule", "cancel", "later-1", "--reason", "a slip"],
    ] {
        let ran = place.run(verb).expect(2);
        let id = if verb[0] == "dead" { "same-1" } else { "later-1" };
        let ran = ran.complains(&format!("several outboxes have an event \"{id}\": main, shop"));
        drop(ran.complains("say which with --outbox NAME; nothing was changed"));
    }
    let after = place.run(&["audit", "--json"]).expect(0).out;
    assert_eq!(before, after, "nobody did anything");
    for verb in [
        &["schedule", "move", "later-1", "--in", "2h"][..],
        &["schedule", "cancel", "later-1", "--reason", "a slip"],
        &["dead", "discard", "same-1", "--reason", "a slip"],
    ] {
        let named = [verb, &["--outbox", "main"]].concat();
        place.run(&named).expect(0).says("1 delivery");
    }
    // One of them only is left that the verb would touch.
    let ran = place.run(&["dead", "redrive", "same-1"]);
    drop(ran.says("1 delivery redriven"));
    let ran = place.run(&["dead", "discard", "only-1", "--reason", "a slip"]);
    drop(ran.says("1 delivery discarded"));
}

/// Each command that is printed works as it is printed.
#[test]
fn what_was_restored_is_replayed_by_the_command_that_is_printed() {
    let place = Place::ready(TWO);
    send(&place, "main", "order-1", "ORDER/1");
    place.run(&["run", "--until-empty"]).expect(0);
    place.age();
    place.run(&["archive", "write", "--dir", "archive"]).expect(0);
    let restore = ["archive", "restore", "--dir", "archive", "--outbox", "main"];
    place
        .run_with(&restore, &[("POSTRIDER_CRASH_AT", "operator.inside:2")])
        .expect(-1);
    let advised = |text: &str| text.split('`').nth(1).unwrap().to_owned();
    let status = place.run(&["status"]).expect(0).out;
    let go_on = status
        .lines()
        .find(|line| line.contains("archive restore"))
        .unwrap();
    let restored = place.shell(&format!("{} --dir archive", advised(go_on)));
    let restored = restored.expect(0).says("1 row restored");
    let replay = advised(&restored.out);
    assert!(replay.ends_with(" --outbox main"), "{replay}");
    place
        .shell(&format!("{replay} --yes"))
        .expect(0)
        .says("1 delivery");
}
