//! A service that listens: events from a queue of RabbitMQ have one effect each in PostgreSQL.

use std::sync::Arc;

use postrider_core::{
    Address, Applied, ApplyError, BoxFuture, Effects, HandlerError, Received, RetryPolicy, StoreError,
    StoreErrorKind,
};
use postrider_listener::{DeadLetters, Listener, ListenerBuilder};
use postrider_postgres::{Inbox, PgEffects, PgHandler, PgOptions, handler};
use postrider_rabbitmq::{RabbitOptions, RabbitSink, RabbitSource};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// The same for every instance: to the inbox they are one consumer.
const CONSUMER: &str = "scenario";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The broker
    #[arg(long)]
    rabbit: String,
    #[arg(long)]
    queue: String,
    /// The routing key of dead letters
    #[arg(long, default_value = "dead")]
    dead_key: String,
    /// Where dead letters go; by default to the queue of that name
    #[arg(long)]
    dead_exchange: Option<String>,
    /// Do the same transactions without a record of the events
    #[arg(long)]
    without_inbox: bool,
    #[arg(long, default_value_t = 4)]
    concurrency: usize,
    #[arg(long, default_value_t = 200)]
    prefetch: u16,
    #[arg(long, default_value_t = 50)]
    batch: usize,
    /// Redeliveries of a message that are allowed; kills make many
    #[arg(long, default_value_t = 1_000)]
    redeliveries: u32,
}

/// Listens until standard input ends; gives what it did.
pub(crate) async fn until_told(url: &str, args: Args) -> Result<Value, Failure> {
    if args.without_inbox {
        return run(Bare::connect(url, args.concurrency).await?, args).await;
    }
    let effects = PgEffects::new(url, PgOptions::default(), Inbox::default(), args.concurrency)?;
    effects.migrate().await?;
    run(effects, args).await
}

async fn run<E: Effects<Handler = PgHandler>>(effects: E, args: Args) -> Result<Value, Failure> {
    let options = || RabbitOptions::new(args.rabbit.as_str()).prefetch(args.prefetch);
    let source = RabbitSource::new(options(), &args.queue)?;
    let exchange = args
        .dead_exchange
        .iter()
        .map(|name| ("exchange".to_owned(), name.clone()));
    let key = ("routing_key".to_owned(), args.dead_key.clone());
    let address = Address(exchange.chain([key]).collect());
    let sink = Arc::new(RabbitSink::new(options())?);
    let builder: ListenerBuilder<E> = Listener::builder(Arc::new(source), effects)
        .consumer(CONSUMER)
        .handler(writes_one_row())
        .dead_letters(DeadLetters::to(sink, address))
        .concurrency(args.concurrency)
        .prefetch(usize::from(args.prefetch))
        .batch(args.batch)
        .retry(RetryPolicy {
            base: std::time::Duration::from_millis(100),
            max_attempts: 3,
            ..RetryPolicy::default()
        })
        .redelivery_limit(args.redeliveries);
    let listener = builder.build()?;
    let token = CancellationToken::new();
    let running = tokio::spawn({
        let (listener, token) = (listener.clone(), token.clone());
        async move { listener.run(token).await }
    });
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    token.cancel();
    let report = running.await?;
    Ok(json!({
        "received": report.received,
        "effects": report.effects,
        "duplicates": report.duplicates,
        "redelivered": report.redelivered,
        "retries": report.retries,
        "dead_letters": report.dead_letters,
    }))
}

/// The effect: one row, in a table that would take it twice. A payload without a number is never right.
fn writes_one_row() -> Arc<PgHandler> {
    handler(|event, tx| {
        Box::pin(async move {
            let payload: Value = event.json()?;
            if payload["crash"] == true {
                // What a message does to a handler that it takes down with its process.
                std::process::abort();
            }
            let n = payload["n"].as_i64();
            let n = n.ok_or_else(|| HandlerError::retry("the payload has no number"))?;
            let row: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&event.event_id(), &event.aggregate_id(), &n];
            tx.execute("INSERT INTO effects (id, key, n) VALUES ($1, $2, $3)", &row)
                .await?;
            Ok(())
        })
    })
}

/// The same transactions with nothing recorded: what the inbox costs is the difference.
struct Bare {
    clients: Vec<Mutex<Client>>,
}

impl Bare {
    async fn connect(url: &str, connections: usize) -> Result<Self, Failure> {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            // Its end shows in the next statement.
            tokio::spawn(connection);
            clients.push(Mutex::new(client));
        }
        Ok(Self { clients })
    }
}

impl Effects for Bare {
    type Handler = PgHandler;

    fn apply(
        &self,
        _: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<PgHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let mut client =
                futures_util::future::select_all(self.clients.iter().map(|client| Box::pin(client.lock())))
                    .await
                    .0;
            let failed = |error: tokio_postgres::Error| {
                let error =
                    StoreError::new(StoreErrorKind::Unreachable, "a bare transaction").with_source(error);
                ApplyError::Store(error)
            };
            let tx = client.transaction().await.map_err(failed)?;
            for (at, delivery) in deliveries.iter().enumerate() {
                let done = handler(delivery, &tx).await;
                done.map_err(|error| ApplyError::Handler { at, error })?;
            }
            tx.commit().await.map_err(failed)?;
            Ok(vec![Applied::Now; deliveries.len()])
        })
    }
}
