//! Paths that events choose.

use std::fs;
use std::os::unix::fs::symlink;

use postrider_core::{ErrorKind, Sink};
use postrider_file::{FileOptions, FileSink};

use crate::support::{batch, ids, message, open, outcomes, routed};

#[tokio::test]
async fn messages_go_to_the_files_they_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    let options = FileOptions::default().max_open_files(2);
    let sink = FileSink::open(&path, options).unwrap();
    for round in 0..3 {
        let names = ["a.jsonl", "deep/er/b.jsonl", "c.ndjson", "events.jsonl"];
        let mut messages: Vec<_> = names.iter().map(|name| routed(name, round, name)).collect();
        messages.push(message("main", round));
        let answers = sink.publish(batch(messages)).await;
        assert_eq!(outcomes(&answers), [Ok(()); 5]);
    }
    let file = |name: &str| ids(&directory.path().join(name));
    assert_eq!(file("a.jsonl"), ["a.jsonl-0", "a.jsonl-1", "a.jsonl-2"]);
    assert_eq!(file("deep/er/b.jsonl").len(), 3);
    assert_eq!(file("c.ndjson").len(), 3);
    assert_eq!(file("events.jsonl")[..2], ["events.jsonl-0", "main-0"]);
}

#[tokio::test]
async fn no_event_reaches_a_file_that_is_not_a_log_of_ours() {
    let outside = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("orders.db"), "SQLite format 3").unwrap();
    fs::write(outside.path().join("victim.jsonl"), "untouched").unwrap();
    symlink(outside.path(), root.join("way-out")).unwrap();
    symlink(outside.path().join("victim.jsonl"), root.join("link.jsonl")).unwrap();
    fs::write(root.join("file.jsonl"), "").unwrap();
    fs::create_dir(root.join("directory.jsonl")).unwrap();
    let sink = open(&root.join("events.jsonl"));
    let absolute = outside.path().join("victim.jsonl");
    for (path, kind) in [
        ("../x.jsonl", ErrorKind::NotEncodable),
        (absolute.to_str().unwrap(), ErrorKind::NotEncodable),
        ("way-out/victim.jsonl", ErrorKind::AddressRefused),
        ("way-out/new/x.jsonl", ErrorKind::AddressRefused),
        ("link.jsonl", ErrorKind::AddressRefused),
        ("orders.db", ErrorKind::NotEncodable),
        ("directory.jsonl", ErrorKind::AddressRefused),
        ("file.jsonl/x.jsonl", ErrorKind::AddressNotFound),
        ("", ErrorKind::NotEncodable),
    ] {
        let answers = sink
            .publish(batch([routed("bad", 1, path), message("good", 1)]))
            .await;
        assert_eq!(outcomes(&answers), [Err((kind, false)), Ok(())], "{path}");
    }
    assert_eq!(fs::read_to_string(&absolute).unwrap(), "untouched");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(
        fs::read_to_string(root.join("orders.db")).unwrap(),
        "SQLite format 3"
    );
}

#[tokio::test]
async fn after_a_failure_nothing_of_its_key_is_written_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("bad.jsonl")).unwrap();
    let sink = open(&directory.path().join("events.jsonl"));
    let answers = sink
        .publish(batch([
            message("k", 1),
            // Found out at once, by the text of the path.
            routed("early", 1, "../bad.jsonl"),
            message("early", 2),
            // Found out only when the file is opened, in another write than the one that follows.
            message("late", 1),
            routed("late", 2, "bad.jsonl"),
            message("late", 3),
            routed("k", 2, "other.jsonl"),
            message("k", 3),
        ]))
        .await;
    let escapes = Err((ErrorKind::NotEncodable, false));
    let refused = Err((ErrorKind::AddressRefused, false));
    let behind = Err((ErrorKind::Behind, false));
    assert_eq!(
        outcomes(&answers),
        [Ok(()), escapes, behind, Ok(()), refused, behind, Ok(()), Ok(())]
    );
    assert_eq!(
        ids(&directory.path().join("events.jsonl")),
        ["k-1", "late-1", "k-3"]
    );
}
