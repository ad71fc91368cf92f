//! Feeds that are watched.

use std::time::{Duration, Instant};

use postrider_core::Secret;
use postrider_notify::http::{Options, sign};
use postrider_testkit::wait::{PATIENCE, until};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::ask::Ask;
use crate::support::{Served, shipped, with_people};

/// An open stream, and what was read of it.
struct Watch {
    stream: TcpStream,
    text: String,
}

impl Watch {
    async fn open(ask: &Ask, path: &str) -> Self {
        let stream = ask.begin("GET", path, "", b"").await;
        let mut watch = Self {
            stream,
            text: String::new(),
        };
        watch.until("event: unread").await;
        assert!(watch.text.contains("text/event-stream"), "{}", watch.text);
        watch
    }

    /// Reads until this was said, so often in all.
    async fn said(&mut self, what: &str, times: usize) {
        // A stream that has nothing to say still says that it is there.
        let end = tokio::time::Instant::now() + 2 * PATIENCE;
        while self.text.matches(what).count() < times {
            assert!(tokio::time::Instant::now() < end, "no {what:?} in {}", self.text);
            assert!(self.read().await > 0, "ended before {what:?}: {}", self.text);
        }
    }

    async fn until(&mut self, what: &str) {
        self.said(what, 1).await;
    }

    async fn read(&mut self) -> usize {
        let mut buffer = [0; 4_096];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        let read = read
            .unwrap_or_else(|_| panic!("silent after {}", self.text))
            .unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        read
    }

    /// The entries, in the order they came.
    fn entries(&self) -> Vec<Value> {
        let lines: Vec<&str> = self.text.lines().collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] == "event: entry");
        let data = pairs.map(|pair| pair[1].strip_prefix("data: ").unwrap());
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    fn events(&self) -> Vec<String> {
        let entries = self.entries();
        let ids = entries
            .iter()
            .map(|entry| entry["event_id"].as_str().unwrap().to_owned());
        ids.collect()
    }
}

/// Stores a copy of what is there as it is seen when it was committed a minute after the time in it.
fn store_late(served: &Served) {
    served.run(
        "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, metadata,
            created_at)
        SELECT 'late', event_type, audience, workflow, user_id, category, title, body, metadata,
            created_at - 60000000 FROM notification;
        INSERT INTO notification_delivery (notification_id, channel, address)
        SELECT max(id), 'in_app', '' FROM notification",
    );
}

#[tokio::test]
async fn what_is_new_is_told_to_every_window() {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    let mut one = Watch::open(&served.ask(), "/feed/ada/live").await;
    let mut other = Watch::open(&served.ask(), "/feed/ada/live").await;
    let mut bens = Watch::open(&served.ask(), "/feed/ben/live").await;
    let sent = served
        .ask()
        .key("k")
        .post("/notifications", &shipped("ada", "A-1"))
        .await
        .is(201);
    for watch in [&mut one, &mut other] {
        watch.until("\"unread\":1").await;
        let entries = watch.entries();
        assert_eq!(entries.len(), 1, "once: {}", watch.text);
        assert_eq!(entries[0]["id"], sent["notification"]["id"]);
        assert_eq!(entries[0]["title"], "About A-1");
        assert!(watch.text.contains(&format!("id: {}", entries[0]["id"])));
    }
    let id = &sent["notification"]["id"];
    let mark = json!({ "mark": "read", "id": id });
    served.ask().post("/feed/ada/marks", &mark).await.is(200);
    one.said("\"unread\":0", 2).await;
    served
        .ask()
        .key("b")
        .post("/notifications", &shipped("ben", "B-1"))
        .await
        .is(201);
    bens.until("event: entry").await;
    assert_eq!(bens.entries()[0]["title"], "About B-1", "nothing of anybody else");
}

#[tokio::test]
async fn what_nobody_nudges_for_is_found_all_the_same() {
    let served = with_people(Options::default(), &["ada"]).await;
    let mut watch = Watch::open(&served.ask(), "/feed/ada/live").await;
    served.happens("from-elsewhere", "ada").await;
    let begun = Instant::now();
    watch.until("from-elsewhere").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn who_comes_back_is_told_what_they_missed() {
    let served = with_people(Options::default(), &["ada"]).await;
    served.happens("before", "ada").await;
    let mut watch = Watch::open(&served.ask(), "/feed/ada/live").await;
    served.happens("first", "ada").await;
    watch.until("\"event_id\":\"first\"").await;
    let last = watch.entries().last().unwrap()["id"].to_string();
    drop(watch);
    for missed in ["second", "third"] {
        served.happens(missed, "ada").await;
    }
    for (ask, path) in [
        (
            served.ask().with("Last-Event-ID", &last),
            "/feed/ada/live".to_owned(),
        ),
        (served.ask(), format!("/feed/ada/live?last_event_id={last}")),
    ] {
        let mut watch = Watch::open(&ask, &path).await;
        let told = watch.events();
        let missed: Vec<&str> = told
            .iter()
            .map(String::as_str)
            .filter(|event| *event != "before")
            .collect();
        assert_eq!(missed, ["second", "third"], "{}", watch.text);
        assert!(watch.text.contains("\"unread\":4"), "{}", watch.text);
        assert!(!watch.text.contains("event: reload"), "{}", watch.text);
        served
            .ask()
            .key(&path)
            .post("/notifications", &shipped("ada", "A-1"))
            .await
            .is(201);
        watch.until("About A-1").await;
        let mark = json!({ "mark": "archived", "id": watch.entries().last().unwrap()["id"] });
        served.ask().post("/feed/ada/marks", &mark).await.is(200);
    }
    // What was archived meanwhile, and an id that nobody gave, are no trouble.
    for last in ["0", "999999999", "nonsense", "-5"] {
        let ask = served.ask().with("Last-Event-ID", last);
        let watch = Watch::open(&ask, "/feed/ada/live").await;
        assert!(watch.events().contains(&"third".to_owned()), "{last}");
        assert!(!watch.text.contains("About A-1"), "{last}");
    }
}

#[tokio::test]
async fn who_missed_too_much_is_told_to_read_again() {
    let served = with_people(Options::default(), &["ada"]).await;
    for number in 0..120 {
        served.happens(&format!("e{number}"), "ada").await;
    }
    let ask = served.ask().with("Last-Event-ID", "1");
    let watch = Watch::open(&ask, "/feed/ada/live").await;
    assert!(watch.text.contains("event: reload"), "{}", watch.text);
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams() {
    let mut served = with_people(Options::default(), &["ada"]).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(Watch::open(&served.ask(), "/feed/ada/live").await);
    }
    let begun = Instant::now();
    served.stop.cancel();
    (&mut served.task).await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    for watch in &mut watches {
        while watch.read().await > 0 {}
        assert!(
            watch.text.ends_with("0\r\n\r\n"),
            "a whole answer: {}",
            watch.text
        );
    }
    assert_eq!(served.api.hub().streams(), 0);
}

#[tokio::test]
async fn a_person_has_so_many_windows_and_leaves_them() {
    let served = with_people(Options::default(), &["ada", "ben"]).await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(Watch::open(&served.ask(), "/feed/ada/live").await);
    }
    let refused = served.ask().get("/feed/ada/live").await;
    assert_eq!(refused.refused(429), "streams");
    assert!(refused.head.contains("retry-after"), "{}", refused.head);
    let bens = Watch::open(&served.ask(), "/feed/ben/live").await;
    assert_eq!(served.api.hub().streams(), 9);
    drop((watches, bens));
    until("the places are free again", || served.api.hub().streams() == 0).await;
    Watch::open(&served.ask(), "/feed/ada/live").await;
}

#[tokio::test]
async fn a_signature_in_the_query_opens_a_stream() {
    let served: Served = with_people(Options::default().secret("s3cret"), &["ada"]).await;
    let signature = sign(&Secret::new("s3cret"), "ada");
    let path = format!("/feed/ada/live?signature={signature}");
    let mut watch = Watch::open(&served.ask(), &path).await;
    served.happens("e1", "ada").await;
    watch.until("event: entry").await;
}

/// A chunk that waited for long between its rows and its commit: what it stored is not recent any more.
#[tokio::test]
async fn what_is_committed_late_is_read_again() {
    let served = with_people(Options::default(), &["ada"]).await;
    served.happens("early", "ada").await;
    let mut watch = Watch::open(&served.ask(), "/feed/ada/live").await;
    store_late(&served);
    watch.until("\"unread\":2").await;
    watch.until("event: reload").await;
    assert!(watch.entries().iter().all(|entry| entry["event_id"] != "late"));
}

/// What comes together with one that is found is not forgotten for it.
#[tokio::test]
async fn what_is_committed_late_beside_another_is_read_again() {
    let served = with_people(Options::default(), &["ada"]).await;
    let mut watch = Watch::open(&served.ask(), "/feed/ada/live").await;
    served.happens("early", "ada").await;
    store_late(&served);
    watch.until("\"unread\":2").await;
    watch.until("event: reload").await;
}
