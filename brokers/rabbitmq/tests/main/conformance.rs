//! The suite that every sink passes, with the broker killed in the middle.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::BasicAckOptions;
use postrider_core::{Address, BoxFuture, Sink};
use postrider_rabbitmq::{RabbitOptions, RabbitSink};
use postrider_testkit::servers::rabbitmq::{self, Vhost};
use postrider_testkit::sink::{Arrived, SinkCapabilities, SinkHarness, TestBroker};
use tokio::sync::Mutex;

use crate::support::{Client, queues, queues_are_on_disk, to};

postrider_testkit::sink_suite!(Rabbit);

/// Long enough to read everything that a case sends.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// A queue that gives nothing for this long is empty.
const IDLE: Duration = Duration::from_millis(200);

struct Rabbit;

impl SinkHarness for Rabbit {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        Box::pin(async {
            let vhost = rabbitmq::alone().await;
            let queue = vhost.named("suite");
            let broker = Broker {
                vhost,
                queue,
                taken: Mutex::default(),
            };
            Box::new(broker) as Box<dyn TestBroker>
        })
    }
}

struct Broker {
    vhost: Vhost,
    queue: String,
    /// What the reader took from the queue so far.
    taken: Mutex<Vec<Arrived>>,
}

impl TestBroker for Broker {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        let options = RabbitOptions::new(self.vhost.url()).declare(queues([self.queue.as_str()]));
        Box::pin(async { Arc::new(RabbitSink::new(options).expect("good options")) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        to("", &self.queue)
    }

    fn missing_address(&self) -> Option<Address> {
        Some(to("", "nobody-listens-here"))
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async {
            let mut taken = self.taken.lock().await;
            let read = async {
                let client = Client::connect(&self.vhost.url()).await?;
                // Without a queue nothing has arrived yet.
                let mut consumer = client.consume(&self.queue).await?;
                while let Ok(Some(delivery)) = tokio::time::timeout(IDLE, consumer.next()).await {
                    let delivery = delivery?;
                    delivery.ack(BasicAckOptions::default()).await?;
                    taken.push(arrived(delivery));
                }
                lapin::Result::Ok(())
            };
            // A queue that has not chosen its leader yet does not answer, and never will: the suite asks again.
            let _ = tokio::time::timeout(READ_LIMIT, read).await;
            taken.clone()
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            queues_are_on_disk().await;
            self.vhost.kill().expect("the server can be killed");
        })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        // Elsewhere, because the sink must be able to notice meanwhile.
        Box::pin(async {
            tokio::task::block_in_place(|| self.vhost.start()).expect("the server can be started")
        })
    }
}

fn arrived(delivery: lapin::message::Delivery) -> Arrived {
    let id = delivery.properties.message_id().as_ref();
    let headers = delivery.properties.headers().as_ref();
    let text = |value: &lapin::types::AMQPValue| match value {
        lapin::types::AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        other => format!("{other:?}"),
    };
    let pairs = headers.into_iter().flat_map(|table| table.inner().iter());
    Arrived {
        event_id: id.map(ToString::to_string).unwrap_or_default(),
        headers: pairs
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: delivery.data.into(),
    }
}
