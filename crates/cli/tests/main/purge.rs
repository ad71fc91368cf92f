//! What is kept for a time is removed before it is over.

use crate::support::{ORDERS_ONLY, Place};

#[test]
fn the_history_goes_and_nothing_else() {
    let place = Place::busy();
    let dry = place.run(&["purge", "--older-than", "0s", "--dry-run"]).expect(0);
    drop(dry.says("1 row of the history older than 0s would be removed"));
    place
        .run(&["purge", "--older-than", "0s"])
        .expect(2)
        .complains("remove what is older than 0s of the history");
    place.run(&["show", "order-1"]).expect(0);
    let none = place
        .run(&["purge", "--older-than", "1h", "--yes", "--json"])
        .expect(0)
        .json();
    assert_eq!(none["rows"], 0);
    let one = place
        .run(&["purge", "--older-than", "0s", "--yes", "--json"])
        .expect(0)
        .json();
    assert_eq!((&one["rows"], &one["dry_run"]), (&1.into(), &false.into()));
    place.run(&["show", "order-1"]).expect(1);
    place.run(&["show", "dead-1"]).expect(0).says("DEAD_LETTER");
    place.run(&["show", "later-1"]).expect(0).says("SCHEDULED");
    let audited = place.run(&["audit", "--json"]).expect(0).out;
    assert!(audited.contains("purge"), "{audited}");
}

#[test]
fn jobs_and_the_audit_go_too() {
    let place = Place::busy();
    place.run(&["dead", "redrive", "--all", "--yes"]).expect(0);
    for what in ["jobs", "audit"] {
        place
            .run(&["purge", "--older-than", "0s", "--what", what, "--yes"])
            .expect(0)
            .says("older than 0s removed");
    }
    place.run(&["job", "list"]).expect(0).says("no jobs");
}

/// Inboxes have names and tables of their own; none of them has those of the outbox.
#[test]
fn the_records_of_an_inbox_go_by_its_name_or_table() {
    let place = Place::busy();
    let purge = |more: &[&str]| place.run(&[&["purge", "--older-than", "0s"], more].concat());
    purge(&["--inbox", "inbox", "--yes"])
        .expect(2)
        .complains("--what is not inbox");
    place.run(&["show", "order-1"]).expect(0);
    purge(&["--what", "inbox", "--dry-run"])
        .expect(3)
        .complains("postrider inbox migrate");
    place.run(&["inbox", "migrate"]).expect(0);
    let record = |table: &str| {
        let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
        let sql =
            format!("INSERT INTO {table} (consumer, event_id, processed_at) VALUES ('billing', 'e', 1)");
        connection.execute(&sql, []).unwrap();
    };
    record("inbox");
    purge(&["--what", "inbox", "--dry-run"])
        .expect(0)
        .says("1 row of the inbox inbox older than 0s would be removed");
    purge(&["--what", "inbox", "--inbox", "nope", "--dry-run"])
        .expect(2)
        .complains("there is no inbox");
    purge(&["--what", "inbox", "--yes"])
        .expect(0)
        .says("1 row of the inbox inbox older than 0s removed");

    let config = place.read("postrider.toml");
    let inbox = "[inbox.billing]\nurl = \"sqlite:postrider.db\"\ntable = \"seen\"\n";
    place.write("postrider.toml", &format!("{config}\n{inbox}"));
    place.run(&["inbox", "migrate"]).expect(0);
    record("seen");
    for one in [&[][..], &["--inbox", "billing"], &["--inbox", "seen"]] {
        purge(&[&["--what", "inbox", "--dry-run"], one].concat())
            .expect(0)
            .says("1 row of the inbox seen older than 0s would be removed");
    }
    place.run(&["show", "order-1"]).expect(0);
}

#[test]
fn what_is_in_no_archive_yet_stays() {
    let place = Place::busy_with(&format!("{ORDERS_ONLY}\n[cleanup]\narchive_dir = \"archive\"\n"));
    let purge = ["purge", "--older-than", "0s", "--yes"];
    let kept = place.run(&purge).expect(0);
    drop(kept.says("0 rows of the history older than 0s removed; what the archive does not have yet stays"));
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let age = "UPDATE outbox_sent SET published_at = published_at - 86400000000";
    connection.execute(age, []).unwrap();
    place.run(&["archive", "write"]).expect(0);
    place.send("order-2", "ORDER/2", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let gone = place.run(&purge).expect(0);
    drop(gone.says("1 row of the history older than 0s removed"));
    place.run(&["show", "order-1"]).expect(1);
    place.run(&["show", "order-2"]).expect(0);
}

/// What its own steps have written is no part of what was old when it began.
#[test]
fn a_purge_of_the_audit_keeps_its_own_record() {
    let place = Place::busy();
    let connection = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let many = "INSERT INTO outbox_audit (at, actor, action, detail, touched, refused)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        SELECT '2026-01-01 00:00:00.000', 'ann', 'redrive', '', 1, 0 FROM n";
    connection.execute(many, []).unwrap();
    let rows: i64 = connection
        .query_row("SELECT count(*) FROM outbox_audit", [], |row| row.get(0))
        .unwrap();
    let purge = [
        "purge",
        "--older-than",
        "0s",
        "--what",
        "audit",
        "--yes",
        "--json",
    ];
    assert_eq!(place.run(&purge).expect(0).json()["rows"], rows);
    let audited = place.run(&["audit", "--json"]).expect(0).json();
    assert_eq!(
        (&audited["touched"], &audited["exact"]),
        (&rows.into(), &true.into())
    );
}
