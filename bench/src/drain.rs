//! The relay as users run it, into nothing.

use std::sync::Arc;

use postrider_postgres::PgStore;
use postrider_relay::Relay;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::Failure;
use crate::null::NullSink;

/// Relays until the outbox is empty.
pub(crate) async fn until_empty(store: PgStore) -> Result<Value, Failure> {
    let sink = Arc::new(NullSink::default());
    relay(store, &sink)?.drain().await;
    Ok(sink.rates().json())
}

/// Relays until standard input ends.
pub(crate) async fn until_told(store: PgStore) -> Result<Value, Failure> {
    let sink = Arc::new(NullSink::default());
    let relay = relay(store, &sink)?;
    let token = CancellationToken::new();
    let running = tokio::spawn({
        let token = token.clone();
        async move { relay.run(token).await }
    });
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    token.cancel();
    running.await?;
    Ok(sink.rates().json())
}

fn relay(store: PgStore, sink: &Arc<NullSink>) -> Result<Relay, Failure> {
    Ok(Relay::builder()
        .store(Arc::new(store))
        .sink(sink.clone())
        .build()?)
}
