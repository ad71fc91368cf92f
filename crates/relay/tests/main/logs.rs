//! What is written to the log, and what never is.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    BoxFuture, ErrorKind, Event, Heartbeat, Page, Read, Settle, Settled, Standing, Store, StoreError,
    StoreErrorKind,
};
use postrider_memory::MemorySink;
use postrider_relay::{Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultyStore};

use crate::support::*;

thread_local! {
    /// The lines of the test that runs on this thread. Tests that capture run on one thread with all their tasks.
    static LINES: RefCell<Option<Rc<RefCell<Vec<String>>>>> = const { RefCell::new(None) };
}

/// The log of one test, from the beginning to the drop.
pub(crate) struct Captured(Rc<RefCell<Vec<String>>>);

impl Captured {
    pub(crate) fn begin() -> Self {
        // As loud as can be.
        postrider_testkit::log::collect(|_| true, keep);
        let lines = Rc::new(RefCell::new(Vec::new()));
        LINES.set(Some(lines.clone()));
        Self(lines)
    }

    pub(crate) fn matching(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let lines = self.0.borrow();
        lines.iter().filter(|line| wanted(line)).cloned().collect()
    }
}

fn keep(line: String) {
    LINES.with_borrow(|lines| {
        if let Some(lines) = lines {
            lines.borrow_mut().push(line);
        }
    });
}

impl Drop for Captured {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

#[tokio::test]
async fn an_error_of_the_database_reaches_the_log_with_advice() {
    let lines = Captured::begin();
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    let store = FaultyStore::new(Arc::new(memory.clone()));
    store
        .heartbeats()
        .on(1, Fault::Reject(StoreErrorKind::Unreachable));
    store.reads().on(1, Fault::Reject(StoreErrorKind::Schema));
    store.settles().on(1, Fault::FailAfterWrite(StoreErrorKind::Full));
    commit(&memory, &["a"], 3);
    drained(&relay(&store, &sink)).await;
    let has = |parts: &[&str]| {
        let found = lines.matching(|line| parts.iter().all(|part| line.contains(part)));
        assert_eq!(found.len(), 1, "{parts:?}: {found:?}");
    };
    has(&[
        "WARN",
        "heartbeat was refused by the script",
        "unreachable",
        "is running",
    ]);
    has(&[
        "WARN",
        "read was refused by the script",
        "schema",
        "postrider migrate up",
    ]);
    has(&["WARN", "lost the answer of a settle", "full", "free disk space"]);
}

#[tokio::test]
async fn no_payload_and_no_header_of_an_event_reaches_the_log() {
    const CANARY: &str = "canary-4f1c";
    let lines = Captured::begin();
    let (memory, sink, heard) = (MemoryStore::new(4), MemorySink::new(), Arc::new(Heard::default()));
    let store = FaultyStore::new(Arc::new(memory.clone()));
    store.reads().on(2, Fault::Reject(StoreErrorKind::Other));
    store
        .settles()
        .on(1, Fault::FailAfterWrite(StoreErrorKind::Unreachable));
    let secret = |event_type: &str, id: &str| -> Event {
        Event::builder(event_type)
            .id(id)
            .aggregate("Test", id)
            .json(format!("{{\"secret\":\"{CANARY}\"}}"))
            .header("authorization", CANARY)
            .build()
            .unwrap()
    };
    let mut large = secret("Tested", "large");
    large.payload = postrider_core::Payload::Text(format!("\"{CANARY}{}\"", "x".repeat(9_000)));
    let mut broken = secret("Tested", "broken");
    broken.payload = postrider_core::Payload::Text(format!("{{\"{CANARY}"));
    sink.refuse_when(|message| match message.event_id.as_str() {
        "rejected" => Some(ErrorKind::Rejected),
        "misaddressed" => Some(ErrorKind::AddressNotFound),
        _ => None,
    });
    let mut small = FnSink::before(&sink, |inner, batch| async move {
        if batch.iter().any(|message| message.event_id.as_str() == "panics") {
            panic!("{}", String::from_utf8_lossy(&batch[0].body));
        }
        postrider_core::Sink::publish(&inner, batch).await
    });
    small.capabilities.max_message_bytes = Some(5_000);
    let settings = Settings {
        publish_timeout: Duration::from_millis(200),
        ..quick()
    };
    let relay = builder(&store)
        .sink(Arc::new(small))
        .settings(settings)
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    for event in [large, broken] {
        memory.enqueue(event).unwrap();
    }
    for id in ["rejected", "misaddressed", "panics", "fine"] {
        memory.enqueue(secret("Tested", id)).unwrap();
    }
    let mut n = 0;
    until("everything that can go wrong", || {
        n += 1;
        memory.enqueue(event("flow", n)).unwrap();
        dead(&memory).len() >= 3
    })
    .await;
    sink.set_reachable(false);
    let openings = heard.openings();
    memory.enqueue(secret("Tested", "late")).unwrap();
    until("an outage", || heard.openings() > openings + 2).await;
    running.stop().await;
    assert!(lines.matching(|_| true).len() > 20);
    assert!(lines.matching(|line| line.contains("dead: needs a person")).len() >= 3);
    assert!(!lines.matching(|line| line.contains("circuit open")).is_empty());
    let leaks = lines.matching(|line| line.contains(CANARY));
    assert!(leaks.is_empty(), "{leaks:#?}");
    let told = heard.notes();
    assert!(
        !format!("{told:?}").contains(CANARY),
        "nor does an observer get it"
    );
}

#[tokio::test]
async fn a_relay_says_when_it_starts_and_stops() {
    let lines = Captured::begin();
    let (store, sink) = (MemoryStore::new(1), MemorySink::new());
    commit(&store, &["a"], 1);
    drained(&relay(&store, &sink)).await;
    for message in ["relay started", "relay stopped"] {
        let found = lines.matching(|line| line.contains("INFO") && line.contains(message));
        assert_eq!(found.len(), 1, "{message}");
        assert!(found[0].contains("outbox=\"outbox\""), "{found:?}");
    }
}

#[tokio::test]
async fn a_store_error_is_inert_in_the_log() {
    struct Hostile;
    impl Store for Hostile {
        fn heartbeat(&self, _: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
            Box::pin(async { Err(StoreError::new(StoreErrorKind::Other, "x\x1b[31m\ny")) })
        }
        fn read(&self, _: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
            unreachable!()
        }
        fn settle(&self, _: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
            unreachable!()
        }
    }
    let lines = Captured::begin();
    let relay = Relay::builder()
        .store(Arc::new(Hostile))
        .sink(Arc::new(MemorySink::new()))
        .settings(quick())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("the error is in the log", || {
        !lines.matching(|line| line.contains("31m")).is_empty()
    })
    .await;
    running.drop_now().await;
    let bad = lines.matching(|line| line.contains(['\x1b', '\n']));
    assert!(bad.is_empty(), "{bad:?}");
}
