//! Watching what arrives, with the moment at which it did, in a file or in a queue.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::BasicConsumeOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use postrider_testkit::ledger::Arrived;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::shop::now_us;
use super::wait::until;
use crate::failure::{Failure, Result};

/// Between two looks at a file: what a time may be too late by.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Between two attempts to consume a queue that the relay has not declared yet.
const PAUSE: Duration = Duration::from_millis(50);

/// An arrival.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) key: String,
    /// Microseconds since 1970.
    pub(super) at_us: u64,
    /// It is a copy that a replay made.
    pub(super) is_copy: bool,
    /// It says that it may have been sent before.
    pub(super) is_marked: bool,
}

impl Seen {
    pub(super) fn arrived(&self) -> Arrived {
        Arrived::new(&self.id, &self.key, "watched")
    }
}

/// Somebody who writes down what arrives until he is told to end.
pub(super) struct Watch {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Watch {
    /// Of the lines of a file, those with a text in them.
    pub(super) fn file(path: PathBuf, text: String) -> Self {
        Self::begin(move |seen, stop| follow(&path, &text, seen, stop))
    }

    /// Everything in a queue, which need not be there yet.
    pub(super) fn queue(url: String, queue: String) -> Self {
        Self::begin(move |seen, stop| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(stop.run_until_cancelled(consume(&url, &queue, seen)));
            Ok(())
        })
    }

    fn begin(
        watch: impl FnOnce(&Mutex<Vec<Seen>>, &CancellationToken) -> Result<()> + Send + 'static,
    ) -> Self {
        let (seen, stop) = (Arc::<Mutex<Vec<Seen>>>::default(), CancellationToken::new());
        let (for_it, until) = (Arc::clone(&seen), stop.clone());
        Self {
            seen,
            stop,
            thread: Some(thread::spawn(move || watch(&for_it, &until))),
        }
    }

    /// How many have arrived.
    pub(super) fn count(&self) -> u64 {
        lock(&self.seen).len() as u64
    }

    /// The newest arrival of an event.
    pub(super) fn newest(&self, id: &str) -> Option<Seen> {
        lock(&self.seen).iter().rfind(|seen| seen.id == id).cloned()
    }

    /// Waits until so many have arrived.
    pub(super) fn until(&self, count: u64, deadline: Duration) -> Result<()> {
        until(&format!("{count} events have arrived"), deadline, || {
            Ok((self.count() >= count).then_some(()))
        })
    }

    /// Ends it; gives everything that arrived, in its order.
    pub(super) fn end(mut self) -> Result<Vec<Seen>> {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread
                .join()
                .map_err(|_| Failure::new("who watched panicked"))??;
        }
        Ok(std::mem::take(&mut *lock(&self.seen)))
    }
}

impl Drop for Watch {
    /// The thread ends by itself; nobody waits for what it saw.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn lock(seen: &Mutex<Vec<Seen>>) -> MutexGuard<'_, Vec<Seen>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a line that matter here.
#[derive(Deserialize)]
struct Line {
    event_id: String,
    key: String,
    headers: BTreeMap<String, String>,
}

fn follow(path: &Path, text: &str, seen: &Mutex<Vec<Seen>>, stop: &CancellationToken) -> Result<()> {
    let mut read = 0;
    loop {
        // Asked before the look: what arrived before the end is seen.
        let is_last = stop.is_cancelled();
        let mut new = Vec::new();
        // The relay makes the file.
        if let Ok(mut file) = File::open(path) {
            file.seek(SeekFrom::Start(read))?;
            file.read_to_end(&mut new)?;
        }
        let at_us = now_us();
        let complete = new
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        read += complete as u64;
        for line in String::from_utf8_lossy(&new[..complete])
            .lines()
            .filter(|line| line.contains(text))
        {
            let line: Line = serde_json::from_str(line)?;
            lock(seen).push(Seen {
                at_us,
                is_copy: line.headers.contains_key("postrider-replay"),
                is_marked: line.headers.contains_key("postrider-maybe-duplicate"),
                id: line.event_id,
                key: line.key,
            });
        }
        if is_last {
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
}

async fn consume(url: &str, queue: &str, seen: &Mutex<Vec<Seen>>) {
    loop {
        if let Err(error) = consume_once(url, queue, seen).await
            && !error.to_string().contains("NOT_FOUND")
        {
            eprintln!("{queue}: {error}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn consume_once(url: &str, queue: &str, seen: &Mutex<Vec<Seen>>) -> lapin::Result<()> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    };
    let mut deliveries = channel
        .basic_consume(queue.into(), "".into(), options, FieldTable::default())
        .await?;
    while let Some(delivery) = deliveries.next().await {
        let at_us = now_us();
        lock(seen).push(message(&delivery?, at_us));
    }
    Ok(())
}

fn message(delivery: &Delivery, at_us: u64) -> Seen {
    let properties = &delivery.properties;
    let headers = properties.headers().as_ref().map(FieldTable::inner);
    let header = |name: &str| headers.and_then(|headers| headers.get(name));
    let text = |value: &lapin::types::AMQPValue| value.as_long_string().map(ToString::to_string);
    Seen {
        id: properties
            .message_id()
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        key: header("aggregate-id").and_then(text).unwrap_or_default(),
        at_us,
        is_copy: header("postrider-replay").is_some(),
        is_marked: header("postrider-maybe-duplicate").is_some(),
    }
}
