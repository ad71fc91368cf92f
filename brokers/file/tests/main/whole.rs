//! Lines go in whole and in order, through rotation, repair and closing.

use std::fs;
use std::io::Write;
use std::sync::Arc;

use postrider_core::{Answer, ErrorKind, Message, Sink};
use postrider_file::{FileOptions, FileSink};

use crate::support::{batch, ids, message, open, outcomes, publish_one};

#[tokio::test]
async fn receipts_say_where_each_line_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let sink = open(&path);
    assert!(sink.publish(Arc::from([])).await.is_empty());
    assert_eq!(fs::read(&path).unwrap(), b"");
    let mut answers = sink.publish(batch((0..3).map(|n| message("a", n)))).await;
    answers.extend(sink.publish(batch((0..2).map(|n| message("b", n)))).await);
    assert_eq!(ids(&path), ["a-0", "a-1", "a-2", "b-0", "b-1"]);
    let text = fs::read_to_string(&path).unwrap();
    for (answer, id) in answers.iter().zip(ids(&path)) {
        let Answer::Confirmed(receipt) = answer else {
            panic!("{answer:?}")
        };
        let (name, offset) = receipt.0.as_deref().unwrap().split_once('@').unwrap();
        assert_eq!(name, "events.jsonl");
        let line = &text[offset.parse::<usize>().unwrap()..];
        assert!(line.starts_with(&format!("{{\"event_id\":\"{id}\",")), "{line}");
    }
}

#[tokio::test]
async fn half_a_line_is_cut_off_when_the_file_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    for torn in ["{", "{\"event_id\":\"a\",\"ke", "\0\0\0\0"] {
        fs::write(&path, format!("{{\"event_id\":\"old\"}}\n{torn}")).unwrap();
        publish_one(&open(&path), 1).await;
        assert_eq!(ids(&path), ["old", "k-1"]);
    }
    // What is not ours is kept: it gets an end, and its line is not JSON.
    fs::write(&path, "notes").unwrap();
    publish_one(&open(&path), 1).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("notes\n{\"event_id\":\"k-1\""), "{text}");
}

#[tokio::test]
async fn half_a_line_that_appears_later_is_cut_off_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let sink = open(&path);
    publish_one(&sink, 1).await;
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"event_id\":\"t")
        .unwrap();
    publish_one(&sink, 2).await;
    assert_eq!(ids(&path), ["k-1", "k-2"]);
}

#[tokio::test]
async fn a_rotated_removed_or_emptied_file_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let rotated = directory.path().join("events.jsonl.1");
    let sink = open(&path);
    publish_one(&sink, 1).await;
    fs::rename(&path, &rotated).unwrap();
    publish_one(&sink, 2).await;
    assert_eq!(
        (ids(&rotated), ids(&path)),
        (vec!["k-1".to_owned()], vec!["k-2".to_owned()])
    );
    fs::remove_file(&path).unwrap();
    publish_one(&sink, 3).await;
    assert_eq!(ids(&path), ["k-3"]);
    fs::write(&path, "").unwrap();
    publish_one(&sink, 4).await;
    assert_eq!(ids(&path), ["k-4"]);
}

#[tokio::test]
async fn a_directory_that_is_gone_is_an_outage_and_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("logs");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("events.jsonl");
    let sink = open(&path);
    fs::remove_dir_all(&inner).unwrap();
    let answers = sink.publish(batch([message("k", 1)])).await;
    assert_eq!(outcomes(&answers), [Err((ErrorKind::Unreachable, false))]);
    fs::create_dir(&inner).unwrap();
    publish_one(&sink, 2).await;
    assert_eq!(ids(&path), ["k-2"]);
}

/// A write to a pipe that nobody reads would never come back, and with it neither the destination nor the process.
#[tokio::test]
async fn a_pipe_in_its_place_is_an_outage_and_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let sink = open(&path);
    publish_one(&sink, 1).await;
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let large = Message {
        body: "1".repeat(200_000).into(),
        ..message("k", 2)
    };
    let answers = sink.publish(batch([large])).await;
    assert!(matches!(answers[0], Answer::Failed(_)), "{answers:?}");
    fs::remove_file(&path).unwrap();
    publish_one(&sink, 3).await;
    assert_eq!(ids(&path), ["k-3"]);
}

#[tokio::test]
async fn what_cannot_be_opened_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let error = FileSink::open(directory.path().join("no/events.jsonl"), FileOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(
        error
            .to_string()
            .ends_with("create its directory or correct the path"),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
    let error = FileSink::open(directory.path(), FileOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("name a regular file, or use standard output"),
        "{error}"
    );
}

#[tokio::test]
async fn closing_twice_is_allowed_and_publishing_afterwards_is_an_outage() {
    let directory = tempfile::tempdir().unwrap();
    let sink = open(&directory.path().join("events.jsonl"));
    publish_one(&sink, 1).await;
    sink.close().await;
    sink.clone().close().await;
    let answers = sink.publish(batch([message("k", 2), message("k", 3)])).await;
    assert_eq!(outcomes(&answers), [Err((ErrorKind::Unreachable, false)); 2]);
}

#[tokio::test]
async fn an_abandoned_batch_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let sink = open(&path);
    for n in 0..50 {
        let mut publish = sink.publish(batch([message("abandoned", n)]));
        // One poll hands the batch to the writer, which may or may not have begun when the future is dropped.
        let poll =
            std::future::poll_fn(|context| std::task::Poll::Ready(publish.as_mut().poll(context).is_ready()));
        poll.await;
        drop(publish);
    }
    publish_one(&sink, 1).await;
    let ids = ids(&path);
    assert_eq!(ids.last().map(String::as_str), Some("k-1"));
    assert!(ids.len() <= 51);
}
