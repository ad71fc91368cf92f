//! RabbitMQ without an engine in front of it: a yardstick for what the relay could reach.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection, ConnectionProperties};
use serde_json::{Value, json};

use crate::Failure;

/// Few enough that memory stays small, enough that the reader never waits.
const PREFETCH: u16 = 2_000;
/// Often enough for a measurement of seconds, rare enough to cost the broker nothing.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A queue and what is expected in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Queue {
    /// The broker
    #[arg(long)]
    rabbit: String,
    #[arg(long)]
    queue: String,
    #[arg(long)]
    messages: usize,
}

/// How to publish.
#[derive(Debug, clap::Args)]
pub(crate) struct Again {
    #[command(flatten)]
    queue: Queue,
    #[arg(long)]
    channels: usize,
    /// Messages of one channel that are not confirmed yet
    #[arg(long)]
    in_flight: usize,
}

/// Waits until the queue holds so many; gives how many were there when the first were seen, and the time from then on.
pub(crate) async fn watch(args: Queue) -> Result<Value, Failure> {
    let connection = Connection::connect(&args.rabbit, ConnectionProperties::default()).await?;
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let mut channel = connection.create_channel().await?;
    let mut first = None;
    loop {
        let declared = channel.queue_declare(args.queue.as_str().into(), options, FieldTable::default());
        let there = match declared.await {
            Ok(queue) => usize::try_from(queue.message_count())?,
            // It is not declared yet, which costs the channel.
            Err(_) => {
                channel = connection.create_channel().await?;
                0
            }
        };
        if there > 0 {
            let (began, seen) = *first.get_or_insert((Instant::now(), there));
            if there >= args.messages {
                return Ok(json!({ "first": seen, "seconds": began.elapsed().as_secs_f64() }));
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Takes the messages out of the queue, publishes exactly those again (same exchange, routing key, properties and body;
/// persistent, mandatory, confirmed, a key always on the same channel); gives how long the publishing took.
pub(crate) async fn publish_again(args: Again) -> Result<Value, Failure> {
    let Queue {
        rabbit,
        queue,
        messages,
    } = &args.queue;
    let connection = Connection::connect(rabbit, ConnectionProperties::default()).await?;
    let taken = take(&connection, queue, *messages).await?;
    let seconds = publish(&connection, taken, args.channels, args.in_flight).await?;
    Ok(json!({ "seconds": seconds }))
}

async fn take(connection: &Connection, queue: &str, count: usize) -> Result<Vec<Delivery>, Failure> {
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer = channel
        .basic_consume(queue.into(), "".into(), options, FieldTable::default())
        .await?;
    let mut taken = Vec::with_capacity(count);
    while taken.len() < count {
        let delivery = consumer.next().await.ok_or("the consumer ended")??;
        if taken.len() % 500 == 499 || taken.len() + 1 == count {
            delivery.ack(BasicAckOptions { multiple: true }).await?;
        }
        taken.push(delivery);
    }
    channel.close(200, "done".into()).await?;
    Ok(taken)
}

/// Seconds from the first publish to the last confirm.
async fn publish(
    connection: &Connection,
    messages: Vec<Delivery>,
    channels: usize,
    in_flight: usize,
) -> Result<f64, Failure> {
    let mut lanes: Vec<Vec<Delivery>> = (0..channels).map(|_| Vec::new()).collect();
    for message in messages {
        lanes[lane_of(&message, channels)].push(message);
    }
    let mut open = Vec::new();
    for lane in lanes {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        open.push((channel, lane));
    }
    let began = Instant::now();
    let sending = open
        .into_iter()
        .map(|(channel, lane)| tokio::spawn(send(channel, lane, in_flight)));
    for lane in sending.collect::<Vec<_>>() {
        lane.await??;
    }
    Ok(began.elapsed().as_secs_f64())
}

fn lane_of(message: &Delivery, channels: usize) -> usize {
    let headers = message.properties.headers();
    let key = headers
        .as_ref()
        .and_then(|headers| headers.inner().get("event-key"));
    let mut hasher = DefaultHasher::new();
    format!("{key:?}").hash(&mut hasher);
    usize::try_from(hasher.finish() % channels as u64).unwrap_or(0)
}

/// One channel, with a window that slides: a new message leaves for every confirm.
async fn send(channel: Channel, lane: Vec<Delivery>, in_flight: usize) -> Result<(), Failure> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let mut waiting = VecDeque::with_capacity(in_flight);
    for message in &lane {
        if waiting.len() >= in_flight
            && let Some(oldest) = waiting.pop_front()
        {
            confirmed(oldest).await?;
        }
        let publish = channel.basic_publish(
            message.exchange.clone(),
            message.routing_key.clone(),
            options,
            &message.data,
            message.properties.clone(),
        );
        waiting.push_back(publish.await?);
    }
    for confirm in waiting {
        confirmed(confirm).await?;
    }
    Ok(())
}

async fn confirmed(confirm: lapin::PublisherConfirm) -> Result<(), Failure> {
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(format!("not confirmed: {other:?}").into()),
    }
}
