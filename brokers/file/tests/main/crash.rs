//! The process is killed at the points where it hurts.

use std::path::Path;

use postrider_core::Sink;

use crate::support::{batch, child, ids, is_child, message, open, outcomes, publish_one};

/// Fault C1.
#[tokio::test]
async fn a_crash_at_any_point_loses_nothing_confirmed_and_leaves_no_half_line() {
    for point in ["file.torn", "file.written"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let status = child("crash::publish_until_killed", "")
            .env("POSTRIDER_TEST_FILE", &path)
            .env("POSTRIDER_CRASH_AT", format!("{point}:3"))
            .status()
            .unwrap();
        assert!(!status.success(), "{point} was not reached");
        publish_one(&open(&path), 1).await;
        let ids = ids(&path);
        // Two batches of nine were confirmed. Of the third, everything is there, or four lines and half of the fifth.
        let confirmed: Vec<String> = (10..28).map(|n| format!("c-{n}")).collect();
        assert_eq!(ids[..18], confirmed);
        let rest = if point == "file.torn" { 4 } else { 9 };
        assert_eq!(ids.len(), 18 + rest + 1);
    }
}

/// Runs in a child only, and is killed there.
#[tokio::test]
async fn publish_until_killed() {
    if !is_child() {
        return;
    }
    let path = std::env::var("POSTRIDER_TEST_FILE").unwrap();
    let sink = open(Path::new(&path));
    // Ids of equal length, so that half of a batch is in the middle of a line.
    for round in 0..10 {
        let answers = sink
            .publish(batch((0..9).map(|n| message("c", 10 + round * 9 + n))))
            .await;
        assert!(outcomes(&answers).iter().all(Result::is_ok));
    }
}
