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
    let groups = place.run(&["dead", "list", "--group", "--json"]).expect(0).json();
    assert_eq!(
        (&groups["error_kind"], &groups["count"], &groups["dead"]),
        (&"no_route".into(), &1.into(), &1.into())
    );
    let group = groups["group"].as_str().unwrap();
    place.run(&["dead", "list", "--group"]).expect(0).says(group);
    for (args, found) in [
        (["--group", group], true),
        (["--group", "0123456789abcdef"], false),
        (["--text", "TICKET"], true),
        (["--text", "nowhere"], false),
        (["--since", "1h"], true),
        (["--older-than", "1h"], false),
    ] {
        let listed = place
            .run(&[&["dead", "list", "--json"][..], &args].concat())
            .expect(0);
        assert_eq!(listed.out.contains("dead-1"), found, "{args:?}");
    }
    let no_group = ["dead", "redrive", "--group", "no_route"];
    place.run(&no_group).expect(2).complains("16 hexadecimal digits");
    place
        .run(&["dead", "show", "dead-1"])
        .expect(0)
        .says("DEAD_LETTER")
        .says("what to do");
    place
        .run(&["dead", "show", "order-1"])
        .expect(1)
        .complains("is neither dead nor refused: it is PUBLISHED")
        .complains("postrider show ID");
}

#[test]
fn a_listing_fits_a_screen() {
    let place = Place::busy();
    let listed = place
        .run(&["dead", "list"])
        .expect(0)
        .says("dead-1")
        .says("no_route: Add a route");
    for line in listed.out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn the_payload_of_a_row_that_is_no_event_is_shown_as_it_is_stored() {
    let place = Place::ready(ORDERS_ONLY);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let insert = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, headers)
                  VALUES ('headers', 'T', 'ORDER', '1', '{\"a\": \"' || char(27) || '\"}', 'none'),
                         ('bytes', 'T', 'ORDER', '2', CAST(x'7b22ff7d' AS TEXT), NULL)";
    database.execute_batch(insert).unwrap();
    place.run(&["run", "--until-empty"]).expect(1);
    let show = |id: &str, rest: &[&str]| place.run(&[&["dead", "show", id][..], rest].concat()).expect(0);
    let advice = show("headers", &[]).out;
    let advice = advice.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        advice.contains("only the payload or its content type is wrong, postrider dead edit mends it"),
        "{advice}"
    );
    show("headers", &["--payload"]).says("payload     {\"a\": \"\\u{1b}\"}");
    show("bytes", &["--payload"]).says("payload     {\\\"\\xff}");
    let json = show("bytes", &["--payload", "--json"]).json();
    assert_eq!(json[0]["payload_hex"], "7b22ff7d", "{json}");
    assert!(
        !show("bytes", &[]).out.contains("xff"),
        "only where it is asked for"
    );
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
        .complains("redrive 1 delivery?")
        .complains("--yes");
    place.mend();
    place
        .run(&["dead", "redrive", "dead-1"])
        .expect(0)
        .says("1 delivery redriven");
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(place.read("events.jsonl").contains("dead-1"));
    place.run(&["dead", "redrive", "dead-1"]).expect(1);
}

/// One that waits says for whom, and what has an address says the one of this very event.
#[test]
fn show_names_the_head_of_the_line_and_the_address() {
    let routed = "to = [{ broker = \"events\", path = \"{aggregate_type|lower}.jsonl\" }]";
    let place = Place::ready(&ORDERS_ONLY.replace("to = [{ broker = \"events\" }]", routed));
    for (id, aggregate, key) in [
        ("head", "TICKET/1", "K"),
        ("next", "ORDER/1", "K"),
        ("free", "ORDER/2", "L"),
        ("a-longer-id", "ORDER/3", "Longer"),
    ] {
        let args = [
            "--aggregate",
            aggregate,
            "--id",
            id,
            "--key",
            key,
            "--payload",
            "{}",
        ];
        let ran = place.run(&[&["send", "--type", "OrderPlaced"][..], &args].concat());
        ran.expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let next = place.run(&["show", "next"]).expect(0).says("WAITING behind head");
    assert!(!next.out.contains("next attempt"), "{}", next.out);
    let json = place.run(&["show", "next", "--json"]).expect(0).json();
    assert_eq!(json[0]["destinations"][0]["behind"], "head", "{json}");
    let listed = place.run(&["events", "--status", "waiting", "--json"]).expect(0);
    let listed = listed.out;
    assert!(
        listed.contains("WAITING") && !listed.contains("behind"),
        "not looked up: {listed}"
    );
    place.run(&["show", "free"]).expect(0).says("path order.jsonl");
    let tailed = place.run(&["tail"]).expect(0).says("path order.jsonl");
    let json = place.run(&["tail", "-n", "1", "--json"]).expect(0).json();
    assert_eq!(json["address"], "path order.jsonl", "{json}");
    let arrows: Vec<_> = tailed.out.lines().map(|line| line.find('→')).collect();
    assert!(
        arrows.len() == 2 && arrows[0] == arrows[1],
        "aligned:\n{}",
        tailed.out
    );
    place.run(&["show", "head"]).expect(0).says("after 1 failure,");
}

/// Nobody should wait for one that was sent again and goes nowhere before another.
#[test]
fn a_redriven_event_behind_a_dead_one_says_for_whom_it_waits() {
    let place = Place::busy();
    place.send("dead-2", "TICKET/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    place
        .run(&["show", "dead-2"])
        .expect(0)
        .says("behind dead-1 (DEAD_LETTER)");
    place
        .run(&["dead", "redrive", "dead-2", "--dry-run"])
        .expect(0)
        .says("dead-2 would wait behind dead-1 (DEAD_LETTER)");
    place
        .run(&["dead", "redrive", "dead-2"])
        .expect(0)
        .says("1 delivery redriven")
        .says("dead-2 waits behind dead-1 (DEAD_LETTER): it goes when that one has left");
    place.run(&["run", "--until-empty"]).expect(1);
    let shown = place.run(&["show", "dead-2"]).expect(0);
    let shown = shown.says("RETRYING behind dead-1 (DEAD_LETTER)");
    assert!(!shown.out.contains("next attempt"), "{}", shown.out);
    let json = place.run(&["show", "dead-2", "--json"]).expect(0).json();
    let route = &json[0]["destinations"][0];
    assert_eq!(route["behind"], "dead-1", "{json}");
    assert_eq!(route["behind_status"], "DEAD_LETTER", "{json}");
    place
        .run(&["dead", "edit", "dead-2", "--payload", "{}", "--yes"])
        .expect(0)
        .says("dead-2 waits behind dead-1 (DEAD_LETTER)");
    let json = place.run(&["dead", "redrive", "dead-2", "dead-1", "--json"]);
    let json = json.expect(0).json();
    assert_eq!(json["waiting"][0]["behind_status"], "RETRYING", "{json}");
    assert_eq!(json["waiting"].as_array().map(Vec::len), Some(1), "{json}");
}

/// A slip in an id must not throw away what goes out by itself.
#[test]
fn an_event_that_moves_by_itself_is_discarded_only_with_a_word() {
    let place = Place::busy();
    let later = ["--aggregate", "ORDER/9", "--id", "later", "--delay", "1h"];
    let later = [
        &["send", "--type", "OrderPlaced"][..],
        &later,
        &["--payload", "{}"],
    ]
    .concat();
    place.run(&later).expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let discard = ["dead", "discard", "later", "dead-1", "--reason", "a slip"];
    place
        .run(&discard)
        .expect(1)
        .says("1 delivery discarded")
        .says("not later: it is SCHEDULED and goes out by itself");
    place.run(&["show", "later"]).expect(0).says("SCHEDULED");
    let with_yes = ["dead", "discard", "later", "--reason", "not wanted", "--yes"];
    place.run(&with_yes).expect(0).says("1 delivery discarded");
    place.run(&["show", "later"]).expect(0).says("DISCARDED");
}

#[test]
fn discard_keeps_the_reason() {
    let place = Place::busy();
    place
        .run(&["dead", "discard", "dead-1"])
        .expect(2)
        .complains("--reason");
    place
        .run(&["dead", "discard", "dead-1", "--reason", " "])
        .expect(2)
        .complains("a discard needs a reason");
    place
        .run(&["dead", "discard", "--all", "--reason", "test data", "--yes"])
        .expect(0)
        .says("1 delivery discarded");
    place.run(&["dead", "list"]).expect(0).says("no dead events");
    place
        .run(&["show", "dead-1"])
        .expect(0)
        .says("DISCARDED")
        .says("test data");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (&status["discarded"], &status["published"]),
        (&1.into(), &1.into())
    );
    place.run(&["status"]).expect(0).says("DISC");
    place
        .run(&["dead", "redrive", "dead-1"])
        .expect(1)
        .says("not dead-1: it is DISCARDED: a person threw it away");
    place
        .run(&["dead", "discard", "order-1", "--reason", "test data"])
        .expect(1)
        .says("not order-1: it is PUBLISHED: it was sent and cannot be taken back");
    place.run(&["run", "--until-empty"]).expect(0);
    assert!(!place.read("events.jsonl").contains("dead-1"));
}

#[test]
fn an_event_that_is_named_twice_is_one_event() {
    let place = Place::busy();
    let redrive = ["dead", "redrive", "dead-1", "dead-1"];
    place.run(&redrive).expect(0).says("1 delivery redriven");
    let audited = place.run(&["audit", "--json"]).expect(0).out;
    assert_eq!(audited.lines().count(), 1, "{audited}");
    place.run(&["run", "--until-empty"]).expect(1);
    let discard = ["dead", "discard", "dead-1", "dead-1", "--reason", "test data"];
    place.run(&discard).expect(0).says("1 delivery discarded");
    let unknown = place.run(&["dead", "redrive", "nobody", "nobody"]).expect(1).out;
    assert_eq!(unknown.matches("not nobody").count(), 1, "{unknown}");
    let moved = ["schedule", "move", "later-1", "later-1", "--in", "2h"];
    place.run(&moved).expect(0).says("1 delivery moved");
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

#[test]
fn what_is_not_there_is_said() {
    let place = Place::busy();
    for command in [&["dead", "list"][..], &["dead", "redrive", "--yes"]] {
        place
            .run(&[command, &["--kind", "no_rout"]].concat())
            .expect(2)
            .complains("did you mean `no_route`?");
    }
    place
        .run(&["dead", "redrive", "dead-1", "nobody"])
        .expect(1)
        .says("1 delivery redriven")
        .says("not nobody: no such event");
    place
        .run(&["dead", "redrive", "--all"])
        .expect(0)
        .says("nothing to redrive");
    let none = ["dead", "discard", "--all", "--reason", "x", "--yes", "--json"];
    assert_eq!(place.run(&none).expect(0).json()["touched"], 0);
}

#[test]
fn an_event_that_keeps_being_refused_is_stalled() {
    let place = Place::ready(&format!("{ORDERS_ONLY}\n[relay]\nstalled_after = \"15m\"\n"));
    // A path that is a directory is refused for ever, and costs no attempt.
    std::fs::create_dir(place.path("a.jsonl")).unwrap();
    let config = place.read("postrider.toml");
    let config = config.replace(
        "broker = \"events\" }",
        "broker = \"events\", path = \"a.jsonl\" }",
    );
    place.write("postrider.toml", &config);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1).says("1 retrying");
    place.run(&["status", "--check"]).expect(0);
    place.run(&["dead", "list"]).expect(0).says("no dead events");
    place.write("postrider.toml", &config.replace("15m", "1ms"));
    place
        .run(&["status", "--check"])
        .expect(1)
        .says("1 stalled, refused or not tried for longer than 1ms");
    let listed = place.run(&["dead", "list", "--json"]).expect(0).json();
    assert_eq!(listed["stalled"], true);
    place
        .run(&["dead", "list"])
        .expect(0)
        .says("stalled")
        .says("address_refused");
}

#[test]
fn the_audit_knows_who_it_was() {
    let place = Place::busy();
    let nameless = [("USER", ""), ("LOGNAME", "")];
    place
        .run_with(&["dead", "redrive", "dead-1"], &nameless)
        .expect(0);
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let actor: String = connection
        .query_row("SELECT actor FROM outbox_audit", [], |row| row.get(0))
        .unwrap();
    assert!(
        actor.starts_with(if cfg!(target_os = "linux") {
            "cli:uid "
        } else {
            "cli:"
        }),
        "{actor}"
    );
}
