//! A dead event gets another payload and is sent again.

use crate::support::{ORDERS_ONLY, Place};

#[test]
fn an_edited_event_is_sent_with_its_new_payload_and_the_first_is_kept() {
    let place = Place::busy();
    let edit = |payload: &str, rest: &[&str]| {
        place.run(&[&["dead", "edit", "dead-1", "--payload", payload][..], rest].concat())
    };
    edit("{\"n\": 3}", &[])
        .expect(2)
        .complains("nobody can be asked here");
    for rest in [&[][..], &["--yes"]] {
        edit("{\"n\": ", rest)
            .expect(2)
            .complains("the event would not be valid: payload: ")
            .complains("nothing was changed");
    }
    place.mend();
    edit("{\"n\": 3}", &["--yes"])
        .expect(0)
        .says("1 delivery edited and redriven");
    place.run(&["run", "--until-empty"]).expect(0);
    let arrived = place.read("events.jsonl");
    let line = arrived.lines().find(|line| line.contains("dead-1")).unwrap();
    assert!(line.contains("\"n\": 3") || line.contains("\"n\":3"), "{line}");
    edit("{}", &["--yes"])
        .expect(1)
        .says("not dead-1: it is PUBLISHED: it was sent as it is, and a replay sends it like that again");
    let audited = place.run(&["audit", "--json"]).expect(0).out;
    assert!(
        audited.contains("\"edit\"") && !audited.contains("{\\\"n\\\": 3}"),
        "{audited}"
    );
}

#[test]
fn the_first_payload_of_an_edited_event_is_shown() {
    let place = Place::busy();
    place
        .run_with(
            &["dead", "edit", "dead-1", "--payload", "{\"n\": 3}", "--yes"],
            &[("USER", "ann")],
        )
        .expect(0);
    let shown = place
        .run(&["show", "dead-1", "--payload", "--json"])
        .expect(0)
        .json();
    assert_eq!(shown[0]["payload"], "{\"n\": 3}", "what goes: {shown}");
    assert_eq!(shown[0]["destinations"][0]["payload"], "{\"n\": 3}", "{shown}");
    assert_eq!(shown[0]["original"]["payload"], "{\"n\": 2}", "{shown}");
    assert_eq!(shown[0]["original"]["actor"], "cli:ann", "{shown}");
    let moments: Vec<_> = shown[0]["timeline"].as_array().unwrap().iter().collect();
    assert!(moments.iter().any(|moment| moment["what"] == "edited"), "{shown}");
    assert_eq!(moments[0]["what"], "enqueued", "{shown}");
    let text = place.run(&["show", "dead-1", "--payload"]).expect(0).out;
    let payloads: Vec<&str> = text.lines().filter(|line| line.contains("{\"n\"")).collect();
    assert_eq!(payloads.len(), 2, "{text}");
    assert!(
        payloads[0].starts_with("payload ") && payloads[0].ends_with("{\"n\": 3}"),
        "{text}"
    );
    assert!(payloads[1].ends_with("{\"n\": 2}"), "{text}");
    let text = place
        .run(&["show", "dead-1"])
        .expect(0)
        .says("until cli:ann edited it");
    assert!(
        !text.out.contains("\"n\": 2"),
        "only where it is asked for: {}",
        text.out
    );
}

/// A row that is no event is judged before anybody is asked, and what an edit cannot mend is said.
#[test]
fn an_edit_of_a_row_that_is_no_event_says_what_it_cannot_mend() {
    let place = Place::ready(ORDERS_ONLY);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let insert = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, headers)
                  VALUES ('headers', 'T', 'ORDER', '1', '{}', 'none'), ('payload', 'T', 'ORDER', '2', '{', NULL)";
    database.execute_batch(insert).unwrap();
    place.run(&["run", "--until-empty"]).expect(1);
    for (id, payload) in [("payload", "{still"), ("headers", "{}")] {
        let edit = ["dead", "edit", id, "--payload", payload];
        place
            .run(&edit)
            .expect(2)
            .complains("the event would not be valid");
    }
    place
        .run(&["dead", "edit", "headers", "--payload", "{}", "--yes"])
        .expect(2)
        .complains("headers: is not a JSON object of strings")
        .complains("an edit changes the payload and its content type, nothing else of a row");
    place
        .run(&["dead", "edit", "payload", "--payload", "{}"])
        .expect(2)
        .complains("replace the payload of payload by 2 bytes");
    place
        .run(&["dead", "edit", "payload", "--payload", "{}", "--yes"])
        .expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    assert!(place.read("events.jsonl").contains("payload"));
}

/// What became of its copies is not said beside what became of the event.
#[test]
fn an_event_with_copies_is_refused_once() {
    let place = Place::busy();
    for _ in 0..2 {
        place.run(&["replay", "--id", "order-1", "--yes"]).expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let edited = place.run(&["dead", "edit", "order-1", "--payload", "{}", "--yes"]);
    let edited = edited.expect(1).says("not order-1: it is PUBLISHED");
    assert_eq!(edited.out.matches("not order-1").count(), 1, "{}", edited.out);
}

/// An event that is there is not said to be missing because of another word that was given.
#[test]
fn an_event_that_the_filter_is_not_about_is_told_with_its_destination() {
    let templated = "broker = \"events\", path = \"{header.h}.jsonl\"";
    let place = Place::ready(&ORDERS_ONLY.replace("broker = \"events\"", templated));
    place.send("dead-1", "ORDER/1", "{}").expect(0);
    place.send("none-1", "TICKET/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let at = ["--destination", "nope"];
    let edit = |id| place.run(&[&["dead", "edit", id, "--payload", "{}", "--yes"], &at[..]].concat());
    edit("dead-1")
        .expect(1)
        .says("not dead-1: the filter is not about it: it is DEAD_LETTER at events");
    edit("none-1")
        .expect(1)
        .says("it is DEAD_LETTER and has no destination");
    edit("nobody").expect(1).says("not nobody: no such event");
    let redriven = place.run(&[&["dead", "redrive", "dead-1"], &at[..]].concat());
    redriven.expect(1).says("it is DEAD_LETTER at events");
}

/// Two destinations make room for one. What was edited goes there once, and what it replaced does not follow it.
#[test]
fn what_an_edit_replaces_does_not_follow_it_to_another_destination() {
    let to = |destinations: &str| ORDERS_ONLY.replace("{ broker = \"events\" }", destinations);
    let missing =
        |name: &str| format!("{{ broker = \"events\", name = \"{name}\", path = \"{{header.h}}.jsonl\" }}");
    let place = Place::ready(&to(&[missing("x"), missing("y")].join(", ")));
    for id in ["p1", "p2"] {
        place.send(id, "ORDER/1", "{\"n\": 0}").expect(0);
    }
    place.run(&["run", "--until-empty"]).expect(1);
    let edit = [
        "dead",
        "edit",
        "p1",
        "--destination",
        "x",
        "--payload",
        "{\"n\": 1}",
        "--yes",
    ];
    place.run(&edit).expect(0).says("1 delivery edited");
    place.write(
        "postrider.toml",
        &to("{ broker = \"events\", name = \"z\", path = \"z.jsonl\" }"),
    );
    place.run(&["dead", "redrive", "--all", "--yes"]).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    let arrived = place.read("z.jsonl");
    let told: Vec<_> = arrived
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| {
            (
                line["event_id"].as_str().unwrap().to_owned(),
                line["body"]["payload"]["n"].as_i64(),
            )
        })
        .collect();
    let both = [("p1".to_owned(), Some(1)), ("p2".to_owned(), Some(0))];
    assert_eq!(told, both, "{arrived}");
}
