//! The records of what took effect, as operators handle them.

use std::time::Duration;

use postrider_sqlite::Inbox;

use crate::support::{ORDERS_ONLY, Place};

/// A consumer only: neither an outbox nor a route.
const CONSUMER: &str = r#"
[inbox.billing]
url = "sqlite:billing.db"
table = "seen"
retention = "2d"
"#;

/// Three events of one consumer, one of them old, and one of another.
fn filled(place: &Place, file: &str, table: &str) {
    let mut connection = rusqlite::Connection::open(place.path(file)).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    let inbox = Inbox::new(table).unwrap();
    let tx = connection.transaction().unwrap();
    for (consumer, id) in [
        ("billing", "a"),
        ("billing", "b"),
        ("billing", "old"),
        ("mailer", "a"),
    ] {
        assert!(inbox.first(&tx, consumer, id).unwrap());
    }
    let days = format!(
        "UPDATE {table} SET processed_at = processed_at - 3 * 86400 * 1000000 WHERE event_id = 'old'"
    );
    tx.execute(&days, []).unwrap();
    tx.commit().unwrap();
}

/// Fault A2. Whoever dies behind what he did has left a line that he was about to.
#[test]
fn who_forgets_and_dies_is_on_record() {
    let place = Place::ready(&format!(
        "{ORDERS_ONLY}\n[inbox.billing]\nurl = \"sqlite:postrider.db\"\ntable = \"seen\"\n"
    ));
    place.run(&["inbox", "migrate"]).expect(0);
    filled(&place, "postrider.db", "seen");
    let forget = ["inbox", "forget", "--consumer", "billing", "--id", "a", "--yes"];
    let dies = place.run_with(&forget, &[("POSTRIDER_CRASH_AT", "forget.after:1")]);
    assert_eq!(dies.code, -1, "it was killed: {}", dies.err);
    let said = |n: usize, field: &str| {
        let audit = place.run(&["audit", "--json"]).expect(0);
        let line = audit.out.lines().nth(n).map(str::to_owned);
        let line: serde_json::Value = serde_json::from_str(&line.expect("a line")).unwrap();
        line[field].clone()
    };
    assert_eq!(said(0, "action"), "begin_forget");
    assert_eq!(said(0, "touched"), 1);
    place.run(&forget).expect(1);
    assert_eq!(
        (said(0, "action"), said(0, "touched")),
        ("forget".into(), 0.into())
    );
}

#[test]
fn what_took_effect_is_forgotten_by_id_age_and_consumer() {
    let place = Place::empty();
    place.write("postrider.toml", CONSUMER);
    place.run(&["config", "check"]).expect(0);
    place
        .run(&["inbox", "purge"])
        .expect(3)
        .complains("postrider inbox migrate");
    place
        .run(&["inbox", "migrate"])
        .expect(0)
        .says("the table seen is there");
    place.run(&["inbox", "migrate"]).expect(0);
    filled(&place, "billing.db", "seen");
    let forget = |more: &[&str]| place.run(&[&["inbox", "forget", "--consumer", "billing"], more].concat());
    forget(&[]).expect(2).complains("--all");
    forget(&["--all", "--dry-run"])
        .expect(0)
        .says("3 records of billing would be forgotten");
    forget(&["--since", "1h"]).expect(2).complains("--yes");
    let two = forget(&["--id", "a", "--id", "nobody", "--yes", "--json"])
        .expect(0)
        .json();
    assert_eq!((&two["records"], &two["dry_run"]), (&1.into(), &false.into()));
    forget(&["--id", "a", "--yes"]).expect(1);
    forget(&["--older-than", "1d", "--dry-run"])
        .expect(0)
        .says("1 record of");
    place
        .run(&["inbox", "purge", "--older-than", "4d"])
        .expect(0)
        .says("0 records");
    place
        .run(&["inbox", "purge"])
        .expect(0)
        .says("1 record older than 2d removed");
    forget(&["--all", "--yes"]).expect(0).says("1 record of");
    place
        .run(&["inbox", "forget", "--consumer", "mailer", "--all", "--dry-run"])
        .expect(0)
        .says("1 record of mailer");
    place
        .run(&["inbox", "purge", "--inbox", "biling"])
        .expect(2)
        .complains("billing");
}

#[test]
fn without_a_configured_inbox_it_is_the_one_beside_the_outbox() {
    let place = Place::ready(ORDERS_ONLY);
    place
        .run(&["inbox", "migrate"])
        .expect(0)
        .says("main: the table inbox is there");
    filled(&place, "postrider.db", "inbox");
    let all = ["inbox", "forget", "--consumer", "billing", "--all", "--dry-run"];
    place.run(&all).expect(0).says("main: 3 records");
    let one = ["inbox", "forget", "--consumer", "billing", "--id", "a", "--yes"];
    place
        .run(&one)
        .expect(0)
        .says("main: 1 record of billing forgotten");
    let audited = place.run(&["audit", "--json"]).expect(0).out;
    assert!(
        audited.contains("forget") && audited.contains("billing"),
        "{audited}"
    );
    place.run(&["inbox", "purge", "--older-than", "0s"]).expect(0);
    let audited = place.run(&["audit"]).expect(0).out;
    assert!(
        audited.contains("purge") && audited.contains("inbox=main"),
        "{audited}"
    );
    let printed = place.run(&["migrate", "print", "--inbox"]).expect(0).out;
    assert!(
        printed.contains("CREATE TABLE IF NOT EXISTS \"inbox\""),
        "{printed}"
    );
}

#[test]
fn commands_for_outboxes_say_that_there_is_none() {
    let place = Place::empty();
    place.write("postrider.toml", CONSUMER);
    for command in [&["status"][..], &["migrate", "up"], &["run", "--until-empty"]] {
        place.run(command).expect(2).complains("no outbox is configured");
    }
}

#[test]
fn an_inbox_that_cannot_be_used_is_found_before_it_is() {
    let place = Place::empty();
    let bad = [
        ("url = \"kafka:x\"", "kafka"),
        ("url = \"sqlite:a.db\"\ntable = \"a;b\"", "table"),
        ("url = \"sqlite:a.db\"\nhistory = \"1d\"", "history"),
        ("table = \"seen\"", "url"),
    ];
    for (lines, said) in bad {
        place.write("postrider.toml", &format!("[inbox.billing]\n{lines}\n"));
        place.run(&["config", "check"]).expect(2).complains(said);
    }
}
