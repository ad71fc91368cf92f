//! `postrider listen`: events of a real RabbitMQ, or of a file, are posted to a service.

use std::fs::File;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use lapin::options::BasicGetOptions;
use lapin::types::AMQPValue;
use lapin::{Connection, ConnectionProperties};
use postrider_testkit::servers::rabbitmq::{self, Vhost};
use rusqlite::TransactionBehavior;
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::faults::until;
use crate::support::{Place, Running};

const CANARY: &str = "canary-7d1f-of-a-customer";

/// An outbox whose events go to the queue that is listened to.
fn stage(broker: &Vhost, port: u16) -> Place {
    let config = format!(
        r#"
[outbox.main]
url = "sqlite:postrider.db"

[broker.mq]
url = "{}"

[broker.mq.rabbitmq]
declare = true
queue = [{{ name = "orders" }}, {{ name = "dead" }}]

[[route]]
to = [{{ broker = "mq", routing_key = "orders" }}]

[listener.billing]
url = "http://127.0.0.1:{port}/orders/s3cret"
broker = "mq"
queue = "orders"
dead_letters = {{ routing_key = "dead" }}
retry = {{ base = "20ms", max = "200ms" }}

[admin]
listen = "off"

[log]
format = "json"
level = "debug"
"#,
        broker.url()
    );
    let place = Place::ready(&config);
    place.run(&["inbox", "migrate"]).expect(0);
    place
}

/// Commits an event and publishes it.
fn publish(place: &Place, id: &str) {
    let payload = format!("{{\"n\":  \"{CANARY}\"}}");
    place.send(id, &format!("ORDER/{id}"), &payload).expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
}

fn listen(place: &Place) -> Running {
    let log = File::options().create(true).append(true).open(place.path("log"));
    Running::start_into(place, &["listen", "--json"], log.unwrap())
}

/// Stops it, and looks at what it said.
fn stop(place: &Place, running: Running) -> Value {
    let ended = running.stop().expect(0);
    let log = place.read("log");
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    for secret in [CANARY, "s3cret"] {
        assert!(!log.contains(secret) && !ended.out.contains(secret), "{log}");
    }
    ended.json()
}

/// Takes one message out of a queue: its body, and one of its headers.
async fn take(broker: &Vhost, queue: &str, header: &str) -> Option<(Vec<u8>, String)> {
    let connection = Connection::connect(&broker.url(), ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = BasicGetOptions { no_ack: true };
    let got = channel.basic_get(queue.into(), options).await.unwrap()?;
    let headers = got.delivery.properties.headers().as_ref();
    let value = match headers.and_then(|headers| headers.inner().get(header)) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        _ => String::new(),
    };
    let body = got.delivery.data.clone();
    connection.close(200, "done".into()).await.unwrap();
    Some((body, value))
}

fn dead(log: &str) -> bool {
    log.contains("went to the dead letters")
}

/// Faults D1, D3 and D10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_decides_and_what_is_done_is_not_called_for_again() {
    let broker = rabbitmq::private().await;
    let endpoint = Endpoint::start(|call, before| match (call.id(), before) {
        ("order-2", 0) => (503, "Retry-After: 0\r\n"),
        ("order-3", _) => (400, ""),
        _ => (200, ""),
    });
    let place = stage(&broker, endpoint.port);
    let running = listen(&place);
    for id in ["order-1", "order-2", "order-3"] {
        publish(&place, id);
    }
    until("all are settled", || {
        endpoint.calls().len() >= 4 && dead(&place.read("log"))
    });
    let letter = take(&broker, "dead", "postrider-dead-reason")
        .await
        .expect("a dead letter");
    assert_eq!(letter.1, "127.0.0.1 answered 400");
    assert!(String::from_utf8_lossy(&letter.0).contains(CANARY), "as it came");

    let first = &endpoint.calls()[0];
    assert_eq!(first.path, "/orders/s3cret");
    assert_eq!(
        first.body,
        format!("{{\"n\":  \"{CANARY}\"}}").as_bytes(),
        "byte for byte"
    );
    for (name, value) in [
        ("idempotency-key", "order-1"),
        ("event-id", "order-1"),
        ("event-type", "OrderPlaced"),
        ("event-key", "ORDER/order-1"),
        ("content-type", "application/json"),
        ("postrider-attempt", "1"),
        ("postrider-consumer", "billing"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }

    place
        .run(&["replay", "--id", "order-1", "--id", "order-2", "--yes"])
        .expect(0);
    place.run(&["run", "--until-empty"]).expect(0);
    publish(&place, "order-4");
    until("what came behind them is called", || {
        endpoint.ids().contains(&"order-4".to_owned())
    });
    let mut ids = endpoint.ids();
    ids.sort();
    assert_eq!(ids, ["order-1", "order-2", "order-2", "order-3", "order-4"]);
    let report = stop(&place, running);
    assert_eq!(
        (&report["called"], &report["retries"], &report["dead_letters"]),
        (&3.into(), &1.into(), &1.into())
    );
    assert!(
        take(&broker, "orders", "").await.is_none(),
        "everything is acknowledged"
    );
}

/// Fault D15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_down_is_waited_for_and_nothing_is_given_up() {
    let broker = rabbitmq::private().await;
    let port = {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        taken.local_addr().unwrap().port()
    };
    let place = stage(&broker, port);
    let running = listen(&place);
    publish(&place, "order-1");
    publish(&place, "order-2");
    until("it says so", || {
        place.read("log").contains("effects cannot happen")
    });
    let endpoint = Endpoint::on(port, |_, _| (204, ""));
    until("both are called", || endpoint.calls().len() == 2);
    let report = stop(&place, running);
    assert_eq!(
        (&report["called"], &report["dead_letters"]),
        (&2.into(), &0.into())
    );
    assert_eq!(
        endpoint.calls()[0].header("postrider-attempt"),
        "1",
        "nothing was charged"
    );
}

/// Fault C6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_what_is_called_finish() {
    let broker = rabbitmq::private().await;
    let (open, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let endpoint = Endpoint::start(move |_, _| {
        gate.lock().unwrap().recv().unwrap();
        (200, "")
    });
    let place = stage(&broker, endpoint.port);
    let mut running = listen(&place);
    publish(&place, "order-1");
    until("it is called", || endpoint.calls().len() == 1);
    let pid = running.child().id().to_string();
    let sent = std::process::Command::new("kill").arg(pid).status().unwrap();
    assert!(sent.success());
    open.send(()).unwrap();
    let mut status = None;
    until("it has ended", || {
        status = running.child().try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));

    open.send(()).unwrap();
    let running = listen(&place);
    publish(&place, "order-2");
    until("the next is called", || endpoint.calls().len() == 2);
    assert_eq!(
        endpoint.ids(),
        ["order-1", "order-2"],
        "the first was recorded and acknowledged"
    );
    stop(&place, running);
}

/// Faults D3 and D6: the one moment in which nobody can know, and the key by which the other side does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_the_answer_and_the_record_it_calls_again_with_the_same_key() {
    let broker = rabbitmq::private().await;
    let (asked, asks) = mpsc::channel();
    let (locked, goes_on) = mpsc::channel();
    let goes_on = Mutex::new(goes_on);
    let endpoint = Endpoint::start(move |_, before| {
        if before == 0 {
            asked.send(()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
        }
        (200, "")
    });
    let place = stage(&broker, endpoint.port);
    let running = listen(&place);
    publish(&place, "order-1");
    asks.recv().unwrap();
    // While somebody else writes, what has happened cannot be written down.
    let mut other = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let held = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    locked.send(()).unwrap();
    until("it has the answer", || {
        place.read("log").contains("called, to be recorded")
    });
    running.end();
    drop(held);

    let running = listen(&place);
    until("it is called again", || endpoint.calls().len() == 2);
    let keys: Vec<String> = endpoint
        .calls()
        .iter()
        .map(|call| call.header("idempotency-key").to_owned())
        .collect();
    assert_eq!(keys, ["order-1", "order-1"]);
    publish(&place, "order-2");
    until("the next is called", || endpoint.calls().len() == 3);
    stop(&place, running);
}

fn ask(port: u16, path: &str) -> Option<(u16, String)> {
    crate::http::ask(port, path, "")
}

#[test]
fn a_file_is_listened_to_as_the_command_line_says() {
    let refused = Arc::new(Mutex::new(false));
    let seen = refused.clone();
    let endpoint = Endpoint::start(move |call, _| match call.id() {
        "order-2" => {
            *seen.lock().unwrap() = true;
            (422, "")
        }
        _ => (200, ""),
    });
    let port = crate::http::port();
    let config = format!(
        "{}\n[broker.dead]\nurl = \"file:dead.jsonl\"\n[admin]\nlisten = \"127.0.0.1:{port}\"\n",
        crate::support::ORDERS_ONLY
    );
    let place = Place::ready(&config);
    for n in 1..=3 {
        place.send(&format!("order-{n}"), "ORDER/1", "{}").expect(0);
    }
    let no_admin = [("POSTRIDER__ADMIN__LISTEN", "off")];
    place.run_with(&["run", "--until-empty"], &no_admin).expect(0);
    let url = endpoint.url();
    let args = [
        "listen",
        "--migrate",
        "--http",
        &url,
        "--broker",
        "events",
        "--consumer",
        "mailer",
    ];
    let args = [&args[..], &["--dead-letters", "broker=dead"]].concat();
    let running = Running::start(&place, &args);
    until("all are settled", || {
        let metrics = ask(port, "/metrics").unwrap_or_default().1;
        metrics.contains("postrider_listener_effects_total{consumer=\"mailer\"} 2")
            && metrics.contains("dead_letters_total{consumer=\"mailer\",cause=\"rejected\"} 1")
            && metrics.contains("postrider_listener_well{consumer=\"mailer\"} 1")
    });
    assert!(*refused.lock().unwrap());
    assert_eq!(endpoint.ids(), ["order-1", "order-2", "order-3"], "in order");
    let (code, health) = ask(port, "/health/listener").unwrap();
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((code, &health["status"]), (200, &"healthy".into()));
    assert_eq!(health["listeners"][0]["consumer"], "mailer");
    running.stop().expect(0).says("mailer: 2 events handed over");
    let letter: Value = serde_json::from_str(&place.read("dead.jsonl")).unwrap();
    assert_eq!(
        letter["headers"]["postrider-dead-reason"],
        "127.0.0.1 answered 422"
    );

    // It goes on where it was.
    place.send("order-4", "ORDER/1", "{}").expect(0);
    place.run_with(&["run", "--until-empty"], &no_admin).expect(0);
    let running = Running::start(&place, &args);
    until("the next is called", || endpoint.calls().len() == 4);
    running.stop().expect(0);
}

/// Fault D7.
#[test]
fn what_cannot_be_is_refused() {
    let place = Place::ready(crate::support::ORDERS_ONLY);
    place
        .run(&["listen"])
        .expect(2)
        .complains("no listener is configured");
    place
        .run(&["listen", "--http", "http://127.0.0.1:1/x"])
        .expect(2)
        .complains("--broker");
    let wanted = [
        "listen",
        "--http",
        "http://127.0.0.1:1/x",
        "--consumer",
        "c",
        "--broker",
        "events",
    ];
    place
        .run(&[&wanted[..], &["--dead-letters", "broker=nowhere"]].concat())
        .expect(2)
        .complains("there is no broker named \"nowhere\"");
    place
        .run(&[&wanted[..], &["--dead-letters", "broker=events"]].concat())
        .expect(2)
        .complains("somewhere else");
    let listener = "[broker.dead]\nurl = \"file:dead.jsonl\"\n\
        [listener.billing]\nurl = \"http://127.0.0.1:1/s3cret\"\nbroker = \"events\"\n\
        dead_letters = { broker = \"dead\" }\n";
    let config = |more: &str| format!("{}\n{listener}{more}", crate::support::ORDERS_ONLY);
    place.write("postrider.toml", &config("horizon = \"60d\"\n"));
    let refused = place.run(&["listen", "--migrate"]).expect(2);
    assert!(
        refused.err.contains("raise the retention of the inbox"),
        "{}",
        refused.err
    );
    place.write(
        "postrider.toml",
        &config("timeout = \"1m\"\ndrain_timeout = \"10s\"\n"),
    );
    place
        .run(&["config", "check"])
        .expect(2)
        .complains("must not be shorter than `timeout`");
}
