//! `postrider notify`: events in an outbox become notifications that people read over HTTP, and pushes.

#[path = "notify/crash.rs"]
mod crash;
#[cfg(feature = "postgres")]
#[path = "notify/queues.rs"]
mod queues;
#[path = "notify/refuse.rs"]
mod refuse;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::faults::until;
use crate::http::port;
use crate::support::{Place, Running};

const SECRET: &str = "a secret that is long enough";

/// Notifications of customers without a broker; orders go to a file as ever.
pub fn config(port: u16) -> String {
    format!(
        r#"
[outbox.main]
url = "sqlite:postrider.db"

[broker.events]
url = "file:events.jsonl"

[[route]]
to = [{{ broker = "events" }}]

[notify]
listen = "127.0.0.1:{port}"
secret = "{SECRET}"

[[notify.audience]]
name = "CUSTOMER"

[[notify.workflow]]
name = "orders"
events = ["OrderPlaced"]
category = "orders"
channels = ["in_app", "push"]
[notify.workflow.templates.in_app.en]
title = "Order {{{{ payload.order }}}}"
body = "Thank you, {{{{ recipient.name }}}}."
[notify.workflow.templates.push.en]
title = "Order {{{{ payload.order }}}}"
body = "Thank you."

[notify.push]
secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
allow_private = true

[relay]
poll_interval = "100ms"
lease = "1s"

[admin]
listen = "off"
"#
    )
}

/// With tables, and with one notification whose id is 1, of the event `order-1`.
pub fn told() -> Place {
    let place = Place::empty();
    let port = port();
    place.write("postrider.toml", &config(port));
    place.run(&["notify", "migrate", "up"]).expect(0);
    let running = Running::start(&place, &["notify", "run"]);
    know(port, "ada", None);
    order(&place, "order-1", "ada");
    until("it is in the feed", || feed(port, "ada").len() == 1);
    running.stop().expect(0);
    place
}

/// Asks, as a service or as a person does.
fn call(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(15))).ok()?;
    let person = path.split(['/', '?']).nth(2).unwrap_or_default();
    let signature = postrider_notify::http::sign(&SECRET.into(), person);
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-Postrider-Signature: {signature}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Makes somebody known, once the server is there.
fn know(port: u16, id: &str, push_url: Option<&str>) {
    let body = json!({ "name": id, "push_url": push_url, "topics": ["customer"] }).to_string();
    until("the recipient is known", || {
        call(port, "PUT", &format!("/recipients/{id}"), &body).is_some_and(|(code, _)| code < 300)
    });
}

/// The ids of the events in a feed, newest first.
fn feed(port: u16, id: &str) -> Vec<String> {
    let Some((200, body)) = call(port, "GET", &format!("/feed/{id}?limit=100"), "") else {
        return Vec::new();
    };
    let page: Value = serde_json::from_str(&body).unwrap();
    let entries = page["entries"]
        .as_array()
        .unwrap_or_else(|| panic!("no entries in {page}"));
    let id = |entry: &Value| entry["event_id"].as_str().unwrap_or_default().to_owned();
    entries.iter().map(id).collect()
}

/// What a service in any language does.
fn order(place: &Place, id: &str, user: &str) {
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let insert = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
        VALUES (?1, 'OrderPlaced', 'CUSTOMER', ?2, ?3)";
    let payload = json!({ "recipientType": "USER", "order": id }).to_string();
    connection.execute(insert, (id, user, payload)).unwrap();
}

/// The ids that a push carries: of the call, and of the event behind it.
fn pushed(endpoint: &Endpoint) -> Vec<(String, String)> {
    let of = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["event_id"].as_str().unwrap_or_default().to_owned()
    };
    let calls = endpoint.calls();
    let pair = |call: &crate::endpoint::Called| (call.header("webhook-id").to_owned(), of(&call.body));
    calls.iter().map(pair).collect()
}

#[test]
fn a_row_in_the_outbox_is_in_the_feed_and_pushed() {
    let (place, port) = (Place::empty(), port());
    place.write("postrider.toml", &config(port));
    let endpoint = Endpoint::start(|_, _| (200, ""));
    let running = Running::start(&place, &["notify", "run", "--migrate", "--json"]);
    know(port, "ada", Some(&endpoint.url()));
    order(&place, "order-1", "ada");
    until("it is in the feed", || feed(port, "ada") == ["order-1"]);
    until("it was pushed", || endpoint.calls().len() == 1);
    let push = &endpoint.calls()[0];
    assert!(push.header("webhook-signature").starts_with("v1,"), "{push:?}");
    // What concerns nobody goes where it always went.
    place.send("order-2", "ORDER/2", "{\"n\": 2}").expect(0);
    until("it is published", || {
        place.path("events.jsonl").exists() && place.read("events.jsonl").contains("order-2")
    });
    let ended = running.stop().expect(0);
    assert!(!ended.err.contains(SECRET) && !ended.out.contains(SECRET));
    let report = ended.json();
    assert_eq!(
        (&report["dead"], &report["queued"]),
        (&json!(0), &json!(0)),
        "{report}"
    );

    let shown = place
        .run(&["notify", "show", "--event", "order-1", "--json"])
        .expect(0);
    let shown = shown.json();
    assert_eq!(
        (&shown[0]["user_id"], &shown[0]["id"]),
        (&json!("ada"), &json!(1))
    );
    let states: Vec<(&Value, &Value)> = shown[0]["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["channel"], &one["state"]))
        .collect();
    assert!(states.contains(&(&json!("push"), &json!("delivered"))), "{shown}");
    place.run(&["notify", "show", "1"]).expect(0).says("in the feed");
    place
        .run(&["notify", "show", "9"])
        .expect(1)
        .complains("no notification");
    place.run(&["show", "order-1"]).expect(0).says("notifications");
    let standing = place.run(&["notify", "show", "--json"]).expect(0).json();
    assert_eq!(
        (&standing["fan_outs"], &standing["aside"]),
        (&json!(0), &json!([]))
    );
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let aside = "INSERT INTO notification_fanout (event_id, occasion, workflow, problem)
        VALUES ('e-9', '{}', 'gone', 'there is no workflow')";
    connection.execute(aside, []).unwrap();
    place
        .run(&["notify", "show"])
        .expect(1)
        .says("1 not finished, 1 of them aside")
        .says("e-9: there is no workflow");
}

#[test]
fn the_demo_accounts_for_everything() {
    let place = Place::empty();
    let args = [
        "notify",
        "demo",
        "--for",
        "3s",
        "--listen",
        "127.0.0.1:0",
        "--json",
    ];
    let ran = place.run(&args).expect(0);
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [url, account] = lines.as_slice() else {
        panic!("two lines: {}", ran.out)
    };
    assert!(
        url["url"].as_str().is_some_and(|url| url.ends_with("/demo")),
        "{url}"
    );
    for zero in ["missing", "unexpected", "twice"] {
        assert_eq!(account[zero], 0, "{account}");
    }
    assert!(account["events"].as_u64() > Some(20), "{account}");
    assert!(account["notifications"].as_u64() > Some(20), "{account}");
    assert!(account["duplicates"].as_u64() > Some(0), "{account}");
}

#[test]
fn a_signature_is_that_of_the_library() {
    let place = Place::empty();
    place.write("postrider.toml", &config(port()));
    let wanted = postrider_notify::http::sign(&SECRET.into(), "ada");
    let ran = place.run(&["notify", "sign", "ada"]).expect(0);
    assert_eq!(ran.out.trim_end(), wanted);
    let ran = place.run(&["notify", "sign", "ada", "--json"]).expect(0);
    assert_eq!(ran.json(), json!({ "user": "ada", "signature": wanted }));
}

#[test]
fn what_is_printed_makes_the_tables() {
    let place = Place::empty();
    place.write("postrider.toml", &config(port()));
    let outbox = place.run(&["migrate", "print"]).expect(0).out;
    let ours = place.run(&["notify", "migrate", "print"]).expect(0).out;
    assert!(!place.path("postrider.db").exists(), "nothing is touched");
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    connection.execute_batch(&outbox).unwrap();
    connection.execute_batch(&ours).unwrap();
    drop(connection);
    // All that it makes is there, and to make it again does no harm.
    place.run(&["notify", "show", "1"]).expect(1);
    place.run(&["notify", "migrate", "up"]).expect(0);
    place.run(&["notify", "migrate", "up", "--json"]).expect(0);
}
