//! PostgreSQL through the binary: the role that is printed for a relay, and a server that comes later than the relay.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use postrider_testkit::servers::Postgres;
use postrider_testkit::wait;

use crate::faults::until;
use crate::support::{ORDERS_ONLY, Place, Running};

const MINUTE: Duration = Duration::from_secs(60);

fn config(url: &str) -> String {
    ORDERS_ONLY.replace("sqlite:postrider.db", url)
}

/// Runs a script as a team's own migration tool does.
fn migrate(server: &Postgres, database: &str, script: &str) {
    let mut psql = server.psql(database);
    let mut child = psql.stdin(Stdio::piped()).spawn().expect("psql starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(script.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// Fault H17. What `migrate print --role` prints makes the tables and lets a relay work that may do nothing else; and
/// `tail` shows what it has published.
#[test]
fn the_printed_role_is_enough_for_run_and_tail() {
    let server = Postgres::shared();
    let database = server.database();
    let role = format!("relay_{}", database.name);
    let owner = Place::empty();
    owner.write("postrider.toml", &config(&database.url));
    let print = |args: &[&str]| {
        owner
            .run(&[&["migrate", "print"][..], args].concat())
            .expect(0)
            .out
    };
    migrate(server, &database.name, &print(&[]));
    // The role need not exist before there are tables to grant.
    server.sql(&database.name, &format!("CREATE ROLE {role} LOGIN"));
    let grants = print(&["--grants", "--role", &role]);
    assert!(!grants.contains("CREATE TABLE"), "{grants}");
    migrate(server, &database.name, &grants);
    assert!(
        print(&["--role", &role]).ends_with(&grants),
        "the same behind the tables"
    );
    for n in 1..=3 {
        owner
            .send(&format!("order-{n}"), "ORDER/1", "{\"n\": 1}")
            .expect(0);
    }

    let relay = Place::empty();
    relay.write(
        "postrider.toml",
        &config(&database.url.replace("postgres@", &format!("{role}@"))),
    );
    relay.run(&["run", "--until-empty"]).expect(0).says("3 published");
    assert_eq!(relay.read("events.jsonl").lines().count(), 3);
    relay.run(&["tail"]).expect(0).says("order-1").says("order-3");
    let last = relay.run(&["tail", "-n", "1", "--json"]).expect(0).json();
    assert_eq!(last["event_id"], "order-3", "{last}");
    // It may not do what it was not given.
    let own = relay.run(&["migrate", "down", "--yes"]);
    assert_ne!(own.code, 0, "{}", own.out);
    assert_eq!(owner.run(&["status", "--json"]).expect(0).json()["published"], 3);
}

/// What operators do is the same whichever database it is.
#[test]
fn every_verb_works_on_postgresql() {
    let database = Postgres::shared().database();
    let place = Place::busy_with(&config(&database.url));
    let says = |args: &[&str], text: &str| drop(place.run(args).expect(0).says(text));
    let groups = place.run(&["dead", "list", "--group", "--json"]).expect(0).json();
    assert_eq!(
        (&groups["count"], &groups["dead"]),
        (&1.into(), &1.into()),
        "{groups}"
    );
    let group = groups["group"].as_str().unwrap();
    says(&["dead", "list", "--group", group], "dead-1");
    let listed = place.run(&["events", "--json"]).expect(0).out;
    let newest = ["later-1", "dead-1", "order-1"].map(|id| listed.find(&format!("\"{id}\"")).unwrap());
    assert!(newest.is_sorted(), "{listed}");
    says(&["events", "--text", "LATER"], "SCHEDULED");

    says(&["pause", "--key", "ORDER/7"], "the key ORDER/7 is paused");
    says(&["status"], "the key ORDER/7 is paused by cli:");
    place.send("held-1", "ORDER/7", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    says(&["show", "held-1"], "HELD");
    says(&["resume", "--key", "ORDER/7"], "goes on");
    says(&["limit", "events", "--rate", "1000"], "gets 1000 events/s");
    says(&["limit", "events", "--reset"], "configured limits");

    let edit = ["dead", "edit", "dead-1", "--payload", "{\"n\": 3}", "--yes"];
    says(&edit, "1 delivery edited and redriven");
    place.run(&["run", "--until-empty"]).expect(1);
    place.mend();
    says(
        &["dead", "redrive", "--group", group, "--yes"],
        "done, 1 delivery",
    );
    says(&["schedule", "move", "later-1", "--in", "2h"], "1 delivery moved");
    let cancel = ["schedule", "cancel", "later-1", "--reason", "not wanted"];
    says(&cancel, "1 delivery cancelled");
    place.run(&["run", "--until-empty"]).expect(0);
    let shown = place
        .run(&["show", "dead-1", "--payload", "--json"])
        .expect(0)
        .json();
    assert_eq!(shown[0]["status"], "PUBLISHED", "{shown}");

    let replay = place
        .run(&["replay", "--id", "order-1", "--yes", "--json"])
        .expect(0)
        .json();
    let job = replay["job"].as_str().unwrap();
    place.run(&["run", "--until-empty"]).expect(0);
    says(&["job", "show", job], "state       done");
    assert_eq!(place.read("events.jsonl").matches(job).count(), 1);
    for action in [
        "edit", "redrive", "move", "discard", "pause", "resume", "limit", "replay",
    ] {
        says(&["audit", "--json"], &format!("\"action\":\"{action}\""));
    }
    says(
        &["purge", "--older-than", "0s", "--what", "audit", "--yes"],
        "of the audit",
    );
}

/// What is fixed when the tables are made cannot be changed by a setting; the relay and `migrate status` name both
/// values. A database that does not exist is told as that.
#[test]
fn a_setting_that_the_tables_do_not_have_is_told() {
    let database = Postgres::shared().database();
    let place = Place::ready(&config(&database.url));
    let told = [
        "shards is 16 in the configuration and 64 in the tables",
        "strict_keys is true",
    ];
    let changed = format!(
        "{}\"\npostgres = {{ shards = 16, strict_keys = true }}",
        database.url
    );
    place.write(
        "changed.toml",
        &ORDERS_ONLY.replace("sqlite:postrider.db\"", &changed),
    );
    let status = place
        .run(&["--config", "changed.toml", "migrate", "status"])
        .expect(0);
    let run = place
        .run(&["--config", "changed.toml", "run", "--until-empty"])
        .expect(0);
    for told in told {
        assert!(
            status.out.contains(told) && run.err.contains(told),
            "{}{}",
            status.out,
            run.err
        );
    }
    let same = place.run(&["migrate", "status", "--json"]).expect(0).json();
    assert_eq!(same["differs"], serde_json::json!([]));

    place.write(
        "gone.toml",
        &config(&database.url.replace(&database.name, "no_such_database")),
    );
    let gone = place.run(&["--config", "gone.toml", "status"]).expect(3);
    gone.complains("does not exist")
        .complains("what to do: create the database, or correct its name in the url");
}

/// Fault A9. A relay that is started before its database waits, says so, and works when it is there.
#[test]
fn a_relay_that_starts_before_its_database_waits_for_it() {
    let server = Postgres::start().expect("a server");
    let database = server.database();
    let place = Place::ready(&config(&database.url));
    place.send("order-1", "ORDER/1", "{}").expect(0);
    server.stop().expect("stopped");

    let log = std::fs::File::create(place.path("said")).expect("a file");
    let mut running = Running::start_into(&place, &["run"], log);
    until("it says that the database is away", || {
        place.read("said").contains("the database is waited for")
    });
    assert_eq!(running.child().try_wait().expect("a look"), None, "it waits");
    server.start_again().expect("started");
    until("the event has arrived", || {
        std::fs::read_to_string(place.path("events.jsonl")).is_ok_and(|lines| lines.contains("order-1"))
    });
    running.stop().expect(0);
}

/// Fault C17. The history goes by the schedule of `[cleanup]`, whole days, and only what is in the archive; a relay
/// that looks after the days to come removes none of those that have been.
#[test]
fn old_days_are_archived_and_dropped_by_schedule() {
    let server = Postgres::shared();
    let database = server.database();
    let place = Place::empty();
    let cleanup = "[cleanup]\nschedule = \"0 0 3 * * *\"\narchive_dir = \"archive\"\n";
    place.write("postrider.toml", &format!("{}\n{cleanup}", config(&database.url)));
    place.run(&["migrate", "up"]).expect(0);
    place.send("order-1", "ORDER/1", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    let sql = |text: &str| server.sql(&database.name, text);
    let day = sql("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '10 days', 'YYYYMMDD')");
    sql(&format!(
        "CREATE TABLE outbox_sent_{day} PARTITION OF outbox_sent
             FOR VALUES FROM ('{day} 00:00Z') TO (timestamptz '{day} 00:00Z' + interval '24 hours');
         UPDATE outbox_sent SET published_at = published_at - interval '10 days'"
    ));
    place.run(&["run", "--until-empty"]).expect(0);
    let there = format!("SELECT count(*) FROM pg_class WHERE relname = 'outbox_sent_{day}'");
    assert_eq!(sql(&there), "1", "not before it is archived");
    let running = Running::start(&place, &["run"]);
    // A day that somebody reads just then is tried again a minute later.
    wait::blocking(3 * MINUTE, "the day is dropped", || match sql(&there).as_str() {
        "0" => Ok(()),
        _ => Err("not yet"),
    });
    drop(running);
    let verified = place.run(&["archive", "verify", "--json"]).expect(0).json();
    assert_eq!(verified["rows"], 1);
}
