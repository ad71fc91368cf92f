//! A process outside the relay that reads the JSON lines, writes down what arrives, and lets each event take effect
//! once.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use postrider_testkit::ledger::{Arrived, JsonLines};
use serde::Deserialize;

use super::effects::Effects;
use super::producer::stop_at_end_of_input;
use super::shop::now_us;
use crate::failure::{Doing, Result};

/// Events that take effect in one transaction.
const BATCH: usize = 500;

/// `cargo xtask consumer`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file that the relay appends to
    #[arg(long)]
    pub(super) lines: PathBuf,
    /// The directory for arrived.jsonl, latency.tsv and the consumer's own database
    #[arg(long)]
    pub(super) directory: PathBuf,
}

/// The parts of a line that matter here.
#[derive(Deserialize)]
struct Line {
    event_id: String,
    key: String,
    body: Body,
}

#[derive(Deserialize)]
struct Body {
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    at_us: u64,
}

/// Reads from the first line on until standard input is closed and nothing new is there.
pub(crate) fn run(args: &Args) -> Result<()> {
    let stop = stop_at_end_of_input();
    let mut consumer = Consumer::open(args)?;
    loop {
        // Read in this order: what arrived before the stop is read after it.
        let stopped = stop.load(Ordering::Relaxed);
        if !consumer.read()? {
            if stopped {
                return Ok(());
            }
            // Between two looks at a file that grows.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Consumer {
    lines: PathBuf,
    file: Option<File>,
    /// What was read of a line that is not complete yet.
    rest: Vec<u8>,
    effects: Effects,
    arrived: JsonLines,
    latency: BufWriter<File>,
}

impl Consumer {
    fn open(args: &Args) -> Result<Self> {
        let latency = args.directory.join("latency.tsv");
        let latency = OpenOptions::new().create(true).append(true).open(latency)?;
        Ok(Self {
            lines: args.lines.clone(),
            file: None,
            rest: Vec::new(),
            effects: Effects::open(&args.directory)?,
            arrived: JsonLines::append(&args.directory.join("arrived.jsonl"))?,
            latency: BufWriter::new(latency),
        })
    }

    /// Takes what is new; false if nothing is.
    fn read(&mut self) -> Result<bool> {
        if self.file.is_none() {
            self.file = File::open(&self.lines).ok();
        }
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        // What a dead relay left of its last line is cut off by the next one, so what follows the last line end is
        // never kept: it is read again, whatever it has become.
        file.seek(SeekFrom::Current(-(self.rest.len() as i64)))?;
        let mut chunk = vec![0; 1 << 20];
        let count = file.read(&mut chunk)?;
        chunk.truncate(count);
        let seen_us = now_us();
        let complete = chunk
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.rest = chunk.split_off(complete);
        let lines: Vec<&[u8]> = chunk
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        for batch in lines.chunks(BATCH) {
            self.take(batch, seen_us)?;
        }
        Ok(complete > 0)
    }

    fn take(&mut self, batch: &[&[u8]], seen_us: u64) -> Result<()> {
        let parse = |line: &&[u8]| {
            serde_json::from_slice::<Line>(line).doing(|| String::from_utf8_lossy(line).into_owned())
        };
        let batch: Vec<Line> = batch.iter().map(parse).collect::<Result<_>>()?;
        for line in &batch {
            let (id, key) = (line.event_id.as_str(), line.key.as_str());
            self.arrived.write(&Arrived::new(id, key, "lines"))?;
            writeln!(self.latency, "{}\t{seen_us}", line.body.payload.at_us)?;
        }
        self.arrived.flush()?;
        self.latency.flush()?;
        self.effects.take(batch.iter().map(|line| line.event_id.as_str()))
    }
}
