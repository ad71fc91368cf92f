//! RabbitMQ without an engine in front of it: the yardstick and the witness of the scenarios.
//!
//! - `raw take URL QUEUE MESSAGES` reads messages and says what they are: `{"distinct":N,"reordered":N}`.
//! - `raw again URL QUEUE MESSAGES CHANNELS IN_FLIGHT` reads messages, sends exactly those again to the same exchange and
//!   routing key (persistent, mandatory, confirmed, several channels at a time, so many in flight on each) and empties
//!   the queue: `{"distinct":N,"reordered":N,"seconds":S}`. What it publishes has the bodies, properties and keys of
//!   whatever was published before.
//! - `raw watch URL QUEUE MESSAGES` waits until the queue holds so many: `{"first":N,"seconds":S}`, with the number that
//!   was there when the first were seen, and the time from then to the last.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{Confirmation, Connection, ConnectionProperties};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Few enough that the reader's memory stays small, enough that it never waits.
const PREFETCH: u16 = 2_000;
/// Often enough for a measurement of seconds, rare enough to cost the broker nothing.
const LOOK_EVERY: Duration = Duration::from_millis(10);

const USAGE: &str = "usage: raw take|again|watch URL QUEUE MESSAGES [CHANNELS IN_FLIGHT]";

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, url, queue, messages, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let messages = messages.parse()?;
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    match (mode.as_str(), rest) {
        ("take", []) => {
            let (distinct, reordered) = look(&take(&connection, queue, messages).await?);
            println!("{{\"distinct\":{distinct},\"reordered\":{reordered}}}");
        }
        ("again", [channels, in_flight]) => {
            let taken = take(&connection, queue, messages).await?;
            let (distinct, reordered) = look(&taken);
            let seconds = publish(&connection, taken, channels.parse()?, in_flight.parse()?).await?;
            purge(&connection, queue).await?;
            println!("{{\"distinct\":{distinct},\"reordered\":{reordered},\"seconds\":{seconds}}}");
        }
        ("watch", []) => {
            let (first, seconds) = watch(&connection, queue, messages).await?;
            println!("{{\"first\":{first},\"seconds\":{seconds}}}");
        }
        _ => return Err(USAGE.into()),
    }
    // Everything is done. It fails when a channel of it was closed by the broker, as a watch may cause.
    let _ = connection.close(200, "done".into()).await;
    Ok(())
}

async fn purge(connection: &Connection, queue: &str) -> Result<()> {
    let channel = connection.create_channel().await?;
    channel
        .queue_purge(queue.into(), QueuePurgeOptions::default())
        .await?;
    Ok(())
}

async fn watch(connection: &Connection, queue: &str, count: usize) -> Result<(usize, f64)> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let mut channel = connection.create_channel().await?;
    let mut first = None;
    loop {
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
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
            if there >= count {
                return Ok((seen, began.elapsed().as_secs_f64()));
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn take(connection: &Connection, queue: &str, count: usize) -> Result<Vec<Delivery>> {
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
    Ok(taken)
}

/// How many ids there are, and how many messages came after a later one of their key. The body ends in the number of
/// the event within its key.
fn look(taken: &[Delivery]) -> (usize, usize) {
    let mut ids = HashSet::new();
    let mut last: HashMap<String, u64> = HashMap::new();
    let mut reordered = 0;
    for delivery in taken {
        ids.extend(delivery.properties.message_id().as_ref().map(ToString::to_string));
        let headers = delivery.properties.headers().clone().unwrap_or_default();
        let key = format!("{:?}", headers.inner().get("event-key"));
        let body = String::from_utf8_lossy(&delivery.data);
        let number = body.split("\"n\":").nth(1).and_then(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().ok()
        });
        let number: u64 = number.unwrap_or(0);
        reordered += usize::from(last.get(&key).is_some_and(|before| *before > number));
        last.insert(key, number);
    }
    (ids.len(), reordered)
}

/// Seconds from the first publish to the last confirm.
async fn publish(
    connection: &Connection,
    messages: Vec<Delivery>,
    channels: usize,
    in_flight: usize,
) -> Result<f64> {
    let mut lanes: Vec<Vec<Delivery>> = (0..channels).map(|_| Vec::new()).collect();
    for (n, message) in messages.into_iter().enumerate() {
        lanes[n % channels].push(message);
    }
    let mut open = Vec::new();
    for lane in lanes {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        open.push((channel, Arc::new(lane)));
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

/// One channel, with a window that slides: a new message leaves for every confirm.
async fn send(channel: lapin::Channel, lane: Arc<Vec<Delivery>>, in_flight: usize) -> Result<()> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let mut waiting = VecDeque::with_capacity(in_flight);
    for message in lane.iter() {
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

async fn confirmed(confirm: lapin::PublisherConfirm) -> Result<()> {
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => Err(format!("not confirmed: {other:?}").into()),
    }
}
