//! The whole way on real servers: a business outbox, queues of RabbitMQ, notifications in PostgreSQL.

use postrider_testkit::servers::{Postgres, rabbitmq};
use serde_json::json;

use super::{call, feed, know};
use crate::endpoint::Endpoint;
use crate::faults::until;
use crate::http::port;
use crate::support::{Place, Running};

/// The configuration of one process; both have the outbox of orders, and only one is told of people.
fn config(shop: &str, notes: &str, broker: &str, port: u16) -> String {
    let outbox = format!("[outbox.notes]\nurl = \"{notes}\"\n\n[broker.events]");
    let rabbit = "[broker.events.rabbitmq]\ndeclare = true\npreset = \"notifications\"";
    let key = "routing_key = \"notification.{aggregate_type|lower}\"";
    let to = format!("broker = \"events\", exchange = \"notifications.exchange\", {key} }}");
    super::config(port)
        .replace("sqlite:postrider.db", shop)
        .replace("[broker.events]", &outbox)
        .replace("file:events.jsonl\"", &format!("{broker}\"\n{rabbit}"))
        .replace("broker = \"events\" }", &to)
        .replace("lease = \"1s\"\n", "")
        .replace(
            "[notify]\n",
            "[notify]\noutbox = \"notes\"\nbroker = \"events\"\n",
        )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_goes_by_a_queue_to_everybody_of_an_audience() {
    let server = Postgres::shared();
    let (shop, notes) = (server.database(), server.database());
    let broker = rabbitmq::private().await;
    let (place, port) = (Place::empty(), port());
    place.write(
        "postrider.toml",
        &config(&shop.url, &notes.url, &broker.url(), port),
    );
    place.run(&["migrate", "up"]).expect(0);
    place.run(&["notify", "migrate", "up"]).expect(0);
    let endpoint = Endpoint::start(|_, _| (200, ""));
    let relay = Running::start(&place, &["run"]);
    let running = Running::start(&place, &["notify", "run", "--json"]);
    for id in ["ada", "alan", "emmy"] {
        know(port, id, (id == "ada").then(|| endpoint.url()).as_deref());
    }
    let muted = json!({ "preferences": [{ "category": "orders", "on": false }] }).to_string();
    let said = call(port, "PUT", "/recipients/emmy/preferences", &muted);
    assert!(said.as_ref().is_some_and(|(code, _)| *code < 300), "{said:?}");

    let payload = json!({ "recipientType": "BROADCAST", "order": "7" }).to_string();
    let send = [
        "send",
        "--outbox",
        "main",
        "--type",
        "OrderPlaced",
        "--aggregate",
        "CUSTOMER/1",
        "--id",
        "order-1",
    ];
    place
        .run(&[&send[..], &["--payload", &payload]].concat())
        .expect(0);
    until("it is in the feeds", || {
        feed(port, "ada") == ["order-1"] && feed(port, "alan") == ["order-1"]
    });
    until("it was pushed", || endpoint.calls().len() == 1);
    assert!(feed(port, "emmy").is_empty(), "who said no is not told");
    relay.stop().expect(0);
    let report = running.stop().expect(0).json();
    assert_eq!(report["listeners"]["notify-customer"]["effects"], 1, "{report}");
    assert_eq!(report["dead"], 0, "{report}");
    let shown = place
        .run(&["notify", "show", "--event", "order-1", "--json"])
        .expect(0)
        .json();
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
}
