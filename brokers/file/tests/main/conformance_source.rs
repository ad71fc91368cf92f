//! The suite that every source passes.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use postrider_core::{Answer, BoxFuture, Message, Sink, Source};
use postrider_file::{FileOptions, FileSink, FileSource};
use postrider_testkit::source::{Feature, SourceCapabilities, SourceHarness, TestQueue};
use tempfile::TempDir;

postrider_testkit::source_suite!(Lines);

struct Lines;

impl SourceHarness for Lines {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities {
            lacks: vec![
                (Feature::Prefetch, "whoever receives says how many it holds"),
                (Feature::Cut, "there is no connection"),
                (Feature::Restart, "there is no server"),
            ],
            ..SourceCapabilities::default()
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestQueue>> {
        Box::pin(async {
            let directory = tempfile::tempdir().expect("a directory");
            let sink = FileSink::open(directory.path().join("queue.jsonl"), FileOptions::default());
            let sink = sink.expect("a file");
            Box::new(Queue { directory, sink }) as Box<dyn TestQueue>
        })
    }
}

struct Queue {
    directory: TempDir,
    sink: FileSink,
}

impl TestQueue for Queue {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Source>> {
        let path = |name| self.directory.path().join(name);
        let source = FileSource::new(path("queue.jsonl"), path("position"));
        Box::pin(async { Arc::new(source) as Arc<dyn Source> })
    }

    fn put(&self, messages: Vec<Message>) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let answers = self.sink.publish(messages.into()).await;
            assert!(
                answers
                    .iter()
                    .all(|answer| matches!(answer, Answer::Confirmed(_)))
            );
        })
    }

    fn put_foreign(&self, body: &'static [u8]) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let path = self.directory.path().join("queue.jsonl");
            let mut file = OpenOptions::new().append(true).open(path).expect("the file");
            file.write_all(&[body, b"\n"].concat()).expect("a line");
        })
    }

    /// Where the next position is to be written lies a folder.
    fn refuse_verdicts(&self, refuse: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let path = self.directory.path().join("position.next");
            let changed = match refuse {
                true => std::fs::create_dir(path),
                false => std::fs::remove_dir(path),
            };
            changed.expect("the folder can be changed");
        })
    }

    fn kept(&self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let position = std::fs::metadata(self.directory.path().join("position"));
            position.expect("there is a position").len()
        })
    }

    fn rejected(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let path = self.directory.path().join("position.rejected");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let id = |line: &str| {
                let line: serde_json::Value = serde_json::from_str(line).expect("a line of ours");
                line["event_id"].as_str().expect("an id").to_owned()
            };
            text.lines().map(id).collect()
        })
    }
}
