//! `committed.jsonl` and `arrived.jsonl`: read and written a line at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Ledger;

/// A line of `committed.jsonl`: an event as the business tables know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The event's id.
    pub id: String,
    /// What its order is kept by.
    pub key: String,
    /// Its place within the key, in the order in which its writers took their turns.
    pub n: u64,
    /// The sign of its priority: order is kept within a lane.
    #[serde(default, skip_serializing_if = "is_normal")]
    pub lane: i8,
    /// Stands outside the order: scheduled, or passed over while dead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unordered: bool,
}

impl Committed {
    /// An event of the normal lane.
    pub fn new(id: impl Into<String>, key: impl Into<String>, n: u64) -> Self {
        Self {
            id: id.into(),
            key: key.into(),
            n,
            lane: 0,
            unordered: false,
        }
    }
}

/// A line of `arrived.jsonl`: a message as a consumer outside the relay got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// The event's id.
    pub id: String,
    /// What its order is kept by.
    pub key: String,
    /// Where it arrived.
    pub destination: String,
    /// The destination itself delivered it before and got no answer: a repeat of the queue's, not of the relay's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// When it arrived, in microseconds since 1970, where that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_us: Option<u64>,
}

impl Arrived {
    /// An arrival.
    pub fn new(id: impl Into<String>, key: impl Into<String>, destination: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            key: key.into(),
            destination: destination.into(),
            redelivered: false,
            at_us: None,
        }
    }
}

/// Why an account could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// One id stands for two committed events.
    #[error("{0:?} was committed twice: ids must tell events apart")]
    CommittedTwice(String),
    /// More events than are counted here.
    #[error("more than four billion events")]
    TooMany,
    /// A line is not what it should be.
    #[error("line {line} of {file} is not a line of the ledger")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file could not be read.
    #[error("cannot read {file}")]
    Read {
        /// Which file.
        file: String,
        /// Why.
        source: io::Error,
    },
}

impl Ledger {
    /// Reads `committed.jsonl` and `arrived.jsonl` from a directory. Nothing but the ledger itself is kept in memory.
    pub fn read(directory: &Path) -> Result<Self, LedgerError> {
        let mut ledger = Self::new();
        ledger.read_from(directory)?;
        Ok(ledger)
    }

    /// The same, into a ledger that knows what it expects.
    pub fn read_from(&mut self, directory: &Path) -> Result<(), LedgerError> {
        let (committed, arrived) = ("committed.jsonl", "arrived.jsonl");
        self.read_committed(open(&directory.join(committed))?, committed)?;
        self.read_arrived(open(&directory.join(arrived))?, arrived)
    }

    /// Enters every line of `committed.jsonl`; `file` names it in errors.
    pub fn read_committed(&mut self, lines: impl BufRead, file: &str) -> Result<(), LedgerError> {
        self.torn += each_line(lines, file, |line: Committed| self.commit(&line))?;
        Ok(())
    }

    /// Enters every line of `arrived.jsonl`; `file` names it in errors.
    pub fn read_arrived(&mut self, lines: impl BufRead, file: &str) -> Result<(), LedgerError> {
        self.torn += each_line(lines, file, |line: Arrived| {
            self.arrive(&line);
            Ok(())
        })?;
        Ok(())
    }
}

/// Writes lines; what was flushed is there after the writer's death.
#[derive(Debug)]
pub struct JsonLines {
    file: BufWriter<File>,
}

impl JsonLines {
    /// A new file, or an old one emptied.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::new(File::create(path)?),
        })
    }

    /// Goes on at the end of a file. Half a line that a dead writer left is cut off first, or the next line would be
    /// spoilt by it.
    pub fn append(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).read(true).open(path)?;
        let mut whole = 0;
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            whole += read as u64;
        }
        file.set_len(whole)?;
        Ok(Self {
            file: BufWriter::new(file),
        })
    }

    /// Writes a line into the buffer.
    pub fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, line)?;
        self.file.write_all(b"\n")
    }

    /// Hands the buffer to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open(path: &Path) -> Result<BufReader<File>, LedgerError> {
    let file = File::open(path).map_err(|source| LedgerError::Read {
        file: path.display().to_string(),
        source,
    })?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// Gives each line to `take`. A last line without its end belongs to a writer that died: it is counted, not read.
fn each_line<T: DeserializeOwned>(
    mut lines: impl BufRead,
    file: &str,
    mut take: impl FnMut(T) -> Result<(), LedgerError>,
) -> Result<u64, LedgerError> {
    let mut buffer = Vec::new();
    for line in 1.. {
        buffer.clear();
        let read = lines.read_until(b'\n', &mut buffer);
        read.map_err(|source| LedgerError::Read {
            file: file.to_owned(),
            source,
        })?;
        if buffer.is_empty() {
            break;
        }
        if buffer.last() != Some(&b'\n') {
            return Ok(1);
        }
        let entry = serde_json::from_slice(&buffer).map_err(|source| LedgerError::Line {
            file: file.to_owned(),
            line,
            source,
        })?;
        take(entry)?;
    }
    Ok(0)
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_normal(lane: &i8) -> bool {
    *lane == 0
}
