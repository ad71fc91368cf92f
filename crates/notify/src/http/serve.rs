//! The listener. A slow or hostile client is bounded in time, bytes and number.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use postrider_admin::{RefusedAddress, check_address};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Api;
use super::stall::Impatient;

/// How many clients are served at a time: twice as many as there are streams, so that who only asks finds a place.
const CONNECTIONS: usize = 1_024;
/// How long a client may take to say what it wants, and how long a connection waits for the next request.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a client may take to read anything of an answer.
const READ_TIME: Duration = Duration::from_secs(30);
/// How large a request may be before its body.
const HEADER_BYTES: usize = 16 * 1024;
/// How long requests that are being answered have when the server stops.
const DRAIN: Duration = Duration::from_millis(800);
/// A failed accept (too many open files) must not become a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

impl Api {
    /// Answers on a listener until the token is cancelled, and is done a second later at most: open streams are ended.
    ///
    /// Refuses an address that other machines can reach where no token is set, and a demo there: its page shows the
    /// feed of anybody in it.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        let address = listener.local_addr()?;
        let near = self.admit(address)?;
        let router = self.routes(near);
        let (places, clients) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
        loop {
            let next = async {
                let place = places.clone().acquire_owned().await;
                (place, listener.accept().await)
            };
            match stop.run_until_cancelled(next).await {
                None => break,
                Some((place, Ok((stream, _)))) => {
                    let connection = connection(stream, router.clone(), stop.clone());
                    clients.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Some((_, Err(error))) => {
                    tracing::debug!(%error, "a client could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        // Streams do not end by themselves, and a graceful end would wait for them for ever.
        self.hub().close();
        clients.close();
        clients.wait().await;
        Ok(())
    }

    /// Whether only this machine can reach an address; an error where nobody may be let in there.
    fn admit(&self, address: SocketAddr) -> io::Result<bool> {
        let options = &self.inner.options;
        let refused = |text: String| io::Error::new(io::ErrorKind::PermissionDenied, text);
        check_address(address, options.token.as_ref())
            .map_err(|error: RefusedAddress| refused(format!("{error}; set one, or listen on 127.0.0.1")))?;
        let near = address.ip().to_canonical().is_loopback();
        match options.demo.is_some() && !near {
            true => Err(refused(format!(
                "{address} can be reached from other machines, and the demo shows everybody's feed; listen on 127.0.0.1"
            ))),
            false => Ok(near),
        }
    }
}

/// One client. Its faults are its own.
async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    // What is live goes out at once.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Impatient::new(stream, READ_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(io, TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    if stop.run_until_cancelled(connection.as_mut()).await.is_some() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(DRAIN, connection).await;
}
