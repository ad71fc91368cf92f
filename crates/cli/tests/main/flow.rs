//! The way of an event through the commands.

use crate::support::{ORDERS_ONLY, Place};

#[test]
fn from_init_to_tail() {
    let place = Place::empty();
    place.run(&["init"]).expect(0).says("wrote postrider.toml");
    place.run(&["init"]).expect(2).complains("exists already");
    place.run(&["config", "check"]).expect(0).says("fine");
    place
        .run(&["migrate", "status"])
        .expect(1)
        .says("no database file");
    place
        .run(&["migrate", "up"])
        .expect(0)
        .says("main: migrated to version");
    place.run(&["migrate", "up"]).expect(0).says("up to date");
    place.run(&["migrate", "status"]).expect(0).says("up to date");
    place
        .send("order-1", "ORDER/42", "{\"total\": 1250}")
        .expect(0)
        .says("saved order-1 to main: OrderPlaced, key ORDER/42, 15 bytes");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (status["queued"].as_u64(), status["published"].as_u64()),
        (Some(1), Some(0))
    );
    place
        .run(&["show", "order-1"])
        .expect(0)
        .says("PENDING")
        .says("ORDER/42");

    place
        .run(&["run", "--until-empty"])
        .expect(0)
        .says("main: 1 published");
    let line: serde_json::Value =
        serde_json::from_str(place.read("events.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(line["event_id"], "order-1");

    let shown = place
        .run(&["show", "order-1", "--payload", "--json"])
        .expect(0)
        .json();
    assert_eq!(shown[0]["status"], "PUBLISHED");
    assert_eq!(shown[0]["payload"], "{\"total\": 1250}");
    assert_eq!(shown[0]["destinations"][0]["destination"], "events");
    let without = place.run(&["show", "order-1"]).expect(0);
    assert!(
        !without.out.contains("1250"),
        "a payload is shown only when asked for"
    );
    place
        .run(&["tail"])
        .expect(0)
        .says("order-1")
        .says("OrderPlaced")
        .says("→ events");
    let tailed = place.run(&["tail", "-n", "1", "--json"]).expect(0).json();
    assert_eq!(tailed["event_id"], "order-1");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (status["queued"].as_u64(), status["published"].as_u64()),
        (Some(0), Some(1))
    );
}

#[test]
fn run_without_configuration_works_and_makes_the_tables() {
    let place = Place::empty();
    place
        .run(&["run", "--until-empty"])
        .expect(0)
        .complains("made the tables");
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty", "--json"]).expect(0);
    assert_eq!(place.read("events.jsonl").lines().count(), 1);
}

#[test]
fn run_with_a_configuration_does_not_migrate_unless_asked() {
    let place = Place::empty();
    place.run(&["init"]).expect(0);
    place
        .run(&["run", "--until-empty"])
        .expect(3)
        .complains("postrider migrate up");
    let missing = place.run(&["migrate", "status", "--json"]).expect(1).json();
    assert!(missing["wanted"].as_u64() > Some(0), "{missing}");
    place.run(&["run", "--until-empty", "--migrate"]).expect(0);
    place.run(&["status"]).expect(0);
}

#[test]
fn many_events_come_from_standard_input_in_order() {
    let place = Place::ready(ORDERS_ONLY);
    let lines: Vec<String> = (0..500)
        .map(|n| {
            let order = n % 7;
            let aggregate = format!(r#""aggregate_type":"ORDER","aggregate_id":"{order}""#);
            format!(r#"{{"event_id":"e{n}","event_type":"A",{aggregate},"payload":{{"n":{n}}}}}"#)
        })
        .collect();
    let sent = place
        .pipe(&["send", "--lines", "--json"], &lines.join("\n"))
        .expect(0)
        .json();
    assert_eq!(sent["committed"], 500);
    place.run(&["run", "--until-empty"]).expect(0);
    let arrived = place.read("events.jsonl");
    let ids: Vec<usize> = arrived
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["event_id"]
                .as_str()
                .unwrap()[1..]
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(ids.len(), 500);
    for order in 0..7 {
        let of_key: Vec<_> = ids.iter().filter(|id| *id % 7 == order).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
}

#[test]
fn tail_follows() {
    let place = Place::ready(ORDERS_ONLY);
    let follow = "timeout --preserve-status --signal=INT 4 postrider tail --follow --json > tailed &
        sleep 0.5
        postrider send --type A --aggregate ORDER/1 --id followed --payload '{}'
        postrider run --until-empty
        wait";
    place.shell(follow).expect(0);
    assert!(place.read("tailed").contains("followed"));
}

/// Fault C6.
#[test]
fn a_signal_stops_run_in_good_order() {
    let place = Place::ready(ORDERS_ONLY);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    for signal in ["INT", "TERM"] {
        let line = format!("timeout --preserve-status --signal={signal} 2 postrider run --json");
        place.shell(&line).expect(0).complains("relay stopped");
    }
    assert_eq!(place.read("events.jsonl").lines().count(), 1);
}

#[test]
fn tables_are_removed_only_when_nothing_would_be_lost() {
    let place = Place::ready(ORDERS_ONLY);
    let asked = place.run(&["migrate", "down"]).expect(2).complains("--yes");
    assert!(!asked.err.contains("--dry-run"), "{}", asked.err);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place
        .run(&["migrate", "down", "--yes"])
        .expect(1)
        .complains("1 queued and 0 parked");
    place.run(&["run", "--until-empty"]).expect(0);
    place.run(&["migrate", "down", "--yes"]).expect(0);
    place.run(&["status"]).expect(3).complains("postrider migrate up");
    place.run(&["migrate", "print"]).expect(0).says("CREATE TABLE");
}

/// What is printed is what `migrate up` does, from nothing and from any version on, and all or nothing.
#[test]
fn what_is_printed_makes_the_tables() {
    let place = Place::empty();
    place.write("postrider.toml", ORDERS_ONLY);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let print = |args: &[&str]| {
        place
            .run(&[&["migrate", "print"][..], args].concat())
            .expect(0)
            .out
    };
    let broken = print(&[]).replace("COMMIT;", "SELECT nonsense; COMMIT;");
    database.execute_batch(&broken).unwrap_err();
    database.execute_batch("ROLLBACK").unwrap();
    place.run(&["migrate", "status"]).expect(1);
    let first = print(&["--json"]);
    let first: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    database.execute_batch(first["sql"].as_str().unwrap()).unwrap();
    database.execute_batch(&print(&["--from", "1"])).unwrap();
    place.run(&["migrate", "status"]).expect(0).says("up to date");
    let newest = place.run(&["migrate", "status", "--json"]).expect(0).json()["wanted"].to_string();
    assert_eq!(print(&["--from", &newest]), "", "nothing is left to do");
    database.execute_batch(&print(&["--down"])).unwrap();
    place.run(&["migrate", "status"]).expect(1);
    place
        .run(&["migrate", "print", "--grants"])
        .expect(2)
        .complains("--role");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::ready(ORDERS_ONLY);
    let ran = place.shell("(postrider config show; echo $? > code) | head -n 1");
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(place.read("code").trim(), "0");
}

#[test]
fn events_on_standard_output_are_alone_there() {
    let place = Place::ready(&ORDERS_ONLY.replace("file:events.jsonl", "stdout:"));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    let ran = place
        .run(&["run", "--until-empty"])
        .expect(0)
        .complains("main: 1 published");
    assert_eq!(ran.json()["event_id"], "order-1");
}

/// Fault C17.
#[test]
fn old_history_is_removed_by_run() {
    let place = Place::ready(&ORDERS_ONLY.replace(
        "postrider.db\"",
        "postrider.db\"\nhistory = \"1ms\"\ndedup = \"none\"",
    ));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    place
        .shell("timeout --preserve-status --signal=INT 1 postrider run")
        .expect(0);
    place.run(&["show", "order-1"]).expect(1);
    assert_eq!(place.run(&["status", "--json"]).expect(0).json()["published"], 1);
}

#[test]
fn until_empty_tells_what_is_left_when_it_is_interrupted() {
    let config = ORDERS_ONLY.replace("file:events.jsonl", "stdout:");
    let place = Place::ready(&format!("{config}\n[relay]\ndrain_timeout = \"1s\"\n"));
    // A reader that does not read is a destination that does not answer; nothing is due any more only when it does.
    let many: Vec<String> = (0..200)
        .map(|n| {
            let text = "x".repeat(2_000);
            format!(
                r#"{{"event_type":"A","aggregate_type":"ORDER","aggregate_id":"{n}","payload":"{text}"}}"#
            )
        })
        .collect();
    place.pipe(&["send", "--lines"], &many.join("\n")).expect(0);
    let relay = "timeout --preserve-status --signal=INT 1 postrider run --until-empty --json 2> said";
    let line = &format!("({relay}; echo $? > code) | sleep 5");
    place.shell(line).expect(0);
    assert_eq!(place.read("code").trim(), "1", "{}", place.read("said"));
    let said = place.read("said");
    let summary = said.lines().last().unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    assert!(summary["queued"].as_u64() > Some(0), "{summary}");
}

/// What one destination has taken is parked for the other, which is down: that is left, and said to be.
#[test]
fn until_empty_does_not_wait_for_one_of_several_destinations() {
    let full = "[broker.full]\nurl = \"file:/dev/full\"\n";
    let to = "to = [{ broker = \"events\" }, { broker = \"full\" }]";
    let config = ORDERS_ONLY.replace("to = [{ broker = \"events\" }]", to);
    let place = Place::ready(&format!("{full}{config}"));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    for _ in 0..2 {
        place.run(&["run", "--until-empty"]).expect(1).says("1 held");
    }
    let help = place.run(&["run", "--help"]).expect(0).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "does not wait for what is HELD because one of several destinations is down";
    assert!(help.contains(said), "{help}");
    let shown = place.run(&["show", "order-1"]).expect(0).says("full: HELD");
    drop(shown.says("what to do  no pause holds it: its destination did not answer, or no relay runs"));
    let shown = place.run(&["show", "order-1", "--json"]).expect(0).json();
    let routes = shown[0]["destinations"].as_array().unwrap();
    let held = routes.iter().find(|route| route["status"] == "HELD").unwrap();
    let advice = held["advice"].as_str().unwrap();
    assert!(
        advice.contains("`postrider status` says whether one runs"),
        "{held}"
    );
    // A pause is named itself.
    place.run(&["pause", "--destination", "full"]).expect(0);
    let shown = place.run(&["show", "order-1"]).expect(0);
    assert!(!shown.out.contains("no pause"), "{}", shown.out);
    drop(shown.says("the destination full is paused by"));
}

#[test]
fn a_reader_that_is_gone_ends_the_run() {
    let place = Place::ready(&ORDERS_ONLY.replace("file:events.jsonl", "stdout:"));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    for command in ["run", "run --until-empty"] {
        let line = format!("(sleep 0.3; timeout 20 postrider {command} 2> said; echo $? > code) | true");
        place.shell(&line).expect(0);
        assert_eq!(place.read("code").trim(), "3", "{}", place.read("said"));
        assert!(
            place.read("said").contains("1 still queued"),
            "{}",
            place.read("said")
        );
    }
    place.run(&["run", "--until-empty"]).expect(0);
}

#[test]
fn a_second_relay_says_that_it_stands_by() {
    let place = Place::ready(ORDERS_ONLY);
    let line = "postrider run & first=$!
        sleep 1
        timeout --preserve-status --signal=INT 3 postrider run 2> said
        kill -INT $first
        wait";
    place.shell(line);
    let said = place.read("said");
    assert!(
        said.contains("standing by: another relay holds the lease"),
        "{said}"
    );
    let alone = place
        .shell("timeout --preserve-status --signal=INT 3 postrider run")
        .expect(0);
    assert!(!alone.err.contains("standing by"), "{}", alone.err);
}
