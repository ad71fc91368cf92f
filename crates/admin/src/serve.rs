//! The listener. A slow or hostile client is bounded in time, bytes and number, and costs publishing nothing.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::Admin;

/// How many clients are served at a time.
const CONNECTIONS: usize = 64;
/// How long a client may take to say what it wants.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// How long a connection lasts, however it is used. A client that reads nothing must not keep its place.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// How large a request may be; nothing that is asked here has a body.
const REQUEST_BYTES: usize = 16 * 1024;
/// A failed accept (too many open files) must not become a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

impl Admin {
    /// Answers on a listener until the token is cancelled. Never fails: a client's fault is the client's.
    ///
    /// Whoever binds to an address that other machines can reach asks [`crate::check_address`] first.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let service = TowerToHyperService::new(self.own_router());
        let mut places = Places::default();
        loop {
            let stream = match stop.run_until_cancelled(listener.accept()).await {
                None => return,
                Some(Ok((stream, _))) => stream,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a client could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .max_buf_size(REQUEST_BYTES)
                .serve_connection(TokioIo::new(stream), service.clone());
            let stop = stop.clone();
            places.take(tokio::spawn(async move {
                // A client that breaks off or sends nonsense is nobody's business but its own.
                let _ = stop
                    .run_until_cancelled(tokio::time::timeout(CONNECTION_TIME, connection))
                    .await;
            }));
            // Who has already said what it wants is answered before somebody else can take its place.
            tokio::task::yield_now().await;
        }
    }

    /// Answers on a thread of its own, so that `/health/live` can still say that the relays' runtime is stuck.
    pub fn serve_apart(self, listener: std::net::TcpListener) -> io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        std::thread::Builder::new()
            .name("postrider-admin".to_owned())
            .spawn(move || {
                let listener = {
                    let _inside = runtime.enter();
                    TcpListener::from_std(listener)
                };
                match listener {
                    Ok(listener) => runtime.block_on(self.serve(listener, stopped)),
                    Err(error) => {
                        tracing::warn!(%error, "health and metrics cannot be served; publishing goes on")
                    }
                }
            })?;
        Ok(Serving {
            _stop: stop.drop_guard(),
        })
    }
}

/// The clients that are served, the longest first.
///
/// A newcomer never waits for a place: when there is none, the client that has had one longest loses it. Waiting
/// would let a crowd that says nothing keep `/health/live` from being answered, and a process that is well would be
/// restarted.
#[derive(Default)]
struct Places(VecDeque<AbortHandle>);

impl Places {
    fn take(&mut self, client: JoinHandle<()>) {
        self.0.retain(|client| !client.is_finished());
        if self.0.len() >= CONNECTIONS
            && let Some(longest) = self.0.pop_front()
        {
            longest.abort();
        }
        self.0.push_back(client.abort_handle());
    }
}

/// A listener on a thread of its own; it ends when this is dropped.
#[derive(Debug)]
pub struct Serving {
    _stop: tokio_util::sync::DropGuard,
}
