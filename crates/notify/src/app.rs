//! Everything that one process does for notifications, put together: events become notifications, fan-outs and digests
//! go on, deliveries go out, and feeds are served.
//!
//! ```no_run
//! # async fn example(
//! #     store: std::sync::Arc<dyn postrider_core::Store>,
//! #     effects: postrider_sqlite::SqliteEffects,
//! #     board: postrider_notify::SqliteBoard,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use postrider_notify::app::App;
//! use postrider_notify::http::Options;
//! use tokio_util::sync::CancellationToken;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7788").await?;
//! let handler = board.handler();
//! let app = App::builder(Arc::new(board), effects, handler)
//!     .outbox("shop", store)
//!     .direct(["CUSTOMER".to_owned()])
//!     .http(listener, Options::default())
//!     .build()?;
//! let stop = CancellationToken::new();
//! let report = app.run(stop).await?;
//! assert_eq!(report.relay.dead, 0);
//! # Ok(())
//! # }
//! ```

mod bells;
mod builder;
mod routes;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Effects, Sink};
use postrider_listener::Listener;
use postrider_relay::{Nudge, Relay};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Worker;
use crate::http::{Api, Hub};
use bells::Ringing;
pub use builder::{AppBuilder, AppError};
pub use routes::{DIRECT, routes, sink_name};

/// What is left of the time to stop when everything has had its own.
const REST: Duration = Duration::from_secs(5);

/// Everything that one process does for notifications. Several processes may run it on one database: they share the
/// work, and nothing is done twice.
pub struct App<E: Effects> {
    relay: Relay,
    listeners: Vec<Named<E>>,
    worker: Worker,
    http: Option<(TcpListener, Api)>,
    /// What is closed behind everything.
    sinks: Vec<Arc<dyn Sink>>,
    drain: Duration,
}

/// A listener, with the name of its consumer.
type Named<E> = (String, Listener<Ringing<E>>);

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What the relay of its outbox did. Where events take effect without a broker, they are counted here.
    pub relay: postrider_relay::Report,
    /// What each listener did, by its consumer.
    pub listeners: BTreeMap<String, postrider_listener::Report>,
    /// Whether something had to be broken off, because it did not end in time. Nothing is lost by that: it is done over
    /// by whoever starts next.
    pub broken_off: bool,
}

/// How a part ended.
enum Ended {
    Relay(postrider_relay::Report),
    Listener(String, postrider_listener::Report),
    Worker,
    Http(io::Result<()>),
}

impl<E: Effects> App<E> {
    /// Starts putting it together: the board, the database that it is in, and what a listener runs in there.
    pub fn builder(board: Arc<dyn crate::Board>, effects: E, handler: Arc<E::Handler>) -> AppBuilder<E> {
        AppBuilder::new(board, effects, handler)
    }

    /// Wakes the relay of its outbox after a commit, sooner than a doorbell could.
    pub fn nudger(&self) -> Nudge {
        self.relay.nudger()
    }

    /// What tells open feeds that something may be new, where they are served.
    pub fn hub(&self) -> Option<Hub> {
        self.http.as_ref().map(|(_, api)| api.hub().clone())
    }

    /// Works until the token is cancelled, then lets what is under way finish, within the time to drain.
    ///
    /// An error means that feeds cannot be served at that address; everything else has stopped in good order by then.
    pub async fn run(self, token: CancellationToken) -> io::Result<Report> {
        let limit = self.drain + REST;
        let sinks = self.sinks.clone();
        let stop = token.child_token();
        let mut parts = self.start(&stop);
        let mut report = Report::default();
        let mut outcome = Ok(());
        let all = async {
            while let Some(ended) = parts.join_next().await {
                match ended {
                    Ok(Ended::Relay(did)) => report.relay = did,
                    Ok(Ended::Listener(name, did)) => drop(report.listeners.insert(name, did)),
                    Ok(Ended::Worker) => {}
                    Ok(Ended::Http(ended)) => outcome = ended,
                    Err(error) => {
                        tracing::error!(%error, "a part of the notifications ended by a mistake of its own");
                        outcome = Err(io::Error::other("a part ended by a mistake of its own"));
                    }
                }
                // None ends by itself, so the others are of no use without it.
                stop.cancel();
            }
        };
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(limit).await;
        };
        let in_time = tokio::select! {
            () = all => true,
            () = deadline => false,
        };
        report.broken_off = !in_time;
        parts.shutdown().await;
        for sink in sinks {
            sink.close().await;
        }
        outcome.map(|()| report)
    }

    fn start(self, stop: &CancellationToken) -> JoinSet<Ended> {
        let mut parts = JoinSet::new();
        let (relay, token) = (self.relay, stop.clone());
        parts.spawn(async move { Ended::Relay(relay.run(token).await) });
        for (name, listener) in self.listeners {
            let token = stop.clone();
            parts.spawn(async move { Ended::Listener(name, listener.run(token).await) });
        }
        let (worker, token) = (self.worker, stop.clone());
        parts.spawn(async move {
            worker.run(token).await;
            Ended::Worker
        });
        if let Some((listener, api)) = self.http {
            let token = stop.clone();
            parts.spawn(async move { Ended::Http(api.serve(listener, token).await) });
        }
        parts
    }
}
