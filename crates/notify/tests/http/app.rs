//! Everything in one process: what it counts is among the metrics.

use std::sync::Arc;

use postrider_admin::Admin;
use postrider_core::Event;
use postrider_notify::app::App;
use postrider_notify::http::Options;
use postrider_notify::{Board, Directory, Recipient};
use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
use postrider_testkit::wait::eventually;
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::ask::Ask;
use crate::support::{board, shipped};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_told_and_what_stands_aside_is_among_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.db");
    let board = board(&folder).await;
    let ada = Recipient {
        id: "ada".to_owned(),
        ..Recipient::default()
    };
    board.put(&ada).await.unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let aside = "INSERT INTO notification_fanout (event_id, occasion, workflow, problem)
        VALUES ('e', '{}', 'gone', 'x')";
    connection.execute(aside, []).unwrap();
    let standing = board.standing().await.unwrap();
    assert_eq!(
        (standing.fan_outs, standing.fan_outs_aside, standing.digests),
        (1, 1, 0)
    );
    assert_eq!(&*standing.aside[0].problem, "x");

    let admin = Admin::new(postrider_admin::Options::default());
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let console = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default()).unwrap();
    let feeds = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = Ask::new(feeds.local_addr().unwrap());
    let handler = board.handler();
    let app = App::builder(Arc::new(board), effects, handler)
        .outbox("shop", Arc::new(store))
        .direct(["CUSTOMER".to_owned()])
        .http(feeds, Options::default())
        .watch(&admin, Arc::new(console))
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let metrics = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let numbers = Ask::new(metrics.local_addr().unwrap());
    let serving = tokio::spawn(admin.serve(metrics, stop.clone()));
    let running = tokio::spawn(app.run(stop.clone()));

    // One through the outbox, and one by a call, twice.
    let tx = connection.transaction().unwrap();
    let event = Event::builder("OrderShipped").aggregate("CUSTOMER", "ada");
    let event = event
        .json(r#"{"order": "A-1", "recipientType": "USER"}"#)
        .build()
        .unwrap();
    Outbox::default().enqueue_all(&tx, &[event]).unwrap();
    tx.commit().unwrap();
    asked
        .key("k")
        .post("/notifications", &shipped("ada", "A-2"))
        .await
        .is(201);
    asked
        .key("k")
        .post("/notifications", &shipped("ada", "A-2"))
        .await
        .is(200);
    let wanted = [
        "postrider_notify_stored_total{workflow=\"shipped\"} 2\n",
        "postrider_notify_duplicates_total{workflow=\"shipped\"} 1\n",
        "postrider_notify_stored_total{workflow=\"liked\"} 0\n",
        "postrider_notify_unfinished{kind=\"fan_out\"} 1.0\n",
        "postrider_notify_aside{kind=\"fan_out\"} 1.0\n",
        "postrider_notify_aside{kind=\"digest\"} 0.0\n",
    ];
    eventually("everything is counted", async || {
        let text = numbers.get("/metrics").await.body;
        wanted.iter().all(|line| text.contains(line)).then_some(())
    })
    .await;
    stop.cancel();
    running.await.unwrap().unwrap();
    serving.await.unwrap();
}
