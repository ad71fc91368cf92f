//! Messages, and what has become of them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use postrider_core::{Address, Answer, ErrorKind, Message, Sink};
use postrider_file::{FileOptions, FileSink};
use serde_json::Value;

/// A message of a key, with its number as its body.
pub(crate) fn message(key: &str, n: usize) -> Message {
    Message {
        event_id: format!("{key}-{n}").into(),
        order_key: key.into(),
        message_key: key.to_owned(),
        address: Address::default(),
        content_type: "application/json".to_owned(),
        headers: vec![("event-type".to_owned(), "Numbered".to_owned())],
        body: n.to_string().into(),
    }
}

/// The same for a file of its own.
pub(crate) fn routed(key: &str, n: usize, path: &str) -> Message {
    Message {
        address: Address(vec![("path".to_owned(), path.to_owned())]),
        ..message(key, n)
    }
}

pub(crate) fn batch(messages: impl IntoIterator<Item = Message>) -> Arc<[Message]> {
    messages.into_iter().collect()
}

pub(crate) fn open(path: &Path) -> FileSink {
    FileSink::open(path, FileOptions::default()).expect("the file can be opened")
}

/// Publishes one message of key `k` and expects it to be confirmed.
pub(crate) async fn publish_one(sink: &FileSink, n: usize) {
    let answers = sink.publish(batch([message("k", n)])).await;
    assert!(matches!(answers[..], [Answer::Confirmed(_)]), "{answers:?}");
}

/// Confirmed, or the kind of the failure and whether the message may have been sent.
pub(crate) fn outcomes(answers: &[Answer]) -> Vec<Result<(), (ErrorKind, bool)>> {
    answers
        .iter()
        .map(|answer| match answer {
            Answer::Confirmed(_) => Ok(()),
            Answer::Failed(failure) => Err((failure.kind, failure.maybe_sent)),
        })
        .collect()
}

/// The ids in a file. Panics on a line that is not JSON or has no end.
pub(crate) fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the file can be read");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
    let id = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line["event_id"].as_str().expect("a line has an id").to_owned()
    };
    text.lines().map(id).collect()
}

/// Runs one test of this binary in a process of its own; `shell` may put limits in front of it.
pub(crate) fn child(test: &str, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!(
            "{shell} exec \"$0\" --exact \"$1\" --nocapture --test-threads=1"
        ))
        .arg(std::env::current_exe().expect("this binary has a path"))
        .arg(test)
        .env("POSTRIDER_TEST_CHILD", "1");
    command
}

/// Whether this is the process that [`child`] started.
pub(crate) fn is_child() -> bool {
    std::env::var_os("POSTRIDER_TEST_CHILD").is_some()
}
