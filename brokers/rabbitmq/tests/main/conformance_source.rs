//! The suite that every source passes, with the broker killed in the middle.

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use postrider_core::{BoxFuture, Message, Sink, Source};
use postrider_rabbitmq::{Queue, RabbitOptions, RabbitSource, Topology};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq::{self, PASSWORD, USER, Vhost};
use postrider_testkit::source::{Feature, SourceCapabilities, SourceHarness, TestQueue};
use tokio::sync::Mutex;

use crate::support::{Client, confirm_all, open, queues_are_on_disk, to};

postrider_testkit::source_suite!(Rabbit);

const QUEUE: &str = "suite";
const DEAD: &str = "suite.dead";
/// Deliveries that a source of the suite holds.
const PREFETCH: u16 = 25;

struct Rabbit;

impl SourceHarness for Rabbit {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities {
            lacks: vec![(
                Feature::SettleFault,
                "a verdict fails with its connection only, which is cut",
            )],
            ..SourceCapabilities::default()
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestQueue>> {
        Box::pin(async {
            let vhost = rabbitmq::alone().await;
            let proxy = Proxy::start(vhost.port()).await.expect("a proxy starts");
            let broker = Broker {
                vhost,
                proxy,
                rejected: Mutex::default(),
            };
            // A source of a queue that is not declared yet has nothing to read.
            broker.put(Vec::new()).await;
            Box::new(broker) as Box<dyn TestQueue>
        })
    }
}

struct Broker {
    vhost: Vhost,
    /// Between the sources and the broker.
    proxy: Proxy,
    /// What was found among the dead letters so far.
    rejected: Mutex<Vec<String>>,
}

fn topology() -> Topology {
    let queue = Queue {
        name: QUEUE.to_owned(),
        dead_letter_exchange: Some(String::new()),
        dead_letter_routing_key: Some(DEAD.to_owned()),
        ..Queue::default()
    };
    let dead = Queue {
        name: DEAD.to_owned(),
        ..Queue::default()
    };
    Topology {
        queues: vec![queue, dead],
        ..Topology::default()
    }
}

impl TestQueue for Broker {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Source>> {
        let url = self
            .vhost
            .url_by(&format!("{USER}:{PASSWORD}"), self.proxy.port());
        let options = RabbitOptions::new(url).prefetch(PREFETCH);
        Box::pin(async {
            Arc::new(RabbitSource::new(options, QUEUE).expect("good options")) as Arc<dyn Source>
        })
    }

    fn prefetch(&self) -> usize {
        usize::from(PREFETCH)
    }

    fn put(&self, mut messages: Vec<Message>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let sink = open(RabbitOptions::new(self.vhost.url()).declare(topology()));
            // The first publish declares.
            confirm_all(&sink, &[crate::support::message("declare", &to("", DEAD))]).await;
            for message in &mut messages {
                message.address = to("", QUEUE);
            }
            confirm_all(&sink, &messages).await;
            sink.close().await;
        })
    }

    fn put_foreign(&self, body: &'static [u8]) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let client = Client::connect(&self.vhost.url())
                .await
                .expect("a client connects");
            let confirms = client.channel.confirm_select(ConfirmSelectOptions::default());
            confirms.await.expect("a channel confirms");
            let mut nested = FieldTable::default();
            nested.insert("deep".into(), AMQPValue::Void);
            let mut headers = FieldTable::default();
            headers.insert("table".into(), AMQPValue::FieldTable(nested));
            headers.insert("number".into(), AMQPValue::LongLongInt(-1));
            let properties = BasicProperties::default()
                .with_headers(headers)
                .with_priority(9)
                .with_correlation_id("theirs".into());
            let options = BasicPublishOptions::default();
            let published = client
                .channel
                .basic_publish("".into(), QUEUE.into(), options, body, properties)
                .await;
            published
                .expect("it is published")
                .await
                .expect("it is confirmed");
        })
    }

    fn rejected(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let client = Client::connect(&self.vhost.url())
                .await
                .expect("a client connects");
            let mut rejected = self.rejected.lock().await;
            let found = client.take_ids(DEAD).await;
            rejected.extend(found.into_iter().filter(|id| id != "declare"));
            rejected.clone()
        })
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        self.proxy.cut();
        Box::pin(async {})
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            queues_are_on_disk().await;
            self.vhost.kill().expect("the server can be killed");
        })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::task::block_in_place(|| self.vhost.start()).expect("the server can be started")
        })
    }
}
