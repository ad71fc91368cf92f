//! Copies of a replay that fail: nothing about them may look as if they had arrived.

use crate::support::{ORDERS_ONLY, Place, Running};

/// With a destination that only an event with a header can be sent to.
const TEMPLATED: &str = "\n[[route]]\nwhen = { event_type = \"Never\" }\n\
                         to = [{ broker = \"events\", name = \"tmpl\", path = \"{header.h}.jsonl\" }]\n";

fn sent(events: &[(&str, &str)]) -> Place {
    let place = Place::ready(&format!("{ORDERS_ONLY}{TEMPLATED}"));
    for (id, key) in events {
        place.send(id, key, "{}").expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(0);
    place
}

#[test]
fn a_replay_whose_copies_are_dead_says_so() {
    let place = sent(&[("k1", "ORDER/1")]);
    let relay = Running::start(&place, &["run"]);
    let replay = ["replay", "--id", "k1", "--to", "tmpl", "--yes", "--json"];
    let replayed = place.run(&replay).expect(1).json();
    assert_eq!(
        (&replayed["touched"], &replayed["unsent"], &replayed["dead"]),
        (&1.into(), &0.into(), &1.into()),
        "{replayed}"
    );
    let said = place.run(&replay[..6]).expect(1);
    let said = said.says("done, 1 delivery, 1 of them dead");
    relay.stop().expect(0);
    let id = replayed["job"].as_str().unwrap();
    let shown = place.run(&["job", "show", id, "--json"]).expect(0).json();
    assert_eq!(shown["dead"], 1, "{shown}");
    let command = said.out.split('`').nth(1).unwrap();
    place.shell(command).expect(0).says("template_value_missing");
    let listed = place.run(&["dead", "list"]).expect(0);
    drop(listed.says("k1 (copy)  dead: template_value_missing"));
}

/// No relay sends what stands behind a dead copy.
#[test]
fn what_waits_behind_a_dead_copy_is_not_promised() {
    let place = sent(&[("k1", "ORDER/1"), ("k2", "ORDER/1"), ("k3", "ORDER/1")]);
    let relay = Running::start(&place, &["run"]);
    let replay = ["replay", "--key", "ORDER/1", "--to", "tmpl", "--yes"];
    let ran = place.run(&replay).expect(1);
    relay.stop().expect(0);
    let ran = ran.says("3 deliveries, 1 of them dead, 2 not sent yet; those behind a dead one");
    assert!(!ran.out.contains("a running relay sends them"), "{}", ran.out);
}
