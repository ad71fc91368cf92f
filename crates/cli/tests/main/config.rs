//! Configuration: found, checked, shown without secrets.

use crate::support::{ORDERS_ONLY, Place};

const CANARY: &str = "c4n4ry";

/// A configuration with this added is refused: in these words, with the line.
#[track_caller]
fn refused(extra: &str, wanted: &str) {
    let place = Place::empty();
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{extra}\n"));
    place
        .run(&["config", "check"])
        .expect(2)
        .complains(wanted)
        .complains("--> postrider.toml:1");
}

/// Fault G17.
#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_nearest_name() {
    let place = Place::empty();
    place.write(
        "postrider.toml",
        &format!("{ORDERS_ONLY}\n[relay]\npoll_intervall = \"1s\"\n"),
    );
    let ran = place.run(&["config", "check"]).expect(2);
    let wanted = "error: unknown key `poll_intervall`
   --> postrider.toml:13:1
   |
13 | poll_intervall = \"…\"
   | ^^^^^^^^^^^^^^
  help: did you mean `poll_interval`?
";
    assert_eq!(ran.err, wanted);
    let ran = place.run(&["config", "check", "--json"]).expect(2);
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(
        error["place"],
        serde_json::json!({ "file": "postrider.toml", "line": 13, "column": 1 })
    );
    assert_eq!(error["advice"], "did you mean `poll_interval`?");
}

#[test]
fn bad_values_name_the_range_and_the_line() {
    for (extra, wanted) in [
        ("[relay]\npoll_interval = \"-1s\"", "must not be negative"),
        ("[relay]\nbatch_size = 0", "from 1 to 100000"),
        (
            "[outbox.b]\nurl = \"sqlite:b.db\"\nprefix = \"a\\\"b\"",
            "a table prefix has from 1 to",
        ),
        (
            "[[route]]\nto = [{ broker = \"evens\" }]",
            "did you mean `events`?",
        ),
        (
            "[[route]]\nto = [{ broker = \"events\", pat = \"x\" }]",
            "did you mean `path`?",
        ),
        (
            "[[route]]\nto = \"events\"",
            "expected a list of tables such as [{ broker = \"events\" }]",
        ),
        (
            "[outbox.second]\nurl = \"sqlite:./postrider.db\"",
            "the outboxes \"main\" and \"second\" are the same tables",
        ),
    ] {
        refused(extra, wanted);
    }
}

/// Whatever the backends would refuse at the start is refused here, without touching anything.
#[test]
fn what_would_fail_later_is_refused_with_its_line() {
    let postgres = |url: &str, more: &str| format!("[outbox.b]\nurl = \"{url}\"\n{more}");
    let local = "postgres://u@127.0.0.1/d";
    let rabbit = |url: &str, more: &str| format!("[broker.b]\nurl = \"{url}\"\n{more}");
    let exchange = |kind: &str| {
        format!("rabbitmq = {{ declare = true, exchange = [{{ name = \"x\", kind = \"{kind}\" }}] }}")
    };
    for (extra, wanted) in [
        (
            rabbit("amqp://h:99999/", ""),
            "the url of the broker cannot be used",
        ),
        (rabbit("amqp://", ""), "it has no host"),
        (rabbit("amqp://h/a/b", ""), "a slash in its name as %2F"),
        (
            rabbit("amqps://h/", "rabbitmq.ca_file = \"missing.pem\""),
            "missing.pem",
        ),
        (rabbit("amqp://h/", &exchange("topik")), "did you mean \"topic\"?"),
        (
            postgres("postgres://u@h/d?foo=bar", ""),
            "the url of the database cannot be read",
        ),
        (
            postgres(local, "postgres.ca_file = \"missing.pem\""),
            "missing.pem",
        ),
        (
            postgres(local, "postgres.schema = \"a b\""),
            "cannot name the outbox tables or their schema",
        ),
        (
            postgres(local, "postgres.statement_timeout = \"9s\""),
            "not below a third of relay.lease, 10s",
        ),
        (
            postgres(
                local,
                "postgres.statement_timeout = \"1s\"\n[relay]\nlease = \"2s\"",
            ),
            "not below a third of relay.lease, 2s",
        ),
        (
            postgres(local, "busy_timeout = \"1s\""),
            "`busy_timeout` is a setting of SQLite",
        ),
    ] {
        refused(&extra, wanted);
    }
    let place = Place::empty();
    let fine = rabbit("amqp://h/", &exchange("x-consistent-hash"));
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{fine}\n"));
    place.run(&["config", "check"]).expect(0);
    let binding = "binding = [{ exchange = \"y\", queue = \"q\", routing_key = \"k\" }]";
    let bound = fine.replace("rabbitmq = { ", &format!("rabbitmq = {{ {binding}, "));
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{bound}\n"));
    let ran = place.run(&["config", "check"]).expect(0);
    ran.says("binds the exchange \"y\", which it does not declare")
        .says("binds the queue \"q\"");
}

#[test]
fn a_variable_replaces_a_key_and_is_named_when_it_is_wrong() {
    let place = Place::ready(ORDERS_ONLY);
    let variable = [("POSTRIDER__RELAY__BATCH_SIZE", "7")];
    let shown = place
        .run_with(&["config", "show", "--json"], &variable)
        .expect(0)
        .json();
    assert_eq!(shown["relay"]["batch_size"], 7);
    let variable = [("POSTRIDER__RELAY__BATCH_SIZE", "lots")];
    place
        .run_with(&["config", "check"], &variable)
        .expect(2)
        .complains("POSTRIDER__RELAY__BATCH_SIZE");
}

#[test]
fn the_file_is_looked_for_in_order() {
    let place = Place::empty();
    let source = |place: &Place, args: &[&str], variables: &[(&str, &str)]| {
        let args = [args, &["config", "check", "--json"]].concat();
        place.run_with(&args, variables).expect(0).json()["source"].clone()
    };
    assert_eq!(source(&place, &[], &[]), "embedded default");
    place.write("postrider.toml", ORDERS_ONLY);
    assert_eq!(source(&place, &[], &[]), "postrider.toml");
    place.write("b.toml", ORDERS_ONLY);
    assert_eq!(source(&place, &[], &[("POSTRIDER_CONFIG", "b.toml")]), "b.toml");
    place.write("a.toml", ORDERS_ONLY);
    assert_eq!(
        source(&place, &["--config", "a.toml"], &[("POSTRIDER_CONFIG", "b.toml")]),
        "a.toml"
    );
    place
        .run(&["--config", "missing.toml", "status"])
        .expect(2)
        .complains("postrider init");
}

#[test]
fn what_is_shown_can_be_read_again() {
    let place = Place::empty();
    place.run(&["init"]).expect(0);
    let shown = place.run(&["config", "show"]).expect(0).out;
    place.write("again.toml", &shown);
    let again = place
        .run(&["--config", "again.toml", "config", "show", "--json"])
        .expect(0)
        .json();
    let mut first = place.run(&["config", "show", "--json"]).expect(0).json();
    first["source"] = "again.toml".into();
    assert_eq!(first, again);
}

#[test]
fn a_backend_that_is_not_there_is_named_with_its_line() {
    let place = Place::empty();
    let config = ORDERS_ONLY.replace("sqlite:postrider.db", "mysql://relay:c4n4ry@db/orders");
    place.write("postrider.toml", &config);
    for command in [
        &["config", "check"][..],
        &["run"],
        &["status"],
        &["migrate", "up"],
    ] {
        place
            .run(command)
            .expect(2)
            .complains("MySQL is not supported by this build yet")
            .complains("--> postrider.toml:3:7")
            .complains("this build knows sqlite:PATH");
    }
    place.write(
        "postrider.toml",
        &ORDERS_ONLY.replace("file:events.jsonl", "nats://u:c4n4ry@mq/"),
    );
    place
        .run(&["config", "check"])
        .expect(2)
        .complains("NATS is not supported by this build yet")
        .complains("--> postrider.toml:6:7");
    place.write(
        "postrider.toml",
        &ORDERS_ONLY.replace("file:events.jsonl", "carrier-pigeon:coop"),
    );
    place
        .run(&["config", "check"])
        .expect(2)
        .complains("this build knows amqp://");
}

#[test]
fn no_secret_is_ever_printed() {
    let place = Place::empty();
    place.write("db.password", CANARY);
    let logins = "[outbox.db]\nurl = \"postgres://relay:c4n4ry@db/orders?sslpassword=c4n4ry\"\n\
                  password_file = \"db.password\"\n\
                  [broker.mq]\nurl = \"amqps://u:c4n4ry@mq/\"\npassword = \"c4n4ry\"";
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{logins}\n"));
    let variables = [("POSTRIDER__OUTBOX__DB__USER", "someone")];
    for command in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["config", "check"],
        &["run", "--until-empty"],
        &["status"],
        &["migrate", "up", "--json"],
        &["route", "explain", "--outbox", "db", "--type", "A"],
    ] {
        let ran = place.run_with(command, &variables);
        assert!(
            !format!("{}{}", ran.out, ran.err).contains(CANARY),
            "{command:?}\n{}{}",
            ran.out,
            ran.err
        );
    }
    let wrong = [("POSTRIDER__OUTBOX__DB__PASWORD", CANARY)];
    let ran = place
        .run_with(&["config", "check"], &wrong)
        .expect(2)
        .complains("did you mean `password`?");
    assert!(!ran.err.contains(CANARY));
}

#[test]
fn a_route_is_explained() {
    let place = Place::empty();
    let extra = "[[route]]\nwhen = { header.tenant = \"a\" }\n\
                 to = [{ broker = \"events\", path = \"{header.tenant}/{event_type|lower}.jsonl\" }]\n\
                 [[route]]\nwhen = { event_type = \"Noise\" }\nto = []\n";
    place.write("postrider.toml", &format!("{ORDERS_ONLY}\n{extra}"));
    let explain = |args: &[&str]| place.run(&[&["route", "explain"], args].concat());
    explain(&["--type", "A", "--aggregate", "TICKET/1", "--header", "tenant=a"])
        .expect(0)
        .says("route 1 does not match: aggregate_type is \"TICKET\", the route wants ORDER")
        .says("route 2 wins: the first that matches\n  to events/")
        .says("path \"a/a.jsonl\"");
    explain(&["--type", "Noise", "--aggregate", "TICKET/1"])
        .expect(0)
        .says("dropped on purpose");
    explain(&["--type", "A", "--aggregate", "TICKET/1"])
        .expect(1)
        .says("no route matches");
    let value = explain(&["--type", "A", "--aggregate", "ORDER/1", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (value["route"].as_u64(), value["to"][0]["broker"].as_str()),
        (Some(1), Some("events"))
    );
    assert_eq!(value["to"][0]["message_key"], "1");
}

#[test]
fn a_check_notes_what_is_probably_not_meant() {
    let place = Place::empty();
    place.write("events.url", "file:events.jsonl\n");
    let config = ORDERS_ONLY.replace("url = \"file:events.jsonl\"", "url_file = \"events.url\"");
    let extra = "[broker.spare]\nurl = \"stdout:\"\n[[route]]\nto = []\n[[route]]\nto = []\n";
    place.write("postrider.toml", &format!("{config}\n{extra}"));
    let ran = place
        .run(&["config", "check"])
        .expect(0)
        .says("no route uses the broker \"spare\"");
    let ran = ran.says("route 3 is never reached");
    #[cfg(unix)]
    ran.says("every user of this machine may read events.url");
    #[cfg(not(unix))]
    drop(ran);
}
