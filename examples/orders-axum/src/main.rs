//! A service that takes orders and tells others about them: each order and its event are committed in one transaction,
//! and a relay in the same process publishes what was committed.

mod orders;
mod relay;

use std::error::Error;

use axum::Router;
use axum::routing::{get, post};
use postrider::CancellationToken;
use sqlx::PgPool;
use tokio::signal::unix::{SignalKind, signal};

/// What every request needs.
#[derive(Clone)]
struct App {
    pool: PgPool,
    outbox: postrider::postgres::Outbox,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let pool = PgPool::connect(&setting("DATABASE_URL", "postgres://localhost/orders")).await?;
    let relay = relay::build(&pool, &setting("AMQP_URL", "amqp://localhost")).await?;
    orders::create_table(&pool).await?;

    let app = App {
        pool,
        outbox: postrider::postgres::Outbox::default(),
    };
    let routes = Router::new()
        .route("/orders", post(orders::place))
        .route("/orders/{id}", get(orders::show))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(setting("LISTEN", "127.0.0.1:8080")).await?;
    println!("listening on {}", listener.local_addr()?);

    let stop = CancellationToken::new();
    let relaying = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await }
    });
    let signalled = stop_signal()?;
    axum::serve(listener, routes)
        .with_graceful_shutdown(signalled)
        .await?;
    // Requests are answered; only now is the relay told, so that their events go out too. What is left, the next one
    // finds.
    stop.cancel();
    let report = relaying.await?;
    tracing::info!(published = report.published, "stopped");
    Ok(())
}

/// From the environment.
fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Ends with SIGTERM or SIGINT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
