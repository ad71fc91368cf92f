//! A TCP proxy that fails on request: it cuts, delays, swallows and slices.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What is done to the bytes of every connection, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Nothing passes any more, and nobody is told: what a dead switch looks like.
    pub blackhole: bool,
    /// Only what the server says is swallowed: the messages arrive, the confirms do not.
    pub deaf: bool,
    /// Every piece waits this long.
    pub delay: Duration,
    /// No piece is larger than this.
    pub slice: usize,
    /// New connections are closed at once.
    pub refuse: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            blackhole: false,
            deaf: false,
            delay: Duration::ZERO,
            slice: usize::MAX,
            refuse: false,
        }
    }
}

/// A proxy in front of one server, on a port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    faults: watch::Sender<Faults>,
    /// Raised to end every connection there is.
    cuts: watch::Sender<u64>,
    /// Bytes that may still go to the server before everything is cut.
    allowance: AtomicU64,
    /// The port of the server.
    server: AtomicU16,
}

impl Proxy {
    /// Listens on loopback and forwards to a server there.
    pub async fn start(server: u16) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            faults: watch::Sender::default(),
            cuts: watch::Sender::default(),
            allowance: AtomicU64::new(u64::MAX),
            server: AtomicU16::new(server),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Proxy {
            port,
            shared,
            accepting,
        })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what is done to all connections, those under way included.
    pub fn set(&self, faults: Faults) {
        self.shared.faults.send_replace(faults);
    }

    /// Leads to another server, as an address does after a failover. Connections to the one before end.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::SeqCst);
        self.shared.cut();
    }

    /// Ends every connection at once. New ones are taken.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Ends every connection after this many more bytes to the server: in the middle of whatever they are.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.allowance.store(bytes, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.cut();
    }
}

impl Shared {
    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How much of a piece may go to the server; less than all of it means that everything is cut afterwards.
    fn allow(&self, wanted: usize) -> usize {
        let wanted = wanted as u64;
        let spend = |left: u64| match left {
            u64::MAX => None,
            left => Some(left.saturating_sub(wanted)),
        };
        match self
            .allowance
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend)
        {
            Ok(left) if left <= wanted => {
                self.allowance.store(u64::MAX, Ordering::SeqCst);
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.faults.borrow().refuse {
            continue;
        }
        tokio::spawn(forward(client, Arc::clone(&shared)));
    }
}

async fn forward(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let server = ("127.0.0.1", shared.server.load(Ordering::SeqCst));
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    // Pieces must arrive as they are sent, or slicing them would change nothing.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = copy(from_client, to_server, &shared, true) => {}
        () = copy(from_server, to_client, &shared, false) => {}
        _ = cuts.changed() => {}
    }
}

/// Copies one direction until either side ends. When one direction ends, so does the connection.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, to_server: bool) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let faults = *shared.faults.borrow();
            if !faults.delay.is_zero() {
                // The slowness of the network itself.
                tokio::time::sleep(faults.delay).await;
            }
            let (piece, left) = rest.split_at(rest.len().min(faults.slice.max(1)));
            rest = left;
            if faults.blackhole || (faults.deaf && !to_server) {
                continue;
            }
            let allowed = if to_server {
                shared.allow(piece.len())
            } else {
                usize::MAX
            };
            let piece = &piece[..piece.len().min(allowed)];
            if to.write_all(piece).await.is_err() {
                return;
            }
            if allowed != usize::MAX {
                shared.cut();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    async fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        port
    }

    async fn say(stream: &mut TcpStream, text: &[u8]) -> Option<Vec<u8>> {
        stream.write_all(text).await.ok()?;
        let mut answer = vec![0; text.len()];
        let read = stream.read_exact(&mut answer);
        let read = tokio::time::timeout(Duration::from_millis(300), read).await;
        read.ok()?.ok()?;
        Some(answer)
    }

    #[tokio::test]
    async fn each_fault_does_what_it_says() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        assert_eq!(say(&mut stream, b"hello").await.unwrap(), b"hello");
        proxy.set(Faults {
            slice: 1,
            delay: Duration::from_millis(1),
            ..Faults::default()
        });
        assert_eq!(say(&mut stream, b"sliced").await.unwrap(), b"sliced");
        proxy.set(Faults {
            blackhole: true,
            ..Faults::default()
        });
        assert_eq!(say(&mut stream, b"nobody").await, None);
        proxy.set(Faults::default());
        assert_eq!(say(&mut stream, b"again").await.unwrap(), b"again");
        proxy.cut();
        assert_eq!(say(&mut stream, b"gone").await, None);
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        assert_eq!(say(&mut stream, b"anew").await.unwrap(), b"anew");
        proxy.cut_after(3);
        assert_eq!(say(&mut stream, b"abcdef").await, None);
    }
}
