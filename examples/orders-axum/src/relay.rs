//! The relay of this service: from its own database to RabbitMQ.

use std::error::Error;
use std::sync::Arc;

use postrider::postgres::{PgOptions, PgStore};
use postrider::rabbitmq::{Binding, Exchange, Queue, RabbitOptions, RabbitSink, Topology};
use postrider::{DeadLetter, Destination, Envelope, Limits, Relay, RetryPolicy, Router, Schema, Template};
use sqlx::PgPool;

const EXCHANGE: &str = "orders";
const QUEUE: &str = "orders.placed";

/// Makes the outbox if it is not there, and a relay that carries it to the exchange. RabbitMQ may be away: orders are
/// taken all the same, and published when it is back.
pub(crate) async fn build(pool: &PgPool, broker: &str) -> Result<Relay, Box<dyn Error>> {
    let store = PgStore::from_sqlx(pool, PgOptions::default())?;
    store.up().await?;
    let sink = RabbitSink::new(RabbitOptions::new(broker).declare(topology()))?;
    let relay = Relay::builder()
        .store(Arc::new(store))
        .sink_named("rabbit", Arc::new(sink))
        .router(Router::all_to(destination()?))
        .build()?;
    Ok(relay)
}

/// Every event, by its type.
fn destination() -> Result<Destination, Box<dyn Error>> {
    Ok(Destination {
        name: "orders".into(),
        broker: "rabbit".to_owned(),
        address: vec![
            ("exchange".to_owned(), Template::parse(EXCHANGE)?),
            ("routing_key".to_owned(), Template::parse("{event_type}")?),
        ],
        message_key: None,
        envelope: Envelope::Flat,
        dead_letter: DeadLetter::Hold,
        retry: RetryPolicy::default(),
        limits: Limits::default(),
    })
}

/// One queue with one consumer at a time, which keeps the order for consumers too.
fn topology() -> Topology {
    Topology {
        exchanges: vec![Exchange {
            name: EXCHANGE.to_owned(),
            kind: "topic".to_owned(),
        }],
        queues: vec![Queue {
            name: QUEUE.to_owned(),
            single_active_consumer: true,
            ..Queue::default()
        }],
        bindings: vec![Binding {
            exchange: EXCHANGE.to_owned(),
            queue: QUEUE.to_owned(),
            routing_key: "OrderPlaced".to_owned(),
        }],
    }
}
