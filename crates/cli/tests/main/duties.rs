//! What a relay does beside publishing: it cleans up, writes the archive, and tells people of dead letters.

use std::io::{Read, Write};
use std::time::Duration;

use postrider_testkit::wait::blocking;

use crate::support::{ORDERS_ONLY, Place, Running};

/// How long a relay may take to come to its duties.
const PATIENCE: Duration = Duration::from_secs(30);

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    blocking(PATIENCE, what, || if holds() { Ok(()) } else { Err("not yet") });
}

fn number(place: &Place, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Fault C17. A night that was missed is made up for at the start, and every slot is done once.
#[test]
fn old_history_is_archived_and_removed_by_schedule_and_nothing_else_is_touched() {
    let config = format!("{ORDERS_ONLY}\n[cleanup]\nschedule = \"0 0 3 * * *\"\narchive_dir = \"archive\"\n");
    let place = Place::busy_with(&config);
    place.age();
    place.send("order-2", "ORDER/2", "{}").expect(0);
    let running = Running::start(&place, &["run"]);
    let finished = "SELECT count(*) FROM outbox_duty WHERE name = 'cleanup' AND finished_at IS NOT NULL";
    until("the cleanup is done", || number(&place, finished) == 1);
    until("the new one is published", || {
        number(&place, "SELECT count(*) FROM outbox") == 0
    });
    drop(running);
    assert_eq!(
        number(&place, "SELECT count(*) FROM outbox_sent"),
        1,
        "the new one stays"
    );
    assert_eq!(
        number(&place, "SELECT count(*) FROM outbox_parked"),
        2,
        "parked rows stay"
    );
    let verified = place.run(&["archive", "verify", "--json"]).expect(0).json();
    assert_eq!(verified["rows"], 1);

    let job = place.run(&["archive", "restore", "--json"]).expect(0).json();
    assert_eq!(job["rows"], 1);
    let restored = job["job"].as_str().unwrap();
    place.run(&["replay", "--restored", restored, "--yes"]).expect(0);
    place.run(&["run", "--until-empty"]);
    let lines = place.read("events.jsonl");
    let copies = lines.lines().filter(|line| line.contains("order-1")).count();
    assert_eq!(copies, 2, "{lines}");
}

/// Fault A2. Whatever the moment: what was put back is not put there again, and what was not is.
#[test]
fn a_restore_that_is_killed_goes_on() {
    for (point, there) in [("operator.inside:2", 0), ("operator.after:2", 1)] {
        let place = Place::busy();
        let write = ["archive", "write", "--dir", "archive"];
        place.age();
        place.run(&write).expect(0).says("1 row");
        place.run(&["audit"]).expect(0).says("archive");
        let restore = ["archive", "restore", "--dir", "archive"];
        let dies = place.run_with(&restore, &[("POSTRIDER_CRASH_AT", point)]);
        assert_eq!(dies.code, -1, "it was killed: {}", dies.err);
        let rows = "SELECT count(*) FROM outbox_restored";
        assert_eq!(number(&place, rows), there);
        let job = place.run(&["job", "list", "--json"]).expect(0).json();
        let job = job["job"].as_str().unwrap().to_owned();
        place
            .run(&["replay", "--restored", &job, "--yes"])
            .expect(1)
            .complains("is running");
        place.run(&["replay", "--restored", "nobody", "--yes"]).expect(1);
        place
            .run(&["archive", "restore", "--dir", "archive", "--job", "nobody"])
            .expect(1);
        place
            .run(&[&restore[..], &["--job", &job]].concat())
            .expect(0)
            .says("1 row restored");
        assert_eq!(number(&place, rows), 1);
        place.run(&["replay", "--restored", &job, "--yes"]).expect(0);
    }
}

/// Nobody drives it when its copy is sent; and what does not hang on a history goes without one.
#[test]
fn a_replay_that_was_left_is_ended_and_originals_go_without_a_history() {
    let place = Place::busy();
    place.run(&["replay", "--id", "order-1", "--yes"]).expect(0);
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let original = "INSERT INTO outbox_original VALUES (900, 'd', 2, 'p', NULL, NULL, 'ada', 5)";
    connection.execute(original, []).unwrap();
    let none = ORDERS_ONLY.replace("[broker.events]", "history = \"none\"\n\n[broker.events]");
    place.write(
        "postrider.toml",
        &format!("{none}\n[cleanup]\nschedule = \"* * * * * *\"\n"),
    );
    let running = Running::start(&place, &["run"]);
    until("the replay is done", || {
        number(&place, "SELECT count(*) FROM outbox_job WHERE state = 'done'") == 1
    });
    until("the original is gone", || {
        number(&place, "SELECT count(*) FROM outbox_original") == 0
    });
    drop(running);
}

/// An archive that cannot be written keeps the history, and nothing else.
#[test]
fn what_needs_no_archive_is_removed_while_that_fails() {
    let place = Place::busy();
    place.age();
    place.write("archive", "somebody's file");
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let original = "INSERT INTO outbox_original VALUES (900, 'd', 2, 'p', NULL, NULL, 'ada', 5)";
    connection.execute(original, []).unwrap();
    let cleanup = "[cleanup]\nschedule = \"* * * * * *\"\narchive_dir = \"archive\"\n";
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{cleanup}"));
    let running = Running::start(&place, &["run"]);
    until("the original is gone", || {
        number(&place, "SELECT count(*) FROM outbox_original") == 0
    });
    drop(running);
    assert_eq!(number(&place, "SELECT count(*) FROM outbox_sent"), 1);
}

/// It must not end as if it had read what is gone.
#[test]
fn a_replay_that_keeps_the_history_for_too_long_is_cancelled_before_that_goes() {
    let place = Place::busy();
    place.run(&["replay", "--id", "order-1", "--yes"]).expect(0);
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    connection
        .execute_batch(
            "UPDATE outbox_job SET state = 'paused', cursor = NULL, ended_at = NULL;
             UPDATE outbox_sent SET published_at = published_at - 40 * 86400000000",
        )
        .unwrap();
    let running = Running::start(&place, &["run"]);
    until("the history is gone", || {
        number(
            &place,
            "SELECT count(*) FROM outbox_sent WHERE published_at < unixepoch() * 1000000 - 86400000000",
        ) == 0
    });
    drop(running);
    place.run(&["job", "list"]).expect(0).says("cancelled");
    let resumed = place.run(&["audit"]).expect(0);
    resumed.says("cleanup").says("cancel");
}

#[test]
fn the_command_is_run_once_for_a_group_of_dead_letters() {
    let config = format!(
        "{ORDERS_ONLY}\n[on_dead]\ncommand = [\"sh\", \"-c\", \"cat >> told.jsonl; echo >> told.jsonl\"]\n"
    );
    let place = Place::ready(&config);
    for n in 0..3 {
        place
            .send(&format!("dead-{n}"), &format!("TICKET/{n}"), "{}")
            .expect(0);
    }
    let running = Running::start(&place, &["run"]);
    let finished = "SELECT count(*) FROM outbox_duty WHERE name LIKE 'on_dead/%' AND finished_at IS NOT NULL";
    until("somebody was told", || number(&place, finished) == 1);
    drop(running);
    let told = place.read("told.jsonl");
    let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 1, "{told}");
    let told: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(
        (&told["outbox"], &told["error_kind"]),
        (&"main".into(), &"no_route".into())
    );
    assert!(told["dead"].as_u64().is_some_and(|dead| dead >= 1), "{told}");
    assert!(told.get("payload").is_none());
    // Another relay finds that it is done.
    let running = Running::start(&place, &["run"]);
    until("it runs", || {
        number(&place, "SELECT count(*) FROM outbox_relay") > 0
    });
    let calls = || place.read("told.jsonl").matches("error_kind").count();
    assert_eq!(calls(), 1);
    // When all of them are gone, the next is news, however soon it comes.
    let discard = ["dead", "discard", "--all", "--reason", "a test", "--yes"];
    place.run(&discard).expect(0);
    place.send("dead-again", "TICKET/9", "{}").expect(0);
    until("somebody was told again", || calls() == 2);
    drop(running);
}

/// A server that refuses the first call and takes the others; answers what it was sent.
fn receiver() -> (u16, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = taken.clone();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let request = request(&mut stream);
            let status = if number == 0 { "503 Busy" } else { "200 OK" };
            if number > 0 {
                kept.lock().unwrap().push(request);
            }
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (port, taken)
}

/// The whole of a request, by its length.
fn request(stream: &mut std::net::TcpStream) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4_096];
    loop {
        let read = stream.read(&mut bytes).unwrap();
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            length.is_some_and(|length| body.len() >= length.parse().unwrap())
        });
        if whole || read == 0 {
            return text;
        }
    }
}

/// Two relays, one call that is taken; what fails once is tried again; and the url is in no output.
#[test]
fn a_url_is_told_once_by_all_relays_and_stays_secret() {
    let (port, taken) = receiver();
    let config = format!("{ORDERS_ONLY}\n[on_dead]\nurl = \"http://127.0.0.1:{port}/hook/s3cret?k=1\"\n");
    let place = Place::ready(&config);
    place.send("dead-1", "TICKET/1", "{}").expect(0);
    let log = |name: &str| std::fs::File::create(place.path(name)).unwrap();
    let first = Running::start_into(&place, &["run"], log("first.log"));
    let second = Running::start_into(&place, &["run"], log("second.log"));
    let finished = "SELECT count(*) FROM outbox_duty WHERE name LIKE 'on_dead/%' AND finished_at IS NOT NULL";
    until("somebody was told", || number(&place, finished) == 1);
    drop((first, second));
    let taken = taken.lock().unwrap();
    assert_eq!(taken.len(), 1, "{taken:?}");
    let (head, body) = taken[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook/s3cret?k=1 HTTP/1.1"), "{head}");
    assert!(head.contains("application/json"), "{head}");
    let told: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&told["outbox"], &told["event_ids"][0]),
        (&"main".into(), &"dead-1".into())
    );
    let shown = place.run(&["config", "show"]).expect(0).out;
    for text in [place.read("first.log"), place.read("second.log"), shown] {
        assert!(!text.contains("s3cret"), "{text}");
    }
}
