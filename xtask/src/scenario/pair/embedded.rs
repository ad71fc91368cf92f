//! A service that has its relays in its own process, as the library is used without the binary.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_core::{
    Condition, DeadLetter, Destination, DestinationName, Envelope, Limits, RetryPolicy, Router, Sink,
    Template,
};
use postrider_postgres::{PgOptions, PgStore};
use postrider_rabbitmq::{Binding, Exchange, Queue, RabbitOptions, RabbitSink, Topology};
use postrider_relay::Relay;
use tokio_util::sync::CancellationToken;

use super::configuration::{Exchanges, queue, routing_key};
use crate::failure::Result;
use crate::scenario::producer::stop_at_end_of_input;

/// `cargo xtask pair-embedded`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    database: String,
    #[arg(long)]
    rabbit: String,
    /// How many relays share the store, the sink and the token
    #[arg(long)]
    relays: usize,
}

/// Runs the relays until standard input is closed; prints what each of them published.
pub(crate) fn run(args: &Args) -> Result<()> {
    let stop = stop_at_end_of_input();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = PgStore::connect(&args.database, PgOptions::default()).await?;
        let sink = RabbitSink::new(RabbitOptions::new(args.rabbit.clone()).declare(topology()))?;
        let (store, token) = (Arc::new(store), CancellationToken::new());
        let mut relays = Vec::new();
        for _ in 0..args.relays {
            let relay = Relay::builder()
                .name("shop")
                .store(store.clone())
                .sink(Arc::new(sink.clone()))
                .router(router()?)
                .build()?;
            let token = token.clone();
            relays.push(tokio::spawn(async move { relay.run(token).await }));
        }
        while !stop.load(Ordering::Relaxed) {
            // The flag is set by a thread that blocks, which has no way to wake a task.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        token.cancel();
        for relay in relays {
            println!("{}", relay.await?.published);
        }
        sink.close().await;
        Ok(())
    })
}

fn topology() -> Topology {
    let exchange = Exchanges::One.of(0);
    let mut topology = Topology::default();
    topology.exchanges.push(Exchange {
        name: exchange.clone(),
        kind: "topic".to_owned(),
    });
    topology.queues.push(Queue {
        name: queue(0),
        ..Queue::default()
    });
    topology.bindings.push(Binding {
        exchange,
        queue: queue(0),
        routing_key: routing_key(0),
    });
    topology
}

fn router() -> Result<Router> {
    let address = [
        ("exchange", Exchanges::One.of(0)),
        ("routing_key", routing_key(0)),
    ];
    let template = |(part, text): &(&str, String)| Ok((part.to_string(), Template::parse(text)?));
    let destination = Destination {
        name: DestinationName::new("rabbit"),
        broker: "default".to_owned(),
        address: address.iter().map(template).collect::<Result<_>>()?,
        message_key: None,
        envelope: Envelope::Flat,
        dead_letter: DeadLetter::Hold,
        retry: RetryPolicy::default(),
        limits: Limits::default(),
    };
    Ok(Router::builder()
        .route(Condition::default(), vec![destination])?
        .build())
}
