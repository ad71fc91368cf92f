//! Sent events are sent again, as copies that say so.

use serde_json::Value;

use crate::support::{ORDERS_ONLY, Place, Running};

#[test]
fn a_replayed_event_arrives_again_and_says_so() {
    let place = Place::busy();
    let dry = place.run(&["replay", "--id", "order-1", "--dry-run"]).expect(0);
    drop(dry.says("1 delivery would be replayed"));
    place
        .run(&["replay", "--id", "order-1"])
        .expect(2)
        .complains("replay 1 delivery?");
    let replay = place
        .run(&["replay", "--id", "order-1", "--yes", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&replay["touched"], &replay["unsent"]),
        (&1.into(), &1.into()),
        "{replay}"
    );
    let id = replay["job"].as_str().unwrap();
    place.run(&["run", "--until-empty"]).expect(1);
    let arrived = place.read("events.jsonl");
    let copies: Vec<&str> = arrived.lines().filter(|line| line.contains("order-1")).collect();
    assert_eq!(copies.len(), 2, "{arrived}");
    assert!(!copies[0].contains(id) && copies[1].contains(id), "{arrived}");
    let shown = place.run(&["job", "show", id, "--json"]).expect(0).json();
    assert_eq!(
        (&shown["state"], &shown["unsent"]),
        (&"done".into(), &0.into()),
        "{shown}"
    );
    let copies = place.run(&["events", "--replay", id, "--json"]).expect(0).json();
    assert_eq!(
        (&copies["event_id"], &copies["replay"]),
        (&"order-1".into(), &id.into())
    );
    place.run(&["show", "order-1"]).expect(0).says("the replay");
    for command in ["events", "tail"] {
        let listed = place.run(&[command]).expect(0).out;
        let marked = listed
            .lines()
            .filter(|line| line.contains("order-1 (copy)"))
            .count();
        let all = listed.lines().filter(|line| line.contains("order-1")).count();
        assert_eq!((marked, all), (1, 2), "{command}: {listed}");
    }
    let last = place.run(&["tail", "-n", "1", "--json"]).expect(0).json();
    assert_eq!(last["replay"], *id);
}

#[test]
fn a_replay_that_cannot_go_on_says_why() {
    let place = Place::busy();
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let many = "INSERT INTO outbox_sent (seq, event_id, destination, event_type, aggregate_type, aggregate_id, payload,
            outcome, published_at)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
        SELECT 1000 + i, 'e' || i, 'events', 'T', 'ORDER', 7, '{}', 'published', i FROM n";
    connection.execute(many, []).unwrap();
    drop(connection);
    let log = std::fs::File::create(place.path("log")).unwrap();
    let replay = Running::start_into(&place, &["replay", "--all", "--yes"], log);
    postrider_testkit::wait::blocking(std::time::Duration::from_secs(30), "a reason", || {
        let log = place.read("log");
        match log.contains("no relay is running") {
            true => Ok(()),
            false => Err(log),
        }
    });
    drop(replay.stop().says("paused after 512 deliveries"));
}

#[test]
fn an_event_that_was_named_and_not_sent_is_told_with_its_state() {
    let place = Place::busy();
    let named = ["--id", "order-1", "--id", "nope", "--id", "dead-1"];
    for mode in ["--dry-run", "--yes"] {
        let ran = place.run(&[&["replay", mode], &named[..]].concat()).expect(1);
        let ran = ran.says("1 delivery").complains("nope: there is no such event");
        let ran = ran.complains("dead-1: was not sent: it is DEAD_LETTER: mend what");
        drop(ran.complains("`postrider dead redrive ID`"));
    }
    place.run(&["job", "list"]).expect(0).says("replay");
    let other = ["replay", "--id", "order-1", "--type", "Other", "--yes"];
    place
        .run(&other)
        .expect(1)
        .says("nothing to replay")
        .complains("order-1: was sent, but not as the other options say: leave them out");
    let json = ["replay", "--id", "later-1", "--dry-run", "--json"];
    let told = place.run(&json).expect(1).json();
    let one = &told["not_sent"][0];
    assert_eq!(
        (&one["event_id"], &one["status"]),
        (&"later-1".into(), &"SCHEDULED".into())
    );
    let told = one["remedy"].as_str().unwrap();
    assert!(told.contains("`postrider schedule move ID --in 0s`"), "{told}");
    let begun = place
        .run(&[&["replay", "--yes", "--json"], &named[..]].concat())
        .expect(1)
        .json();
    assert_eq!(
        (&begun["touched"], &begun["not_sent"][0]["status"]),
        (&1.into(), &"DEAD_LETTER".into())
    );
    assert_eq!(
        (&begun["not_sent"][1]["event_id"], &begun["not_sent"][1]["status"]),
        (&"nope".into(), &Value::Null)
    );
}

/// Each destination gets its copy; a single one that is named gets each event once.
#[test]
fn what_is_counted_is_what_is_sent() {
    let both = "to = [{ broker = \"events\" }, { broker = \"audit\" }]";
    let audit = "[broker.audit]\nurl = \"file:audit.jsonl\"\n\n[[route]]";
    let config = ORDERS_ONLY.replace("to = [{ broker = \"events\" }]", both);
    let place = Place::ready(&config.replace("[[route]]", audit));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.send("order-2", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    for (more, copies) in [
        (&["--to", "audit"][..], 2),
        (&["--to", "audit", "--from", "events"], 2),
        (&[], 4),
    ] {
        let replay = [&["replay", "--key", "ORDER/1", "--json"][..], more].concat();
        let would = place
            .run(&[&replay[..], &["--dry-run"]].concat())
            .expect(0)
            .json();
        let made = place.run(&[&replay[..], &["--yes"]].concat()).expect(0).json();
        assert_eq!(
            (&would["touched"], &made["touched"]),
            (&copies.into(), &copies.into()),
            "{more:?}"
        );
    }
}

#[test]
fn a_replay_needs_a_choice() {
    let place = Place::busy();
    place.run(&["replay"]).expect(2).complains("nothing is chosen");
    place
        .run(&["replay", "--all", "--to", "event"])
        .expect(2)
        .complains("did you mean `events`?");
    place
        .run(&["replay", "--since", "yesterday"])
        .expect(2)
        .complains("2026-11-08T09:00:00Z");
    place
        .run(&["replay", "--type", "Nothing", "--dry-run"])
        .expect(0)
        .says("0 deliveries would be replayed");
    place
        .run(&["replay", "--type", "Nothing"])
        .expect(0)
        .says("nothing to replay");
    place
        .run(&["replay", "--type", "Nothing", "--yes"])
        .expect(0)
        .says("nothing to replay");
    place.run(&["replay", "--id", "nobody", "--yes"]).expect(1);
    place.run(&["job", "list"]).expect(0).says("no jobs");
    for window in [["1h", "2h"], ["2026-11-08T09:00:00Z", "2026-11-08T09:00:00Z"]] {
        place
            .run(&["replay", "--since", window[0], "--until", window[1], "--yes"])
            .expect(2)
            .complains("is not before --until");
    }
    place
        .run(&[
            "archive", "restore", "--dir", "a", "--since", "1h", "--until", "2h",
        ])
        .expect(2)
        .complains("is not before --until");
    place
        .run(&["events", "--since", "1h", "--older-than", "2h"])
        .expect(2)
        .complains("--older-than how old it must be");
    let none = ORDERS_ONLY.replace("[outbox.main]", "[outbox.main]\nhistory = \"none\"");
    let place = Place::ready(&none);
    place
        .run(&["replay", "--all", "--yes"])
        .expect(2)
        .complains("no history is kept");
}

/// Copies of a key come in its order, each once, while new events of it go on.
#[test]
fn a_replay_keeps_the_order_of_keys() {
    let place = Place::ready(ORDERS_ONLY);
    let event = |n: usize| {
        let aggregate = format!(r#""aggregate_type":"ORDER","aggregate_id":"{}""#, n % 7);
        format!(r#"{{"event_id":"e{n}","event_type":"A",{aggregate},"payload":{{"n":{n}}}}}"#)
    };
    let lines: Vec<String> = (0..1_500).map(event).collect();
    place.pipe(&["send", "--lines"], &lines.join("\n")).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    let relay = Running::start(&place, &["run"]);
    let lines: Vec<String> = (1_500..1_600).map(event).collect();
    place.pipe(&["send", "--lines"], &lines.join("\n")).expect(0);
    let replay = [
        "replay", "--all", "--until", "0s", "--rate", "100000", "--yes", "--json",
    ];
    let replayed = place.run(&replay).expect(0).json();
    relay.stop().expect(0);
    assert_eq!(replayed["state"], "done", "{replayed}");
    let copies: u64 = replayed["touched"].as_u64().unwrap();
    assert!((1_500..=1_600).contains(&copies), "{replayed}");
    let arrived = place.read("events.jsonl");
    let arrived: Vec<Value> = arrived
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_copy = |event: &Value| event.to_string().contains("postrider-replay");
    let mut seen = vec![[None, None]; 7];
    for event in &arrived {
        let n: usize = event["event_id"].as_str().unwrap()[1..].parse().unwrap();
        let last = &mut seen[n % 7][usize::from(is_copy(event))];
        assert!(last.is_none_or(|last| last < n), "{n} came after {last:?}");
        *last = Some(n);
    }
    assert_eq!(
        arrived.iter().filter(|event| is_copy(event)).count() as u64,
        copies
    );
    assert_eq!(arrived.len() as u64, 1_600 + copies);
}

#[test]
fn several_ids_types_and_keys_at_once() {
    let place = Place::ready(ORDERS_ONLY);
    for n in 1..=4 {
        place
            .send(&format!("order-{n}"), &format!("ORDER/{n}"), "{}")
            .expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(0);
    let would = |args: &[&str]| {
        let args = [&["replay", "--dry-run", "--json"][..], args].concat();
        place.run(&args).expect(0).json()["touched"].clone()
    };
    assert_eq!(would(&["--id", "order-1", "--id", "order-3"]), 2);
    assert_eq!(
        would(&["--key", "ORDER/1", "--key", "ORDER/2", "--key", "ORDER/9"]),
        2
    );
    assert_eq!(
        would(&["--type", "OrderPlaced", "--type", "Other", "--id", "order-4"]),
        1
    );
    let replayed = ["replay", "--id", "order-1", "--id", "order-3", "--yes"];
    place.run(&replayed).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    assert_eq!(place.read("events.jsonl").lines().count(), 6);
}
