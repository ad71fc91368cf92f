//! Several writers of one file.

use std::fs;
use std::io::Write;

use postrider_core::Sink;

use crate::support::{batch, ids, message, open, outcomes, publish_one};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_several_writers_stay_in_one_piece() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let sink = open(&path);
        writers.spawn(async move {
            for round in 0..25 {
                let key = format!("w{writer}");
                let answers = sink
                    .publish(batch((0..20).map(|n| message(&key, round * 20 + n))))
                    .await;
                assert!(outcomes(&answers).iter().all(Result::is_ok), "{answers:?}");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let ids = ids(&path);
    assert_eq!(ids.len(), 2_000);
    for writer in 0..4 {
        let prefix = format!("w{writer}-");
        let numbers: Vec<usize> = ids
            .iter()
            .filter_map(|id| id.strip_prefix(&prefix)?.parse().ok())
            .collect();
        assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn half_a_line_is_only_ended_while_another_writer_could_be_at_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let (first, second) = (open(&path), open(&path));
    publish_one(&first, 1).await;
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"event_id\":\"t")
        .unwrap();
    publish_one(&second, 2).await;
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[1], "{\"event_id\":\"t");
    publish_one(&first, 3).await;

    fs::write(&path, "").unwrap();
    first.close().await;
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"event_id\":\"t")
        .unwrap();
    publish_one(&second, 4).await;
    assert_eq!(ids(&path), ["k-4"]);
}
