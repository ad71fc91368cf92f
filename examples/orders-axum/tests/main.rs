//! The example as people run it: a process between a real PostgreSQL and a real RabbitMQ.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use postrider::rabbitmq::{RabbitOptions, RabbitSource};
use postrider::{Source, Verdict};
use postrider_testkit::process::Process;
use postrider_testkit::servers::{Postgres, rabbitmq};
use postrider_testkit::wait::within;
use serde_json::Value;

const ORDERS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_taken_published_in_order_and_the_service_stops_well() {
    let (database, vhost) = (Postgres::shared().database(), rabbitmq::shared().await);
    let mut service = Process::spawn(
        Command::new(env!("CARGO_BIN_EXE_orders-axum"))
            .env("DATABASE_URL", &database.url)
            .env("AMQP_URL", vhost.url())
            .env("LISTEN", "127.0.0.1:0")
            .stdout(Stdio::piped()),
    )
    .expect("the service starts");
    let mut line = String::new();
    let output = service.child().stdout.take().expect("it is piped");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("it says where");
    let address = line.trim().rsplit(' ').next().expect("an address").to_owned();

    for n in 1..=ORDERS {
        let customer = ["ada", "O'Brien é 😀"][n % 2];
        let body = format!("{{\"customer\":\"{customer}\",\"total\":{n}}}");
        let (status, order) = ask(&address, "POST", "/orders", &body);
        assert_eq!((status, &order["total"]), (201, &Value::from(n)), "{order}");
    }
    let (status, order) = ask(&address, "GET", "/orders/1", "");
    assert_eq!((status, &order["customer"]), (200, &Value::from("O'Brien é 😀")));
    assert_eq!(ask(&address, "GET", "/orders/999999", "").0, 404);
    assert_eq!(ask(&address, "POST", "/orders", "{}").0, 422);

    until_published(&database.name).await;
    let arrived = arrived(&vhost.url()).await;
    assert_eq!(arrived.len(), ORDERS);
    for customer in ["ada", "O'Brien é 😀"] {
        let totals: Vec<i64> = arrived
            .iter()
            .filter(|event| event["aggregate_id"] == customer)
            .filter_map(|event| event["payload"]["total"].as_i64())
            .collect();
        assert_eq!(totals.len(), ORDERS / 2, "each order once");
        assert!(totals.is_sorted(), "{customer}: {totals:?}");
    }
    service.terminate().expect("it can be asked to stop");
    let ended = service.wait(PATIENCE).expect("it can be waited for");
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let left = Postgres::shared().sql(
        &database.name,
        "SELECT count(*) FROM outbox_events WHERE NOT published",
    );
    assert_eq!(left, "0");
}

/// Waits until the relay has settled every order. Its queue is there then: it is declared with the first publish.
async fn until_published(database: &str) {
    let count = "SELECT count(*) FROM outbox_events WHERE published";
    within(PATIENCE, "every order is published", async || {
        (Postgres::shared().sql(database, count) == ORDERS.to_string()).then_some(())
    })
    .await;
}

/// Takes that many messages, in their order.
async fn arrived(url: &str) -> Vec<Value> {
    let source = RabbitSource::new(RabbitOptions::new(url), "orders.placed").expect("good options");
    let mut events = Vec::new();
    while events.len() < ORDERS {
        let received = tokio::time::timeout(PATIENCE, source.receive(ORDERS)).await;
        let received = received.expect("messages arrive").expect("the queue can be read");
        let done = received.iter().map(|one| (one.tag, Verdict::Done)).collect();
        events.extend(received.iter().map(|one| {
            let event: Value = serde_json::from_slice(&one.message.body).expect("it is JSON");
            event
        }));
        source.settle(done).await.expect("they are acknowledged");
    }
    source.close().await;
    events
}

/// One request; the status, and the body if it is JSON.
fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a limit can be set");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the service answers");
    let status = answer
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (
        status.expect("an answer of HTTP"),
        serde_json::from_str(body).unwrap_or_default(),
    )
}
