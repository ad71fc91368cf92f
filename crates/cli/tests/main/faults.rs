//! What goes wrong around the process: impatient people, a row that kills, too few descriptors, a hostile broker.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_testkit::wait;

use crate::support::{ORDERS_ONLY, Place, Running};

const PATIENCE: Duration = Duration::from_secs(50);

/// Waits until a condition holds.
#[track_caller]
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    wait::blocking(PATIENCE, what, || look().then_some(()).ok_or("not yet"));
}

fn terminate(child: &Child) {
    let sent = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

/// Fault C6. A person who cannot wait for a destination that does not answer asks again, and loses nothing by it.
#[test]
fn a_second_signal_ends_the_relay_at_once() {
    let config = ORDERS_ONLY.replace("file:events.jsonl", "stdout:");
    let relay = "\n[relay]\ndrain_timeout = \"10m\"\npublish_timeout = \"10m\"\nlease = \"1s\"\n";
    let place = Place::ready(&format!("{config}{relay}"));
    let text = "x".repeat(2_000);
    let line = |n| {
        format!(r#"{{"event_type":"A","aggregate_type":"ORDER","aggregate_id":"{n}","payload":"{text}"}}"#)
    };
    let lines: Vec<String> = (0..200).map(line).collect();
    place.pipe(&["send", "--lines"], &lines.join("\n")).expect(0);

    let mut running = Running::start(&place, &["run"]);
    let child = running.child();
    // It publishes, and then nobody reads on.
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    terminate(child);
    // Signals that follow within half a second count as the first one.
    let mut status = None;
    until("it has ended", || {
        status = child.try_wait().unwrap();
        if status.is_none() {
            terminate(child);
        }
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    drop(output);
    let rest = place.run(&["run", "--until-empty"]).expect(0);
    assert!(
        rest.out.lines().count() > 100,
        "what was not confirmed is published again"
    );
    assert_eq!(
        place.run(&["status", "--json"]).expect(0).json()["published"],
        200
    );
}

/// Fault C9. A row that ends the process whenever it is published is found, and parked with that reason.
#[test]
fn a_row_that_kills_the_relay_does_not_kill_it_for_ever() {
    let place = Place::ready(&format!(
        "{ORDERS_ONLY}\n[relay]\nlease = \"500ms\"\nbatch_size = 1\n"
    ));
    for n in 1..=3 {
        place
            .send(&format!("order-{n}"), &format!("ORDER/{n}"), "{}")
            .expect(0);
    }
    // The first row that is published ends the process: all of them are suspect until they are tried one by one.
    let kills = [("POSTRIDER_CRASH_AT", "publish.before:1")];
    for _ in 0..6 {
        let ended = place.run_with(&["run", "--until-empty"], &kills);
        assert_ne!(ended.code, 0, "{}", ended.err);
    }
    place
        .run(&["run", "--until-empty"])
        .expect(1)
        .says("2 published")
        .says("1 dead");
    let dead = place.run(&["dead", "list", "--json"]).expect(0).json();
    assert_eq!(dead["destinations"][0]["error_kind"], "kills_relay");
    // Something else may have killed the process: a person looks, and sends it again.
    let id = dead["event_id"].as_str().unwrap();
    place.run(&["dead", "redrive", id]).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    assert_eq!(place.read("events.jsonl").lines().count(), 3);
}

/// Fault C11. Without descriptors nothing is lost and nothing is blamed; with them it goes on by itself.
#[test]
fn too_few_descriptors_are_an_outage() {
    let place = Place::ready(&ORDERS_ONLY.replace(
        "broker = \"events\" }",
        "broker = \"events\", path = \"out/{aggregate_id}.jsonl\" }",
    ));
    std::fs::create_dir(place.path("out")).unwrap();
    let lines: String = (0..40)
        .map(|n| {
            format!("{{\"event_type\":\"A\",\"aggregate_type\":\"ORDER\",\"aggregate_id\":\"{n}\",\"payload\":{{}}}}\n")
        })
        .collect();
    place.pipe(&["send", "--lines"], &lines).expect(0);
    let line = "(ulimit -Sn 32; exec postrider run 2> said) & relay=$!
        for turn in $(seq 1000); do grep -q 'Too many open files' said && break; sleep 0.05; done
        cat out/*.jsonl | wc -l > before
        prlimit --pid $relay --nofile=1024
        for turn in $(seq 1000); do [ $(cat out/*.jsonl | wc -l) = 40 ] && break; sleep 0.05; done
        kill $relay
        wait $relay";
    place.shell(line).expect(0);
    let said = place.read("said");
    assert!(said.contains("Too many open files"), "{said}");
    assert_ne!(place.read("before").trim(), "40", "the limit did not bite");
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!(
        (&status["published"], &status["dead"]),
        (&40.into(), &0.into()),
        "{said}"
    );
}

/// Fault G7. A payload far above the limit, inserted in plain SQL, is parked; it does not fill the memory.
#[test]
fn a_payload_far_above_the_limit_is_parked_alone() {
    let place = Place::ready(ORDERS_ONLY);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let insert = "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload_bytes)
                  VALUES (?1, 'A', 'ORDER', ?1, zeroblob(?2))";
    for n in 0..4 {
        database.execute(insert, (format!("huge-{n}"), 48 << 20)).unwrap();
        database.execute(insert, (format!("small-{n}"), 64)).unwrap();
    }
    let refused = database.execute(insert, ("too-huge", 64 << 20)).unwrap_err();
    assert!(refused.to_string().contains("row_is_at_most_64_mib"), "{refused}");
    drop(database);
    let mut running = Running::start(&place, &["run"]);
    until("everything is settled", || {
        let status = place.run(&["status", "--json"]).expect(0).json();
        status["published"] == 4 && status["dead"] == 4
    });
    let peak = peak_rss_mib(running.child());
    running.stop();
    assert!(peak < 300, "{peak} MiB for four times 48 MiB");
    place.run(&["dead", "list"]).expect(0).says("bad_row").says("16");
}

/// Fault G16. Garbage, a frame that claims gigabytes, another protocol and a closed door: the relay goes on asking.
#[test]
fn a_broker_that_talks_nonsense_is_an_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let guests = Arc::new(AtomicUsize::new(0));
    let counted = guests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            talk_nonsense(stream, counted.fetch_add(1, Ordering::Relaxed));
        }
    });
    let config = ORDERS_ONLY
        .replace(
            "file:events.jsonl\"",
            &format!("amqp://127.0.0.1:{port}/\"\n[broker.events.rabbitmq]\nconnect_timeout = \"500ms\""),
        )
        .replace(
            "broker = \"events\" }",
            "broker = \"events\", name = \"there\", exchange = \"\", routing_key = \"q\" }",
        );
    let place = Place::ready(&config);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    let mut running = Running::start(&place, &["run"]);
    until("each answer was given", || guests.load(Ordering::Relaxed) > 4);
    let peak = peak_rss_mib(running.child());
    let stopped = running.stop().expect(0);
    assert!(peak < 150, "{peak} MiB: it believed a length");
    assert!(stopped.err.contains("circuit open"), "{}", stopped.err);
    let status = place.run(&["status", "--json"]).expect(0).json();
    assert_eq!((&status["published"], &status["dead"]), (&0.into(), &0.into()));
}

fn talk_nonsense(mut stream: TcpStream, turn: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // What they say first is of no interest, and neither is whether they are still there.
    let _ = stream.read(&mut [0; 64]);
    let answer: &[u8] = match turn % 4 {
        0 => &[0xff; 65_536],
        1 => &[1, 0, 0, 0xff, 0xff, 0xff, 0xf0, 0, 10, 0, 10],
        2 => b"HTTP/1.1 400 Bad Request\r\n\r\n",
        _ => b"",
    };
    let _ = stream.write_all(answer);
    if turn % 4 == 1 {
        // The frame never ends; only their own patience does.
        let _ = stream.read(&mut [0; 64]);
    }
}

fn peak_rss_mib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    peak.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_024
}
