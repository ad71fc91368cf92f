//! Bad input gets a clear error and loses nothing.

use crate::support::{ORDERS_ONLY, Place};

/// Fault A23.
#[test]
fn a_missing_table_names_the_command_that_makes_it() {
    let place = Place::empty();
    place.write("postrider.toml", ORDERS_ONLY);
    rusqlite::Connection::open(place.path("postrider.db"))
        .unwrap()
        .execute_batch("CREATE TABLE x (y)")
        .unwrap();
    for command in [
        &["run"][..],
        &["status"],
        &["show", "x"],
        &["tail"],
        &["dead", "list"],
    ] {
        place.run(command).expect(3).complains("postrider migrate up");
    }
    place
        .send("a", "ORDER/1", "{}")
        .expect(3)
        .complains("postrider migrate up");
}

/// Fault C12. The advice stands once, behind what happened, and fits it.
#[test]
fn advice_fits_and_is_given_once() {
    let place = Place::ready(ORDERS_ONLY);
    rusqlite::Connection::open(place.path("postrider.db"))
        .unwrap()
        .execute_batch("INSERT INTO outbox_migrations (version, name, applied_at) VALUES (99, 'x', 0)")
        .unwrap();
    let ran = place.run(&["migrate", "up"]).expect(3);
    assert_eq!(
        ran.err,
        "error: the database of outbox \"main\" cannot be used\n  \
         because: the outbox tables are of version 99, newer than this program, which knows 3\n  \
         what to do: use a newer version of this program\n"
    );
    place.write("other.toml", &ORDERS_ONLY.replace("postrider.db", "plain.db"));
    place.write("plain.db", &"not a database ".repeat(100));
    let ran = place.run(&["--config", "other.toml", "status"]).expect(3);
    let advice = ran.err.split("what to do: ").nth(1).unwrap().trim_end();
    assert_eq!(ran.err.matches(advice).count(), 1, "{}", ran.err);
}

#[test]
fn an_outbox_that_cannot_be_read_does_not_hide_the_others() {
    let place = Place::busy();
    place.write("broken.db", &"not a database ".repeat(100));
    let silent = "[outbox.silent]\nurl = \"sqlite:silent.db\"\nhistory = \"none\"";
    let broken = "[outbox.broken]\nurl = \"sqlite:broken.db\"";
    place.write("silent.toml", &format!("{ORDERS_ONLY}\n{silent}\n"));
    place.write("broken.toml", &format!("{ORDERS_ONLY}\n{silent}\n{broken}\n"));
    place.run(&["--config", "silent.toml", "migrate", "up"]).expect(0);
    let tail = place.run(&["--config", "silent.toml", "tail"]).expect(0);
    assert!(tail.says("order-1").err.is_empty());
    for (command, known) in [
        (&["status"][..], "main"),
        (&["dead", "list"], "dead-1"),
        (&["dead", "list", "--group"], "no_route"),
        (&["tail"], "order-1"),
        (&["migrate", "status"], "up to date"),
        (&["show", "order-1"], "PUBLISHED"),
    ] {
        for json in [&[][..], &["--json"]] {
            let args = [&["--config", "broken.toml"], command, json].concat();
            let ran = place.run(&args).expect(3);
            ran.says(known).complains("broken");
        }
    }
    let ran = place
        .run(&["--config", "broken.toml", "show", "nobody"])
        .expect(3);
    assert_eq!(ran.out, "");
}

/// What a setting takes from the promises is said by the check, and again at every start.
#[test]
fn an_outbox_without_a_duplicate_check_says_so() {
    let place = Place::empty();
    for (setting, said) in [
        ("history = \"none\"", "it keeps no history"),
        (
            "history = \"1h\"\ndedup = \"1d\"",
            "known for that long, not for dedup = 1d",
        ),
    ] {
        let config = ORDERS_ONLY.replace("postrider.db\"", &format!("postrider.db\"\n{setting}"));
        place.write("postrider.toml", &config);
        place.run(&["config", "check"]).expect(0).says(said);
        let ran = place.run(&["run", "--migrate", "--until-empty"]).expect(0);
        ran.complains(said).complains("WARN");
    }
    place.write("postrider.toml", ORDERS_ONLY);
    let ran = place.run(&["config", "check"]).expect(0);
    assert!(!ran.out.contains("note"), "{}", ran.out);
}

#[test]
fn a_missing_file_is_not_made_by_looking_at_it() {
    let place = Place::empty();
    place.write("postrider.toml", ORDERS_ONLY);
    place.run(&["status"]).expect(3).complains("does not exist");
    assert!(!place.path("postrider.db").exists());
}

#[test]
fn events_that_break_a_limit_are_refused_and_nothing_is_sent() {
    let place = Place::ready(ORDERS_ONLY);
    place
        .send("a", "ORDER/1", "not json")
        .expect(2)
        .complains("payload");
    place.send("", "ORDER/1", "{}").expect(2).complains("id");
    place
        .send(&"x".repeat(300), "ORDER/1", "{}")
        .expect(2)
        .complains("255");
    place.send("a", "no-slash", "{}").expect(2).complains("TYPE/ID");
    place
        .run(&["send", "--payload", "{}"])
        .expect(2)
        .complains("--type");
    place
        .run(&[
            "send",
            "--type",
            "A",
            "--aggregate",
            "ORDER/1",
            "--key",
            "",
            "--payload",
            "{}",
        ])
        .expect(2)
        .complains("key");
    let nul = r#"{"event_id":"a\u0000b","event_type":"A","aggregate_type":"ORDER","aggregate_id":"1"}"#;
    place
        .pipe(&["send", "--lines"], nul)
        .expect(2)
        .complains("line 1");
    place
        .pipe(&["send", "--lines"], "{\"event_type\":\"A\"")
        .expect(2)
        .complains("line 1");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(status["queued"], 0);
}

#[test]
fn one_bad_line_sends_nothing() {
    let place = Place::ready(ORDERS_ONLY);
    let good = r#"{"event_type":"A","aggregate_type":"ORDER","aggregate_id":"1","payload":1}"#;
    place
        .pipe(&["send", "--lines"], &format!("{good}\n{{}}\n"))
        .expect(2)
        .complains("line 2");
    assert_eq!(place.run(&["status", "--json"]).expect(0).json()["queued"], 0);
}

/// Fault A3.
#[test]
fn an_id_used_twice_is_refused_while_queued_and_recognised_when_sent() {
    let place = Place::ready(ORDERS_ONLY);
    place.send("a", "ORDER/1", "{\"n\":1}").expect(0);
    place
        .send("a", "ORDER/1", "{\"n\":1}")
        .expect(2)
        .complains("nothing was sent");
    place.run(&["run", "--until-empty"]).expect(0);
    // The same event again: published once.
    place.send("a", "ORDER/1", "{\"n\":1}").expect(0);
    let report = place.run(&["run", "--until-empty", "--json"]).expect(0).json();
    assert_eq!(
        (report["published"].as_u64(), report["duplicates"].as_u64()),
        (Some(0), Some(1))
    );
    // The same id with other content: never swallowed.
    place.send("a", "ORDER/1", "{\"n\":2}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    place.run(&["dead", "list"]).expect(0).says("id_reused");
    assert_eq!(place.read("events.jsonl").lines().count(), 1);
}

/// Fault G13.
#[test]
fn an_event_that_no_route_matches_is_dead_and_says_what_to_do() {
    let place = Place::busy();
    place
        .run(&["dead", "list"])
        .expect(0)
        .says("dead-1")
        .says("no_route")
        .says("postrider route explain");
    place.run(&["status", "--check"]).expect(1).says("1 dead");
}

#[test]
fn a_file_that_may_not_be_written_is_named() {
    let place = Place::ready(&ORDERS_ONLY.replace("file:events.jsonl", "file:missing/events.jsonl"));
    place
        .run(&["run", "--until-empty"])
        .expect(3)
        .complains("broker \"events\"")
        .complains("what to do");
}

#[cfg(unix)]
#[test]
fn a_read_only_database_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::ready(ORDERS_ONLY);
    let set = |mode| {
        for name in ["postrider.db", "."] {
            std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    // The superuser may write everywhere, so there is nothing to see.
    if std::fs::write(place.path("probe"), "").is_err() {
        place.send("a", "ORDER/1", "{}").expect(3);
    }
    set(0o755);
}

#[test]
fn an_unknown_outbox_is_refused_with_the_nearest_name() {
    let place = Place::ready(ORDERS_ONLY);
    place
        .run(&["status", "--outbox", "mian"])
        .expect(2)
        .complains("did you mean `main`?");
    place
        .run(&["show", "nothing"])
        .expect(1)
        .complains("no event with the id");
    place.run(&["dead", "redrive"]).expect(2).complains("--all");
}

#[test]
fn untrusted_text_is_inert() {
    let place = Place::ready(ORDERS_ONLY);
    let line =
        r#"{"event_id":"a","event_type":"\u001b[31mred","aggregate_type":"ORDER","aggregate_id":"1\u202e2"}"#;
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    connection
        .execute(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id) VALUES ('a', ?1, 'TICKET', ?2)",
            ["\u{1b}[31mred", "1\u{202e}2"],
        )
        .unwrap();
    drop(connection);
    place.pipe(&["send", "--lines"], line);
    place.run(&["run", "--until-empty"]);
    for command in [
        &["show", "a"][..],
        &["dead", "list"],
        &["tail"],
        &["dead", "show", "a"],
    ] {
        let ran = place.run(command);
        assert!(
            !format!("{}{}", ran.out, ran.err).contains(['\u{1b}', '\u{202e}']),
            "{command:?}"
        );
    }
}

#[test]
fn a_usage_error_is_json_where_json_was_asked_for() {
    let place = Place::empty();
    for command in [
        &["--json"][..],
        &["mirgate", "--json"],
        &["status", "--chekc", "--json"],
    ] {
        let ran = place.run(command).expect(2);
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!(error["exit_code"], 2, "{error}");
        assert!(error["advice"].is_string(), "{error}");
    }
}
