//! Full disks and readers that go away.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use postrider_core::{ErrorKind, Sink};
use postrider_file::{FileOptions, FileSink};

use crate::support::{batch, child, ids, is_child, message, outcomes};

#[tokio::test]
async fn a_full_device_is_an_outage() {
    let sink = FileSink::open("/dev/full", FileOptions::default()).unwrap();
    assert!(!sink.capabilities().durable && sink.capabilities().address.is_empty());
    let answers = sink.publish(batch([message("k", 1), message("k", 2)])).await;
    assert_eq!(outcomes(&answers), [Err((ErrorKind::Storage, false)); 2]);
}

/// A limit on the size of files stands in for a full disk: a write across it is cut short, and the next one fails.
#[test]
fn what_fits_on_the_disk_is_confirmed_and_the_rest_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let status = child("full::the_disk_fills_up", "trap '' XFSZ; ulimit -f 1;")
        .env("POSTRIDER_TEST_FILE", &path)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Runs in a child only, under the limit.
#[tokio::test]
async fn the_disk_fills_up() {
    if !is_child() {
        return;
    }
    let path = std::env::var("POSTRIDER_TEST_FILE").unwrap();
    let path = Path::new(&path);
    let sink = FileSink::open(path, FileOptions::default()).unwrap();
    let answers = sink.publish(batch((0..40).map(|n| message("k", n)))).await;
    let outcomes = outcomes(&answers);
    let confirmed = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
    assert!(confirmed > 0 && confirmed < 40, "{outcomes:?}");
    assert_eq!(
        outcomes[confirmed],
        Err((ErrorKind::Storage, true)),
        "half of it was written"
    );
    assert!(
        outcomes[confirmed + 1..]
            .iter()
            .all(|outcome| *outcome == Err((ErrorKind::Storage, false)))
    );
    // Half a line is gone, and room that is made is used again.
    assert_eq!(
        ids(path),
        (0..confirmed).map(|n| format!("k-{n}")).collect::<Vec<_>>()
    );
    std::fs::write(path, "").unwrap();
    crate::support::publish_one(&sink, 40).await;
    assert_eq!(ids(path), ["k-40"]);
}

#[test]
fn standard_output_gets_the_same_lines() {
    let output = child("full::lines_on_stdout", "").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("\"event_id\""))
        .collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[2].ends_with("\"body\":3}"), "{text}");
}

#[tokio::test]
async fn lines_on_stdout() {
    if !is_child() {
        return;
    }
    // The test harness has written the beginning of a line.
    println!();
    let sink = FileSink::stdout().unwrap();
    let answers = sink.publish(batch((1..=3).map(|n| message("k", n)))).await;
    let receipt = |answer: &postrider_core::Answer| match answer {
        postrider_core::Answer::Confirmed(receipt) => receipt.0.as_deref().unwrap().to_owned(),
        failed => panic!("{failed:?}"),
    };
    assert_eq!(
        answers.iter().map(receipt).collect::<Vec<_>>(),
        ["stdout:1", "stdout:2", "stdout:3"]
    );
}

#[test]
fn a_reader_that_went_away_is_an_outage() {
    let mut child = child("full::nobody_reads_stdout", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let ready = stdout.lines().map_while(Result::ok).find(|line| line == "ready");
    assert!(ready.is_some());
    // The reader is gone with the iterator; the end of its input tells the child to go on.
    drop(child.stdin.take());
    // The harness cannot print its summary any more, so that the exit code is the test's own.
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

/// Runs in a child only.
#[tokio::test]
async fn nobody_reads_stdout() {
    if !is_child() {
        return;
    }
    println!("\nready");
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let sink = FileSink::stdout().unwrap();
    let answers = sink.publish(batch([message("k", 1)])).await;
    let expected = outcomes(&answers) == [Err((ErrorKind::Unreachable, false))];
    std::process::exit(if expected { 42 } else { 1 });
}
