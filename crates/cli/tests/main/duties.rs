//! What a relay does beside publishing: it cleans up, writes the archive, and tells people of dead letters.

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

/// Makes what was published ten days older.
fn age(place: &Place) {
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let sql = "UPDATE outbox_sent SET published_at = published_at - 10 * 86400000000";
    connection.execute(sql, []).unwrap();
}

/// Fault C17. A night that was missed is made up for at the start, and every slot is done once.
#[test]
fn old_history_is_archived_and_removed_by_schedule_and_nothing_else_is_touched() {
    let config = format!("{ORDERS_ONLY}\n[cleanup]\nschedule = \"0 0 3 * * *\"\narchive_dir = \"archive\"\n");
    let place = Place::busy_with(&config);
    age(&place);
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
    drop(running);
    assert_eq!(
        place
            .read("told.jsonl")
            .lines()
            .filter(|line| !line.is_empty())
            .count(),
        1
    );
}
