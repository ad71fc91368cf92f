//! What a consumer of a file meets that one of a queue does not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use postrider_core::{Source, SourceErrorKind, Verdict};
use postrider_file::FileSource;
use postrider_testkit::wait::{PATIENCE, eventually};

fn line(id: &str) -> String {
    format!("{{\"event_id\":\"{id}\",\"key\":\"k\",\"content_type\":\"a/b\",\"body_text\":\"\"}}\n")
}

async fn ids(source: &FileSource) -> Vec<(u64, String)> {
    let received = source.receive(10).await.expect("the file can be read");
    let id = |incoming: &postrider_core::Incoming| (incoming.tag, incoming.message.event_id.to_string());
    received.iter().map(id).collect()
}

#[tokio::test]
async fn half_a_line_is_delivered_when_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("q.jsonl");
    let (first, second) = (line("e1"), line("e2"));
    fs::write(&path, format!("{first}{}", &second[..20])).unwrap();
    let source = FileSource::new(&path, directory.path().join("p"));
    assert_eq!(ids(&source).await[0].1, "e1");
    let waiting = tokio::time::timeout(Duration::from_millis(100), source.receive(10));
    assert!(waiting.await.is_err(), "the second line is not whole");
    fs::write(&path, format!("{first}{second}\n\n{}", line("e3"))).unwrap();
    let received = eventually("the others come", async || {
        let received = ids(&source).await;
        (received.len() == 2).then_some(received)
    });
    let names: Vec<String> = received.await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(names, ["e2", "e3"]);
}

#[tokio::test]
async fn consumers_with_positions_of_their_own_each_get_everything() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("q.jsonl");
    fs::write(&path, line("e1")).unwrap();
    for name in ["a", "b"] {
        let source = FileSource::new(&path, directory.path().join(name));
        let received = ids(&source).await;
        source.settle(vec![(received[0].0, Verdict::Done)]).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_is_missing_or_replaced_is_an_error_and_then_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("q.jsonl");
    let source = FileSource::new(&path, directory.path().join("p"));
    assert_eq!(
        source.receive(1).await.unwrap_err().kind,
        SourceErrorKind::Missing
    );
    fs::write(&path, line("e1") + &line("e2")).unwrap();
    let received = ids(&source).await;
    source.settle(vec![(received[0].0, Verdict::Done)]).await.unwrap();
    let other = directory.path().join("other");
    fs::write(&other, line("x")).unwrap();
    fs::rename(&other, &path).unwrap();
    let error = source.receive(10).await.unwrap_err();
    assert!(error.text.contains("it was replaced or cut"), "{error}");
}

#[tokio::test]
async fn what_is_done_behind_a_held_line_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (path, position) = (directory.path().join("q.jsonl"), directory.path().join("p"));
    let lines: String = (0..10_000).map(|n| line(&format!("e{n}"))).collect();
    fs::write(&path, lines).unwrap();
    let source = FileSource::new(&path, &position);
    let mut came = source.receive(1).await.unwrap().len();
    while came < 10_000 {
        let received = source.receive(500).await.unwrap();
        came += received.len();
        let done = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
        source.settle(done).await.unwrap();
    }
    let size = fs::metadata(&position).unwrap().len();
    assert!(size < 1_024, "the position takes {size} bytes");
    source.close().await;
    let other = FileSource::new(&path, &position);
    let names: Vec<String> = ids(&other).await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(names, ["e0"]);
}

/// A device that refuses to be synced stands in for a disk that does. It takes what is written all the same.
async fn fails_to_sync(source: &FileSource, position: &Path) {
    let before = fs::read(position).unwrap();
    let next = position.with_extension("next");
    symlink("/dev/null", &next).unwrap();
    let received = tokio::time::timeout(PATIENCE, source.receive(10)).await;
    assert!(
        received.is_ok_and(|received| received.is_err()),
        "it was not synced"
    );
    assert_eq!(fs::read(position).unwrap(), before, "the one on disk stays");
    fs::remove_file(&next).unwrap();
}

#[tokio::test]
async fn a_position_on_disk_is_replaced_by_none_that_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (path, position) = (directory.path().join("q.jsonl"), directory.path().join("p"));
    fs::write(&path, line("e1")).unwrap();
    let source = FileSource::new(&path, &position);
    let received = ids(&source).await;
    source.settle(vec![(received[0].0, Verdict::Done)]).await.unwrap();
    // Reading on saves how far was read, and opening saves how often.
    fs::write(&path, line("e1") + &line("e2")).unwrap();
    fails_to_sync(&source, &position).await;
    source.close().await;
    let other = FileSource::new(&path, &position);
    fails_to_sync(&other, &position).await;
    assert_eq!(ids(&other).await[0].1, "e2");
}

#[tokio::test]
async fn a_file_without_line_ends_is_an_error_and_is_not_read_into_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk.img");
    // Twice the longest line. It takes no room on the disk.
    fs::File::create(&path).unwrap().set_len(1 << 27).unwrap();
    let source = FileSource::new(&path, directory.path().join("p"));
    let received = tokio::time::timeout(PATIENCE, source.receive(10)).await;
    let error = received.expect("it is told").unwrap_err();
    assert!(error.text.contains("no line end"), "{error}");
}
