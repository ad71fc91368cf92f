//! How often the database is asked, and what a client gets when it does not answer. The clock stands still unless
//! everybody waits for it, so what takes ten seconds here takes none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use postrider_admin::{Admin, Options};
use postrider_core::*;
use postrider_memory::MemorySink;
use postrider_relay::Relay;
use postrider_testkit::forward::Answer;
use postrider_testkit::{MemoryStore, forward_console};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// A database that answers as often as it is allowed to.
struct Hesitant {
    store: MemoryStore,
    allowed: Semaphore,
    begun: AtomicUsize,
    under_way: AtomicUsize,
    /// What it says of a writer that stays open, in seconds.
    writer: AtomicUsize,
}

/// Counts down also when the call is dropped.
struct Call<'a>(&'a AtomicUsize);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Hesitant {
    fn new(allowed: usize) -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(1),
            allowed: Semaphore::new(allowed),
            begun: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            writer: AtomicUsize::new(0),
        })
    }

    fn counts(&self) -> (usize, usize) {
        (
            self.begun.load(Ordering::SeqCst),
            self.under_way.load(Ordering::SeqCst),
        )
    }
}

impl Console for Hesitant {
    fn stats(&self) -> Answer<'_, Stats> {
        Box::pin(async {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.under_way.fetch_add(1, Ordering::SeqCst);
            let _call = Call(&self.under_way);
            self.allowed.acquire().await.unwrap().forget();
            let writer = self.writer.load(Ordering::SeqCst) as u64;
            Ok(Stats {
                writer_open_for: (writer > 0).then(|| Duration::from_secs(writer)),
                ..self.store.stats().await?
            })
        })
    }

    forward_console!(store: list, show, sent, groups, act, control, controls, jobs);
}

/// An outbox that is watched; its relay does not run.
fn watch(admin: &Admin, name: &str, console: &Arc<Hesitant>) {
    let relay = Relay::builder()
        .name(name)
        .store(Arc::new(console.store.clone()))
        .sink(Arc::new(MemorySink::new()))
        .build()
        .unwrap();
    admin.watch(&relay, console.clone());
}

/// Asks without a socket, so that the request is given up at the moment at which this is dropped.
async fn get(admin: &Admin, path: &str) -> Vec<u8> {
    let service = TowerToHyperService::new(admin.router());
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = service.call(request).await.unwrap();
    to_bytes(answer.into_body(), 1 << 20).await.unwrap().into()
}

async fn stats(admin: &Admin) -> Value {
    let body = get(admin, "/stats").await;
    serde_json::from_slice::<Value>(&body).unwrap()["outboxes"].take()
}

/// Fault A6.
#[tokio::test(start_paused = true)]
async fn a_writer_that_stays_open_is_a_number() {
    let (admin, console) = (Admin::new(Options::default()), Hesitant::new(10));
    watch(&admin, "orders", &console);
    for seconds in [0, 75] {
        console.writer.store(seconds, Ordering::SeqCst);
        // What was asked for a moment ago is not asked for again.
        tokio::time::advance(Duration::from_secs(60)).await;
        let metrics = String::from_utf8(get(&admin, "/metrics").await).unwrap();
        let line = format!("postrider_writer_open_seconds{{outbox=\"orders\"}} {seconds}.0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert_eq!(stats(&admin).await["orders"]["writer_open_ms"], 75_000);
}

const SHORT: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn what_a_client_that_gave_up_asked_for_is_there_for_the_next() {
    let (admin, console) = (Admin::new(Options::default()), Hesitant::new(0));
    watch(&admin, "orders", &console);
    timeout(SHORT, stats(&admin))
        .await
        .expect_err("the database did not answer yet");
    assert_eq!(console.counts(), (1, 1), "the look goes on without its client");
    console.allowed.add_permits(1);
    let answer = stats(&admin).await;
    assert_eq!(answer["orders"]["queued"], 0);
    assert_eq!(stats(&admin).await["orders"]["queued"], 0);
    assert_eq!(console.counts(), (1, 0), "one look was enough for all of them");
}

#[tokio::test(start_paused = true)]
async fn however_many_clients_give_up_there_is_one_look_and_it_ends() {
    let (admin, console) = (Admin::new(Options::default()), Hesitant::new(0));
    watch(&admin, "orders", &console);
    for _ in 0..50 {
        timeout(SHORT, stats(&admin)).await.expect_err("no answer yet");
        assert_eq!(console.counts(), (1, 1));
    }
    // The look gives up on its own, without anybody who asks. Only the (halted) clock goes on: its time is what is
    // tested.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(console.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn outboxes_that_hang_cost_one_wait_and_hide_no_other() {
    let admin = Admin::new(Options::default());
    let (hung, well) = ([Hesitant::new(0), Hesitant::new(0)], Hesitant::new(1));
    watch(&admin, "first", &hung[0]);
    watch(&admin, "second", &hung[1]);
    watch(&admin, "third", &well);
    let begun = Instant::now();
    let answer = stats(&admin).await;
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(4),
        "two outboxes that hang took {took:?}"
    );
    assert_eq!(answer["third"]["queued"], 0);
    for name in ["first", "second"] {
        assert_eq!(answer[name]["error"]["kind"], "unreachable", "{answer}");
        assert_eq!(answer[name]["status"], "failing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_gives_the_numbers_before_it_and_a_dead_database_is_told_in_the_end() {
    let (admin, console) = (Admin::new(Options::default()), Hesitant::new(1));
    watch(&admin, "orders", &console);
    assert_eq!(stats(&admin).await["orders"]["queued"], 0);
    // The age of the numbers is what is tested.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let begun = Instant::now();
    let answer = stats(&admin).await;
    assert_eq!(
        answer["orders"]["queued"], 0,
        "the numbers of two seconds ago: {answer}"
    );
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // So is how old they may become before they are withheld.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(stats(&admin).await["orders"]["error"]["kind"], "unreachable");
    // An outage is not remembered: the next look sees that it is over. What the last one saw is told until it is too
    // old.
    console.allowed.add_permits(10);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stats(&admin).await["orders"]["queued"], 0);
}
