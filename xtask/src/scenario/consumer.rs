//! A process outside the relay that reads the JSON lines, writes down what arrives, and lets each event take effect
//! once.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use postrider_sqlite::Inbox;
use rusqlite::{Connection, TransactionBehavior};
use serde::Deserialize;

use super::account::Arrived;
use super::producer::stop_at_end_of_input;
use super::shop::{now_us, number};
use crate::failure::{Doing, Result};

/// How the inbox knows this consumer.
const CONSUMER: &str = "scenario";
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
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How many effects there are, and how many of them are beyond the first of their event.
pub(super) fn effects(directory: &Path) -> Result<(u64, u64)> {
    let connection = Connection::open(directory.join("consumer.db"))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let all = number(&connection, "SELECT count(*) FROM effects")?;
    let distinct = number(&connection, "SELECT count(DISTINCT id) FROM effects")?;
    Ok((all, all - distinct))
}

/// How many effects there are; fast enough to be asked often.
pub(super) fn effect_count(directory: &Path) -> Result<u64> {
    let path = directory.join("consumer.db");
    if !path.exists() {
        return Ok(0);
    }
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    // Nothing is ever deleted, so that the last number is the count.
    Ok(number(&connection, "SELECT coalesce(max(rowid), 0) FROM effects").unwrap_or(0))
}

struct Consumer {
    lines: PathBuf,
    file: Option<File>,
    /// What was read of a line that is not complete yet.
    rest: Vec<u8>,
    connection: Connection,
    arrived: BufWriter<File>,
    latency: BufWriter<File>,
}

impl Consumer {
    fn open(args: &Args) -> Result<Self> {
        let append = |name: &str| {
            let path = args.directory.join(name);
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map(BufWriter::new)
        };
        let connection = Connection::open(args.directory.join("consumer.db"))?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL) STRICT;",
        )?;
        Inbox::default().migrate(&connection)?;
        Ok(Self {
            lines: args.lines.clone(),
            file: None,
            rest: Vec::new(),
            connection,
            arrived: append("arrived.jsonl")?,
            latency: append("latency.tsv")?,
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
            let arrived = Arrived {
                id: line.event_id.clone(),
                key: line.key.clone(),
                destination: "lines".to_owned(),
            };
            serde_json::to_writer(&mut self.arrived, &arrived)?;
            self.arrived.write_all(b"\n")?;
            writeln!(self.latency, "{}\t{seen_us}", line.body.payload.at_us)?;
        }
        self.arrived.flush()?;
        self.latency.flush()?;
        let inbox = Inbox::default();
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for line in &batch {
            if inbox.first(&tx, CONSUMER, &line.event_id)? {
                tx.prepare_cached("INSERT INTO effects (id) VALUES (?1)")?
                    .execute([&line.event_id])?;
            }
        }
        Ok(tx.commit()?)
    }
}
