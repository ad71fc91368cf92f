//! The suite that every sink passes. The broker is a directory; it is stopped by taking the directory away.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use postrider_core::{Address, BoxFuture, Sink};
use postrider_testkit::sink::{Arrived, SinkCapabilities, SinkHarness, TestBroker};
use serde_json::value::RawValue;
use tempfile::TempDir;

use crate::support::open;

postrider_testkit::sink_suite!(Files);

struct Files;

impl SinkHarness for Files {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        let directory = tempfile::tempdir().expect("a directory can be made");
        fs::create_dir(directory.path().join("logs")).expect("a directory can be made");
        Box::pin(async { Box::new(Directory(directory)) as Box<dyn TestBroker> })
    }
}

struct Directory(TempDir);

impl Directory {
    fn file(&self) -> PathBuf {
        self.0.path().join("logs/events.jsonl")
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.0.path().join(from), self.0.path().join(to)).expect("the directory can be moved");
    }
}

impl TestBroker for Directory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        Box::pin(async { Arc::new(open(&self.file())) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        Address::default()
    }

    fn missing_address(&self) -> Option<Address> {
        // The log is a file: nothing can be below it.
        Some(Address(vec![(
            "path".to_owned(),
            "events.jsonl/below.jsonl".to_owned(),
        )]))
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async {
            let text = fs::read_to_string(self.file()).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            whole.lines().map(read).collect()
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.rename("logs", "away") })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.rename("away", "logs") })
    }
}

/// A line as the documentation of the crate has it, and nothing else.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    event_id: String,
    #[serde(rename = "key")]
    _key: String,
    #[serde(rename = "address")]
    _address: Option<serde_json::Value>,
    #[serde(rename = "content_type")]
    _content_type: String,
    headers: serde_json::Map<String, serde_json::Value>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    body_text: Option<String>,
    body_base64: Option<String>,
}

fn read(line: &str) -> Arrived {
    let line: Line<'_> = serde_json::from_str(line).expect("a line is JSON");
    let body = match (line.body, line.body_text, line.body_base64) {
        (Some(json), None, None) => json.get().as_bytes().to_vec(),
        (None, Some(text), None) => text.into_bytes(),
        (None, None, Some(encoded)) => base64(&encoded),
        several => panic!("a line has one body: {several:?}"),
    };
    let text = |(name, value): (String, serde_json::Value)| {
        let value = value.as_str().expect("a header is a string").to_owned();
        (name, value)
    };
    Arrived {
        event_id: line.event_id,
        body: body.into(),
        headers: line.headers.into_iter().map(text).collect(),
    }
}

fn base64(text: &str) -> Vec<u8> {
    let alphabet: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let mut bits = Vec::new();
    for c in text.trim_end_matches('=').chars() {
        let value = alphabet
            .iter()
            .position(|known| *known == c)
            .expect("the standard alphabet");
        bits.extend((0..6).rev().map(|place| (value >> place & 1) as u8));
    }
    bits.chunks_exact(8)
        .map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | bit))
        .collect()
}
