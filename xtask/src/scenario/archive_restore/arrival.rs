//! What arrived, with every byte of its body.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postrider_testkit::ledger::Arrived;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};

/// Names that the relay gives.
const OURS: [&str; 4] = ["event-type", "aggregate-type", "aggregate-id", "event-key"];
const REPLAY: &str = "postrider-replay";

/// A message as its line has it.
pub(super) struct Arrival {
    pub(super) id: String,
    key: String,
    pub(super) content_type: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

#[derive(Deserialize)]
struct Line<'a> {
    event_id: String,
    key: String,
    content_type: String,
    headers: BTreeMap<String, String>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    body_text: Option<String>,
    body_base64: Option<String>,
}

impl Arrival {
    fn read(line: &str) -> Result<Self> {
        let line: Line<'_> = serde_json::from_str(line)?;
        let body = match (line.body, line.body_text, line.body_base64) {
            (Some(raw), None, None) => raw.get().as_bytes().to_vec(),
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(text)) => STANDARD.decode(text)?,
            _ => return Err(Failure::new(format!("{}: not one body", line.event_id))),
        };
        Ok(Self {
            id: line.event_id,
            key: line.key,
            content_type: line.content_type,
            headers: line.headers,
            body,
        })
    }

    /// The replay that it is a copy of.
    pub(super) fn replay(&self) -> Option<&str> {
        self.headers.get(REPLAY).map(String::as_str)
    }

    /// The headers that the producer gave.
    pub(super) fn given_headers(&self) -> BTreeMap<&str, &str> {
        let all = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| !OURS.contains(name) && !name.starts_with("postrider-"))
            .collect()
    }

    /// Everything but what says that a copy is one.
    pub(super) fn lasting_headers(&self) -> BTreeMap<&str, &str> {
        let all = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| *name != REPLAY).collect()
    }

    pub(super) fn arrived(&self) -> Arrived {
        Arrived::new(&self.id, &self.key, "lines")
    }
}

/// Gives every arrival to somebody, in order; they are too many to be held at once.
pub(super) fn each(path: &Path, mut take: impl FnMut(Arrival) -> Result<()>) -> Result<()> {
    for line in BufReader::new(File::open(path)?).lines() {
        take(Arrival::read(&line?)?)?;
    }
    Ok(())
}
