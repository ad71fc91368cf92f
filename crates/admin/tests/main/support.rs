//! A relay that is watched, and a client that asks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use postrider_admin::{Admin, Options, Serving};
use postrider_core::{Event, Sink, Store};
use postrider_relay::{Observer, Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::wait::{PATIENCE, blocking};
use serde_json::Value;

/// One answer.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Asks once. A blocking client on a thread of its own: what is tested must answer even when the relays' runtime is
/// stuck.
pub(crate) fn ask(address: SocketAddr, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = body.to_owned();
    Answer {
        code,
        head: head.to_owned(),
        body,
    }
}

/// Waits until an answer is as it should be.
pub(crate) async fn until(
    address: SocketAddr,
    path: &'static str,
    wanted: impl Fn(&Answer) -> bool + Send + 'static,
) -> Answer {
    let asked = tokio::task::spawn_blocking(move || {
        blocking(PATIENCE, path, || {
            let answer = ask(address, path, "");
            match wanted(&answer) {
                true => Ok(answer),
                false => Err((answer.code, answer.body)),
            }
        })
    });
    asked.await.unwrap()
}

/// A watched relay on a store and a sink.
pub(crate) fn watched(
    admin: &Admin,
    store: Arc<dyn Store>,
    console: &MemoryStore,
    sink: Arc<dyn Sink>,
    also: Option<Arc<dyn Observer>>,
) -> Relay {
    let settings = Settings {
        poll_interval: Duration::from_millis(100),
        ..Settings::default()
    };
    let mut builder = Relay::builder()
        .name("orders")
        .store(store)
        .sink(sink)
        .settings(settings)
        .observer(admin.observer());
    if let Some(observer) = also {
        builder = builder.observer(observer);
    }
    let relay = builder.build().unwrap();
    admin.watch(&relay, Arc::new(console.clone()));
    relay
}

pub(crate) fn served(options: Options) -> (Admin, Serving, SocketAddr) {
    let admin = Admin::new(options);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = admin.clone().serve_apart(listener).unwrap();
    (admin, serving, address)
}

pub(crate) fn event(id: &str, event_type: &str) -> Event {
    Event::builder(event_type)
        .id(id)
        .aggregate("ORDER", id)
        .json("{\"secret\":\"canary-payload\"}")
        .build()
        .unwrap()
}
