//! Clients that mean no good, or that are just slow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_admin::Options;
use postrider_core::Secret;
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;
use postrider_testkit::wait::PATIENCE;

use crate::support::{ask, served, watched};

/// Faults H5 and H11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_but_the_probes_asks_for_the_token() {
    let (admin, _serving, address) = served(Options {
        token: Some(Secret::new("a-long-and-secret-token")),
        ..Options::default()
    });
    let store = MemoryStore::new(1);
    let _relay = watched(
        &admin,
        Arc::new(store.clone()),
        &store,
        Arc::new(MemorySink::new()),
        None,
    );
    tokio::task::spawn_blocking(move || {
        for path in ["/health/live", "/health/ready"] {
            assert_eq!(ask(address, path, "").code, 200);
        }
        for path in ["/health/outbox", "/stats", "/metrics"] {
            let refused = ask(address, path, "");
            assert_eq!(refused.code, 401);
            assert!(refused.head.to_lowercase().contains("www-authenticate: bearer"));
            assert_eq!(
                ask(address, path, "Authorization: Bearer a-long-and-secret-tokeN\r\n").code,
                401
            );
            let allowed = ask(address, path, "Authorization: Bearer a-long-and-secret-token\r\n");
            assert_eq!(allowed.code, 200);
            assert!(!allowed.body.contains("a-long-and-secret-token"));
            assert!(allowed.head.to_lowercase().contains("cache-control: no-store"));
        }
    })
    .await
    .unwrap();
}

/// Fault H10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_somebody_else_pointed_at_us_is_refused() {
    let (_admin, _serving, address) = served(Options::default());
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
            .write_all(b"GET /stats HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    })
    .await
    .unwrap();
}

/// Clients that take a place and let nobody else have it, as long as they are held.
fn crowd(address: SocketAddr, number: usize, says: &[u8]) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // One that was turned out already cannot be written to.
        let _ = stream.write_all(says);
        stream
    };
    (0..number).map(one).collect()
}

/// Asks whether we live. The answer must come in less time than a client of the crowd has: then nobody had to leave on
/// time for it.
fn assert_alive_within(address: SocketAddr, less_than_theirs: Duration) {
    let begun = Instant::now();
    assert_eq!(ask(address, "/health/live", "").code, 200);
    assert!(begun.elapsed() < less_than_theirs, "{:?}", begun.elapsed());
}

/// Fault H21: clients that never finish their request do not keep others from being answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_says_nothing_does_not_hide_that_we_live() {
    let (_admin, _serving, address) = served(Options::default());
    tokio::task::spawn_blocking(move || {
        for says in [b"GET /stats HTTP/1.1\r\nX-Slow: ".as_slice(), b""] {
            let _crowd = crowd(address, 300, says);
            for _ in 0..10 {
                // A client has 5 s for its header.
                assert_alive_within(address, Duration::from_secs(3));
            }
        }
    })
    .await
    .unwrap();
}

/// Fault H21: nor do clients that ask and ask and read nothing of what they get.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_reads_nothing_does_not_hide_that_we_live() {
    let (_admin, _serving, address) = served(Options::default());
    tokio::task::spawn_blocking(move || {
        let many = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
        let _crowd = crowd(address, 200, many.as_bytes());
        // A client has a minute for all that it asks. Up to 40,000 answers are computed meanwhile, which takes a busy
        // machine seconds.
        assert_alive_within(address, Duration::from_secs(10));
    })
    .await
    .unwrap();
}

/// Fault H21: the number of clients is bounded; the one that has been there longest goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_of_too_many_clients_is_turned_out() {
    let (_admin, _serving, address) = served(Options::default());
    tokio::task::spawn_blocking(move || {
        let mut crowd = crowd(address, 65, b"GET /stats HTTP/1.1\r\nX-Slow: ");
        let begun = Instant::now();
        crowd[0].set_read_timeout(Some(PATIENCE)).unwrap();
        // Closed, or reset because of what it had said: gone in any case.
        assert_eq!(crowd[0].read(&mut [0; 16]).unwrap_or(0), 0);
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "it left on time, not for another"
        );
        crowd[64].set_nonblocking(true).unwrap();
        let last = crowd[64].read(&mut [0; 16]).unwrap_err();
        assert_eq!(last.kind(), std::io::ErrorKind::WouldBlock);
    })
    .await
    .unwrap();
}

/// Fault H21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_bound_is_not_read() {
    let (_admin, _serving, address) = served(Options::default());
    tokio::task::spawn_blocking(move || {
        let mut large = TcpStream::connect(address).unwrap();
        large.set_read_timeout(Some(PATIENCE)).unwrap();
        let header = format!("GET /stats HTTP/1.1\r\nX-Large: {}\r\n\r\n", "x".repeat(100_000));
        // The server may close before it has taken all of it.
        let _ = large.write_all(header.as_bytes());
        let mut text = Vec::new();
        let _ = large.read_to_end(&mut text);
        assert!(!text.starts_with(b"HTTP/1.1 200"), "a header without a bound");
    })
    .await
    .unwrap();
}
