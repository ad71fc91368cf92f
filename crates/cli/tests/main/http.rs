//! What a running relay answers over HTTP, and where it refuses to.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use postrider_testkit::wait;
use serde_json::Value;

use crate::support::{ORDERS_ONLY, Place, Running};

const CANARY: &str = "canary-c0ffee-not-for-anybody";

/// A port that nobody has at the moment.
pub fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

pub fn ask(port: u16, path: &str, headers: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Waits for an answer that is as it should be.
#[track_caller]
fn until(port: u16, path: &str, wanted: impl Fn(u16, &str) -> bool) -> (u16, String) {
    wait::blocking(Duration::from_secs(30), path, || match ask(port, path, "") {
        Some((code, body)) if wanted(code, &body) => Ok((code, body)),
        other => Err(other),
    })
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn listening(port: u16, more: &str) -> String {
    format!("{ORDERS_ONLY}\n[admin]\nlisten = \"127.0.0.1:{port}\"\n{more}")
}

#[test]
fn a_relay_tells_how_it_is_and_status_agrees() {
    let port = port();
    let place = Place::ready(&listening(port, "[health]\nmax_age = \"1d\""));
    let relay = Running::start(&place, &["run"]);
    until(port, "/health/live", |code, _| code == 200);
    until(port, "/health/ready", |code, _| code == 200);
    let (_, body) = until(port, "/health/outbox", |code, _| code == 200);
    let health = json(&body);
    assert_eq!(
        (&health["status"], &health["unpublished"]),
        (&"healthy".into(), &0.into())
    );

    place
        .send("order-1", "ORDER/1", &format!("{{\"n\": \"{CANARY}\"}}"))
        .expect(0);
    place
        .send("dead-1", "TICKET/1", &format!("{{\"n\": \"{CANARY}\"}}"))
        .expect(0);
    let (code, body) = until(port, "/health/outbox?outbox=main", |_, body| {
        let health = json(body);
        health["published"] == 1 && health["failed"] == 1
    });
    let health = json(&body);
    assert_eq!((code, &health["status"]), (200, &"degraded".into()));
    assert_eq!(health["reasons"][0]["reason"], "dead");
    assert_eq!(
        (&health["unpublished"], &health["lagMinutes"]),
        (&0.into(), &0.0.into())
    );

    // One function judges: what the page says, the command says, and so do the metrics.
    let status = place.run(&["status", "--json", "--check"]).expect(1).json();
    assert_eq!(status["status"], health["status"]);
    assert_eq!(
        (&status["published"], &status["dead"]),
        (&health["published"], &health["failed"])
    );
    assert_eq!(status["problems"][0], health["reasons"][0]["text"]);
    assert_eq!(status["relays"].as_array().map(Vec::len), Some(1), "{status}");
    place
        .run(&["status"])
        .expect(0)
        .says("is running and owns every shard");
    let (_, metrics) = until(port, "/metrics", |_, body| {
        body.contains("postrider_health{outbox=\"main\"} 1")
    });
    assert!(
        metrics.contains("postrider_published_total{outbox=\"main\",route=\"events\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("outbox_publish_success_total{type=\"OrderPlaced\"} 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("postrider_parked{outbox=\"main\",state=\"dead\"} 1"),
        "{metrics}"
    );
    let (_, stats) = until(port, "/stats", |code, _| code == 200);
    assert_eq!(
        json(&stats)["outboxes"]["main"]["relays"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    let ended = relay.stop().expect(0);
    place.run(&["status"]).expect(0).says("main: no relay is running");
    assert_eq!(
        place.run(&["status", "--json"]).expect(0).json()["relays"],
        serde_json::json!([])
    );
    for text in [&metrics, &stats, &body, &ended.out, &ended.err] {
        assert!(!text.contains(CANARY), "{text}");
    }
    for line in [
        "relay started",
        "lease won",
        "dead: needs a person",
        "lease lost",
        "relay stopped",
    ] {
        assert!(ended.err.contains(line), "no {line:?} in {}", ended.err);
    }
}

#[test]
fn thresholds_decide_between_degraded_and_failing() {
    let port = port();
    let limits = "[health]\nmax_unpublished = 2\nfailing_unpublished = 4\n[relay]\ninitial_delay = \"1h\"";
    let place = Place::ready(&listening(port, limits));
    let relay = Running::start(&place, &["run"]);
    for (count, code, status) in [
        (1, 200, "healthy"),
        (2, 200, "degraded"),
        (3, 200, "degraded"),
        (4, 503, "failing"),
    ] {
        place.send(&format!("order-{count}"), "ORDER/1", "{}").expect(0);
        let answer = until(port, "/health/outbox", |_, body| {
            json(body)["unpublished"] == count
        });
        assert_eq!(
            (answer.0, json(&answer.1)["status"].as_str()),
            (code, Some(status)),
            "{}",
            answer.1
        );
    }
    assert_eq!(
        ask(port, "/health/live", "").unwrap().0,
        200,
        "it sleeps on purpose"
    );
    assert_eq!(ask(port, "/health/ready", "").unwrap().0, 200);
    relay.stop().expect(0);
}

/// Fault H5.
#[test]
fn another_address_needs_a_token_and_a_token_is_asked_for() {
    let port = port();
    let place = Place::ready(ORDERS_ONLY);
    place.write(
        "open.toml",
        &format!("{ORDERS_ONLY}\n[admin]\nlisten = \"0.0.0.0:{port}\""),
    );
    place
        .run(&["run", "--config", "open.toml"])
        .expect(2)
        .complains("can be reached from other machines")
        .complains("token_file");
    place.write("token", &format!("{CANARY}\n"));
    place.write(
        "closed.toml",
        &format!(
            "{ORDERS_ONLY}\n[admin]\nlisten = \"0.0.0.0:{port}\"\ntoken_file = \"token\"\n\
             [log]\nlevel = \"trace\""
        ),
    );
    let relay = Running::start(&place, &["run", "--config", "closed.toml"]);
    until(port, "/health/live", |code, _| code == 200);
    until(port, "/health/ready", |code, _| code == 200);
    for path in ["/health/outbox", "/stats", "/metrics"] {
        assert_eq!(ask(port, path, "").unwrap().0, 401);
        let wrong = "Authorization: Bearer canary\r\n";
        assert_eq!(ask(port, path, wrong).unwrap().0, 401);
        let (code, body) = ask(port, path, &format!("Authorization: Bearer {CANARY}\r\n")).unwrap();
        assert_eq!(code, 200);
        assert!(!body.contains(CANARY));
    }
    let ended = relay.stop().expect(0);
    assert!(!ended.err.contains(CANARY) && !ended.out.contains(CANARY));
    let shown = place
        .run(&["config", "show", "--config", "closed.toml"])
        .expect(0);
    assert!(!shown.out.contains(CANARY));
}

#[test]
fn a_configured_address_that_is_taken_is_refused_and_off_is_off() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let place = Place::ready(&listening(port, ""));
    place
        .run(&["run"])
        .expect(3)
        .complains("cannot be served")
        .complains("`listen`");
    place.write(
        "postrider.toml",
        &format!("{ORDERS_ONLY}\n[admin]\nlisten = \"off\""),
    );
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
}

/// Fault C16.
#[test]
fn a_log_that_nobody_reads_does_not_stop_the_relay() {
    let port = port();
    let place = Place::ready(&listening(
        port,
        "[log]\nlevel = \"trace\"\n[relay]\nbatch_size = 1",
    ));
    let relay = Running::start_unread(&place, &["run"]);
    let lines: String = (0..6_000)
        .map(|n| {
            format!("{{\"event_type\":\"T\",\"aggregate_type\":\"ORDER\",\"aggregate_id\":\"{n}\",\"payload\":{{}}}}\n")
        })
        .collect();
    place.pipe(&["send", "--lines"], &lines).expect(0);
    until(port, "/health/outbox", |_, body| json(body)["published"] == 6_000);
    let dropped = |body: &str| json(body)["log_lines_dropped"].as_u64().unwrap_or(0);
    until(port, "/stats", |_, body| dropped(body) > 0);
    relay.end();
}
