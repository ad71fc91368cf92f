//! A process that is up and does nothing is not alive.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_admin::{Options, Thresholds};
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Run};
use postrider_testkit::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::support::{event, served, until, watched};

/// Blocks the relay's loop at the first publish, as a deadlock would.
struct Stuck(Mutex<Option<Receiver<()>>>);

impl Stuck {
    fn new() -> (Arc<Stuck>, Sender<()>) {
        let (free, gate) = channel();
        (Arc::new(Stuck(Mutex::new(Some(gate)))), free)
    }
}

impl Observer for Stuck {
    fn note(&self, _: Run<'_>, note: &Note) {
        if matches!(note, Note::Published { .. })
            && let Some(gate) = self.0.lock().unwrap().take()
        {
            let _ = gate.recv();
        }
    }
}

/// Fault C8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_fails_while_a_loop_is_stuck_and_recovers_with_it() {
    let thresholds = Thresholds {
        stuck_after: Duration::from_millis(300),
        ..Thresholds::default()
    };
    let (admin, _serving, address) = served(Options {
        thresholds,
        ..Options::default()
    });
    let (store, sink, (stuck, free)) = (MemoryStore::new(4), MemorySink::new(), Stuck::new());
    let relay = watched(
        &admin,
        Arc::new(store.clone()),
        &store,
        Arc::new(sink),
        Some(stuck),
    );
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await }
    });
    until(address, "/health/live", |answer| answer.code == 200).await;
    store.enqueue(event("one", "Placed")).unwrap();
    let answer = until(address, "/health/live", |answer| answer.code == 503).await;
    assert_eq!(answer.json()["status"], "stuck");
    until(address, "/health/ready", |answer| answer.code == 200).await;
    free.send(()).unwrap();
    let answer = until(address, "/health/live", |answer| answer.code == 200).await;
    assert_eq!(answer.json()["status"], "alive");
    admin.stopping();
    let answer = until(address, "/health/ready", |answer| answer.code == 503).await;
    assert_eq!(answer.json()["status"], "stopping");
    stop.cancel();
    running.await.unwrap();
}
