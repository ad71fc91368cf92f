//! What a consumer of a file meets that one of a queue does not.

use std::fs;
use std::time::Duration;

use postrider_core::{Source, SourceErrorKind, Verdict};
use postrider_file::FileSource;
use postrider_testkit::wait::eventually;

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
