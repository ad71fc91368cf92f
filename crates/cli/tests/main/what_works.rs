//! A verb that is refused says which state the event is in, and what it says would work does work.

use crate::support::{ORDERS_ONLY, Place, Running};

/// Waits until an event is in a state.
fn until(place: &Place, id: &str, status: &str) {
    postrider_testkit::wait::blocking(std::time::Duration::from_secs(30), status, || {
        let shown = place.run(&["show", id]);
        match shown.out.contains(status) {
            true => Ok(()),
            false => Err(shown.out),
        }
    });
}

/// In a paused outbox nothing is held or parked, so the key is paused first and the outbox resumed then.
#[test]
fn what_is_queued_in_a_paused_outbox_can_be_thrown_away() {
    let place = Place::ready(ORDERS_ONLY);
    place.run(&["pause"]).expect(0);
    place.send("x1", "ORDER/1", "{}").expect(0);
    let later = ["--aggregate", "ORDER/9", "--id", "x2", "--delay", "1h"];
    let later = [&["send", "--type", "Reminder", "--payload", "{}"][..], &later].concat();
    place.run(&later).expect(0);
    let relay = Running::start(&place, &["run"]);
    let discard = ["dead", "discard", "x1", "--reason", "a slip", "--yes"];
    let cancel = ["schedule", "cancel", "x2", "--reason", "a slip"];
    for command in [&discard[..], &cancel] {
        let ran = place.run(command).expect(1).says("an outbox that is paused");
        drop(ran.says("pause its key with `postrider pause --key`, then `postrider resume`"));
    }
    let redrive = place.run(&["dead", "redrive", "x1"]).expect(1);
    drop(redrive.says("`postrider resume` lets it go on"));
    for key in ["ORDER/1", "ORDER/9"] {
        place.run(&["pause", "--key", key]).expect(0);
    }
    place.run(&["resume"]).expect(0);
    until(&place, "x1", "HELD");
    until(&place, "x2", "SCHEDULED");
    let moved = place.run(&["schedule", "move", "x1", "--in", "1h"]).expect(1);
    drop(moved.says("it is HELD: its time has come, and a pause"));
    place.run(&discard).expect(0).says("1 delivery discarded");
    place.run(&cancel).expect(0).says("1 delivery cancelled");
    relay.stop().expect(0);
    assert!(!place.path("events.jsonl").exists() || place.read("events.jsonl").is_empty());
}

#[test]
fn an_event_that_waits_is_not_said_to_be_delivered() {
    let templated = "broker = \"events\", path = \"{header.h}.jsonl\"";
    let place = Place::ready(&ORDERS_ONLY.replace("broker = \"events\"", templated));
    place.send("dead-1", "ORDER/1", "{}").expect(0);
    let follower = ["--aggregate", "ORDER/1", "--id", "behind-1", "--header", "h=x"];
    let follower = [&["send", "--type", "A", "--payload", "{}"][..], &follower].concat();
    place.run(&follower).expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    for verb in [
        &["move", "behind-1", "--in", "1h"][..],
        &["cancel", "behind-1", "--reason", "a slip"],
    ] {
        let ran = place.run(&[&["schedule"], verb].concat()).expect(1);
        let ran =
            ran.says("it is WAITING: its time has come, and it waits for the event before it in its key");
        assert!(!ran.out.contains("being delivered"), "{}", ran.out);
    }
}

/// What became of a copy is not what became of the event.
#[test]
fn a_discarded_copy_does_not_hide_that_the_event_was_sent() {
    let place = Place::busy();
    place.run(&["pause"]).expect(0);
    let replay = ["replay", "--id", "order-1", "--yes"];
    place.run(&replay).expect(0);
    let discard = ["dead", "discard", "order-1", "--reason", "a slip", "--yes"];
    place.run(&discard).expect(0).says("1 delivery discarded");
    let moved = place
        .run(&["schedule", "move", "order-1", "--in", "1h"])
        .expect(1);
    drop(moved.says("not order-1: it is PUBLISHED: it was sent"));
    let redriven = place.run(&["dead", "redrive", "order-1"]).expect(1);
    assert!(!redriven.out.contains("DISCARDED"), "{}", redriven.out);
}

#[test]
fn an_event_of_which_only_copies_are_left_is_restored_from_the_archive() {
    let place = Place::busy();
    for _ in 0..2 {
        place.run(&["replay", "--id", "order-1", "--yes"]).expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let original = "DELETE FROM outbox_sent WHERE event_id = 'order-1' AND replay_id IS NULL";
    assert_eq!(connection.execute(original, []).unwrap(), 1);
    drop(connection);
    let redriven = place.run(&["dead", "redrive", "order-1"]).expect(1);
    assert_eq!(redriven.out.matches("not order-1").count(), 1, "{}", redriven.out);
    drop(
        redriven
            .says("its history was removed")
            .says("`postrider archive restore`"),
    );
    let replayed = place.run(&["replay", "--id", "order-1", "--yes"]).expect(1);
    drop(
        replayed
            .complains("order-1: its history was removed")
            .complains("`postrider archive restore`"),
    );
}

/// A relay that runs may publish nothing.
#[test]
fn a_status_does_not_claim_what_a_pause_prevents() {
    let place = Place::ready(ORDERS_ONLY);
    let relay = Running::start(&place, &["run"]);
    postrider_testkit::wait::blocking(std::time::Duration::from_secs(30), "a relay", || {
        let status = place.run(&["status"]).expect(0).out;
        match status.contains("is running and owns every shard") {
            true => Ok(()),
            false => Err(status),
        }
    });
    place.run(&["pause", "--key", "ORDER/1"]).expect(0);
    let status = place.run(&["status"]).expect(0);
    drop(status.says("owns every shard; what is paused is not published"));
    place.run(&["pause"]).expect(0);
    let status = place.run(&["status"]).expect(0);
    drop(status.says("owns every shard, but the outbox is paused: nothing is published"));
    relay.stop().expect(0);
}

/// One that waits behind a dead letter waits until a person does something.
#[test]
fn what_waits_behind_a_dead_letter_is_not_said_to_go_by_itself() {
    let place = Place::ready(ORDERS_ONLY);
    for (id, aggregate) in [("dead-1", "TICKET/1"), ("behind-1", "ORDER/1")] {
        let which = ["--aggregate", aggregate, "--id", id, "--key", "K"];
        let sent = [&["send", "--type", "A", "--payload", "{}"][..], &which].concat();
        place.run(&sent).expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let discard = ["dead", "discard", "behind-1", "--reason", "a slip"];
    let ran = place.run(&discard).expect(1);
    drop(
        ran.says("not behind-1: it is WAITING and goes out once what is before it has gone; --yes discards"),
    );
    let json = place.run(&[&discard[..], &["--json"]].concat()).expect(1).json();
    let remedy = json["refused"][0]["remedy"].as_str().unwrap();
    assert!(remedy.starts_with("it goes out once what is before it"), "{json}");
}

/// What is to leave later is not held by a pause of its key, but cancelled.
#[test]
fn an_event_whose_time_has_not_come_is_cancelled_once_it_is_scheduled() {
    let place = Place::ready(ORDERS_ONLY);
    let later = ["--aggregate", "ORDER/9", "--id", "later-1", "--delay", "1h"];
    let later = [&["send", "--type", "Reminder", "--payload", "{}"][..], &later].concat();
    place.run(&later).expect(0);
    let discard = ["dead", "discard", "later-1", "--reason", "a slip", "--yes"];
    let ran = place.run(&discard).expect(1).says("it is PENDING");
    drop(ran.says("is SCHEDULED then, and `postrider schedule cancel ID --reason WHY` throws it away"));
    place.run(&["run", "--until-empty"]).expect(0);
    let cancel = ["schedule", "cancel", "later-1", "--reason", "a slip"];
    place.run(&cancel).expect(0).says("1 delivery cancelled");
}

/// A relay that runs does not send what is paused.
#[test]
fn a_replay_to_what_is_paused_names_the_pause() {
    let place = Place::busy();
    let replay = ["replay", "--id", "order-1", "--yes"];
    place.run(&["pause", "--key", "ORDER/1"]).expect(0);
    let ran = place.run(&replay).expect(0);
    assert!(!ran.out.contains("paused"), "copies stand outside: {}", ran.out);
    drop(ran.says("1 of them not sent yet: no relay is running, `postrider run` sends them"));
    place.run(&["pause", "--destination", "events"]).expect(0);
    let relay = Running::start(&place, &["run"]);
    postrider_testkit::wait::blocking(std::time::Duration::from_secs(30), "a relay", || {
        let status = place.run(&["status"]).expect(0).out;
        match status.contains("is running and owns every shard") {
            true => Ok(()),
            false => Err(status),
        }
    });
    let ran = place.run(&replay).expect(0).says("1 of them not sent yet: ");
    drop(ran.says("the destination events is paused, `postrider resume --destination events` lets it go on"));
    relay.stop().expect(0);
    place.run(&["pause"]).expect(0);
    let ran = place.run(&replay).expect(0);
    let ran = ran.says("the outbox is paused, `postrider resume --outbox main` lets it go on");
    drop(ran.says("no relay is running, `postrider run` starts one"));
}

/// A running relay knows the routes of its start.
#[test]
fn advice_to_change_a_route_says_that_the_relay_is_restarted() {
    let place = Place::busy();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = words(&place.run(&["dead", "list"]).expect(0).out);
    assert!(
        listed.contains("restart the relay so that it reads it"),
        "{listed}"
    );
    let help = words(&place.run(&["dead", "--help"]).expect(0).out);
    assert!(help.contains("restart it first, then redrive"), "{help}");
    let help = words(&place.run(&["dead", "discard", "--help"]).expect(0).out);
    let also = "With --yes so do those of them that are WAITING, HELD or SCHEDULED";
    assert!(help.contains(also), "{help}");
}

/// A key whose head is dead, and behind it an event for two destinations: it is dead at one of them, where a value of
/// the template is missing, and waits at the other.
fn half_dead() -> Place {
    let place = Place::ready(
        r#"
[outbox.main]
url = "sqlite:postrider.db"

[broker.events]
url = "file:events.jsonl"

[[route]]
when = { aggregate_type = "ORDER" }
to = [{ broker = "events", name = "orders" }, { broker = "events", name = "tenants", path = "{header.tenant}.jsonl" }]
"#,
    );
    for (id, aggregate) in [("dead-1", "TICKET/1"), ("half-1", "ORDER/1")] {
        let which = ["--aggregate", aggregate, "--id", id, "--key", "K"];
        let sent = [&["send", "--type", "A", "--payload", "{}"][..], &which].concat();
        place.run(&sent).expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    place
}

/// Of an event for two destinations one delivery is thrown away, and nobody may think that it was all.
#[test]
fn what_a_discard_leaves_of_an_event_is_said() {
    let place = half_dead();
    let discard = ["dead", "discard", "half-1", "--reason", "a slip"];
    let narrowed = [&discard[..], &["--destination", "tenants", "--dry-run"]].concat();
    let ran = place
        .run(&narrowed)
        .expect(0)
        .says("1 delivery would be discarded");
    assert!(
        !ran.out.contains("not all"),
        "nothing else was meant: {}",
        ran.out
    );
    let ran = place.run(&discard).expect(1).says("1 delivery discarded");
    drop(
        ran.says(
            "not all of half-1: the rest is WAITING and goes out once what is before it has gone; --yes",
        ),
    );
    let rest = [&discard[..], &["--yes"]].concat();
    place.run(&rest).expect(0).says("1 delivery discarded");
}

/// To throw away the event, as the remedy for what waits says otherwise, would throw away what was edited just now.
#[test]
fn what_an_edit_leaves_of_an_event_is_said() {
    let place = half_dead();
    let edited = ["dead", "edit", "half-1", "--payload", "{}", "--yes"];
    let ran = place
        .run(&edited)
        .expect(1)
        .says("1 delivery edited and redriven");
    let ran = ran.says("not all of half-1: the rest is WAITING: it has not failed there");
    assert!(!ran.out.contains("discard"), "{}", ran.out);
}

/// What is not known is not said: a dry run by filter knows both.
#[test]
fn what_holds_events_that_match_is_known_before_they_are_redriven() {
    let place = half_dead();
    place.run(&["pause"]).expect(0);
    let would = ["dead", "redrive", "--kind", "template_value_missing", "--dry-run"];
    let ran = place.run(&would).expect(0).says("no relay is running");
    drop(ran.says("the outbox is paused, `postrider resume"));
    let json = |args: &[&str]| place.run(&[args, &["--json"]].concat()).expect(0).json();
    let known = json(&would);
    assert_eq!(known["relay_runs"], false, "{known}");
    assert_eq!(known["paused"].as_array().map(Vec::len), Some(1), "{known}");
    let nothing = json(&["dead", "redrive", "--kind", "rejected", "--yes"]);
    assert_eq!(nothing["relay_runs"], false, "{nothing}");
}

/// A filter does not redrive twice what nobody has tried since, and says so.
#[test]
fn what_was_redriven_and_not_tried_since_is_counted_by_a_filter() {
    let place = half_dead();
    place.run(&["dead", "redrive", "half-1"]).expect(1).says("waits");
    let again = ["dead", "redrive", "--kind", "template_value_missing", "--yes"];
    let ran = place.run(&again).expect(0).says("nothing to redrive");
    drop(ran.says("left out: 1 delivery in state RETRYING: redriven already and not tried since"));
    let json = place.run(&[&again[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(json["left_out"]["RETRYING"], 1, "{json}");
}

/// Only a relay holds, parks and sends; where none runs, that is what is said.
#[test]
fn where_no_relay_runs_that_is_what_is_missing() {
    let place = Place::ready(ORDERS_ONLY);
    place.send("q-1", "ORDER/1", "{}").expect(0);
    place.send("dead-1", "TICKET/1", "{}").expect(0);
    let discard = ["dead", "discard", "q-1", "--reason", "a slip", "--yes"];
    for command in [
        &discard[..],
        &["dead", "redrive", "q-1"],
        &["dead", "edit", "q-1", "--payload", "{}", "--yes"],
        &["schedule", "move", "q-1", "--in", "1h"],
        &["replay", "--id", "q-1", "--yes"],
    ] {
        let ran = place.run(command).expect(1);
        let said = format!("{}{}", ran.out, ran.err);
        for part in ["is PENDING", "`postrider run`"] {
            assert!(said.contains(part), "{command:?}: {said}");
        }
    }
    place.run(&["pause", "--key", "ORDER/1"]).expect(0);
    let relay = Running::start(&place, &["run"]);
    until(&place, "q-1", "HELD");
    until(&place, "dead-1", "DEAD_LETTER");
    place.run(&discard).expect(0).says("1 delivery discarded");
    relay.stop().expect(0);
    let alone = "no relay is running";
    place.run(&["dead", "redrive", "dead-1"]).expect(0).says(alone);
    place.run(&["run", "--until-empty"]).expect(1);
    let many = place.run(&["dead", "redrive", "--all", "--yes"]).expect(0);
    drop(many.says(alone));
}

/// A name that is mistyped must not look like one with which all is well.
#[test]
fn a_destination_that_nobody_knows_is_refused_where_nothing_is_found() {
    let place = Place::busy();
    for command in [
        &["dead", "list", "--destination", "evnts"][..],
        &["dead", "list", "--group", "--destination", "evnts"],
        &["dead", "redrive", "--destination", "evnts", "--yes"],
        &["events", "--destination", "evnts"],
        &["replay", "--from", "evnts", "--dry-run"],
    ] {
        let ran = place.run(command).expect(2);
        drop(ran.complains("there is no destination named \"evnts\""));
    }
    place
        .run(&["dead", "list", "--type", "Nothing"])
        .expect(0)
        .says("no dead events match");
    for command in [
        &["audit", "-n", "0"][..],
        &["job", "list", "-n", "0"],
        &["schedule", "list", "-n", "0"],
    ] {
        place.run(command).expect(2);
    }
}
