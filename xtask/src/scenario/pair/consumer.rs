//! A consumer of the pair: writes down what arrives, lets it take effect once, then acknowledges.
//!
//! It uses the client library itself, not our source, so that the relay is not judged by our own code.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use postrider_testkit::ledger::{Arrived, JsonLines};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::failure::{Failure, Result};
use crate::scenario::effects::Effects;
use crate::scenario::producer::stop_at_end_of_input;
use crate::scenario::shop::now_us;

/// Deliveries of a queue that are not acknowledged yet.
const PREFETCH: u16 = 1_000;
/// Events that take effect in one transaction.
const BATCH: usize = 500;
/// How long a batch gathers. Each is a commit and an acknowledgement, which the disk writes beside those of the servers
/// that are measured; when a message arrived is noted before.
const GATHER: Duration = Duration::from_millis(20);
/// Between two attempts while the broker is away, and between two looks at the queues in the end.
const PAUSE: Duration = Duration::from_millis(100);

/// `cargo xtask pair-consumer`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    url: String,
    /// The queues to read
    #[arg(long, required = true)]
    queue: Vec<String>,
    /// The directory for arrived.jsonl and the consumer's own database
    #[arg(long)]
    directory: PathBuf,
}

/// A message as it came, with the queue and the time.
struct Incoming {
    queue: usize,
    delivery: Delivery,
    at_us: u64,
}

/// The parts of a body that matter here.
#[derive(Deserialize)]
struct Body {
    event_id: String,
    aggregate_id: String,
}

/// Reads until standard input is closed and the queues are empty.
pub(crate) fn run(args: &Args) -> Result<()> {
    let stop = stop_at_end_of_input();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (sender, incoming) = mpsc::channel(4 * BATCH);
    let readers = (0..args.queue.len()).map(|queue| {
        let (args, sender) = (args.clone(), sender.clone());
        runtime.spawn(async move { read(&args, queue, &sender).await })
    });
    let readers: Vec<_> = readers.collect();
    let written = runtime.block_on(write(args, incoming, &stop));
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    written
}

/// Hands on what a queue delivers; connects again for as long as it takes.
async fn read(args: &Args, queue: usize, sender: &mpsc::Sender<Incoming>) {
    loop {
        if let Err(error) = read_once(args, queue, sender).await {
            eprintln!("{}: {error}", args.queue[queue]);
        }
        sleep(PAUSE).await;
    }
}

async fn read_once(args: &Args, queue: usize, sender: &mpsc::Sender<Incoming>) -> lapin::Result<()> {
    let connection = Connection::connect(&args.url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (name, options) = (args.queue[queue].as_str().into(), BasicConsumeOptions::default());
    let mut consumer = channel
        .basic_consume(name, "".into(), options, FieldTable::default())
        .await?;
    while let Some(delivery) = consumer.next().await {
        let incoming = Incoming {
            queue,
            delivery: delivery?,
            at_us: now_us(),
        };
        if sender.send(incoming).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn write(args: &Args, mut incoming: mpsc::Receiver<Incoming>, stop: &Arc<AtomicBool>) -> Result<()> {
    let mut arrived = JsonLines::append(&args.directory.join("arrived.jsonl"))?;
    let mut effects = Effects::open(&args.directory)?;
    let mut batch = Vec::with_capacity(BATCH);
    // Looks in a row at which the queues were empty and nothing had come in between.
    let mut quiet = 0;
    loop {
        batch.clear();
        tokio::select! {
            biased;
            received = incoming.recv_many(&mut batch, BATCH) => {
                if received == 0 {
                    return Err(Failure::new("nobody reads the queues any more"));
                }
                quiet = 0;
                sleep(GATHER).await;
                while batch.len() < BATCH && let Ok(one) = incoming.try_recv() {
                    batch.push(one);
                }
                take(args, &batch, &mut arrived, &mut effects).await?;
            }
            () = sleep(PAUSE) => {
                let empty = stop.load(Ordering::Relaxed) && are_empty(args).await;
                quiet = if empty { quiet + 1 } else { 0 };
                if quiet == 3 {
                    return Ok(());
                }
            }
        }
    }
}

async fn take(args: &Args, batch: &[Incoming], arrived: &mut JsonLines, effects: &mut Effects) -> Result<()> {
    let mut ids = Vec::with_capacity(batch.len());
    for one in batch {
        let body: Body = serde_json::from_slice(&one.delivery.data)?;
        let mut line = Arrived::new(&body.event_id, body.aggregate_id, &args.queue[one.queue]);
        line.redelivered = one.delivery.redelivered;
        line.at_us = Some(one.at_us);
        arrived.write(&line)?;
        ids.push(body.event_id);
    }
    arrived.flush()?;
    effects.take(ids.iter().map(String::as_str))?;
    for queue in 0..args.queue.len() {
        if let Some(last) = batch.iter().rfind(|one| one.queue == queue) {
            // A channel that is gone takes no answer; the queue delivers again, and the inbox knows it.
            let _ = last.delivery.acker.ack(BasicAckOptions { multiple: true }).await;
        }
    }
    Ok(())
}

/// Whether no queue has a message that waits for delivery. Those on their way are waited for by the caller.
async fn are_empty(args: &Args) -> bool {
    let look = async || -> lapin::Result<bool> {
        let connection = Connection::connect(&args.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        for queue in &args.queue {
            let declared = channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
            if declared.await?.message_count() > 0 {
                return Ok(false);
            }
        }
        connection.close(200, "done".into()).await?;
        Ok(true)
    };
    look().await.unwrap_or(false)
}
