//! Exchanges, queues and bindings, declared as asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{Channel, Connection, ExchangeKind};
use postrider_core::{ErrorKind, Failure};

use crate::error;

/// How long one declaration may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What a broker is to have. Everything is durable; queues are quorum queues, because a confirm of any other kind of
/// queue is worth the disk of one machine.
///
/// A declaration that the broker refuses, because a queue of the name exists with other properties, is logged and
/// changes nothing: what is there is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Exchanges, declared first.
    pub exchanges: Vec<Exchange>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Which messages go where, declared last.
    pub bindings: Vec<Binding>,
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// `topic`, `direct`, `fanout`, `headers`, or the kind of a plugin, such as `x-consistent-hash`.
    pub kind: String,
}

/// A quorum queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Where rejected messages go; none: they are dropped when a consumer rejects them.
    pub dead_letter_exchange: Option<String>,
    /// The routing key that they get there; none: the one that they had.
    pub dead_letter_routing_key: Option<String>,
    /// Whether one consumer at a time gets messages: what order needs when several instances of a service listen.
    pub single_active_consumer: bool,
    /// Deliveries of one message after which the broker dead-letters it; none: the broker's default.
    pub delivery_limit: Option<u32>,
}

/// Messages of an exchange with a routing key go to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// The queue.
    pub queue: String,
    /// The routing key, or the pattern of a topic exchange.
    pub routing_key: String,
}

impl Topology {
    /// The queues of notifications: `notification.restaurant`, `.customer`, `.agency` and `.admin`, each bound to the
    /// topic exchange `notifications.exchange` by its own name, and `notification.dead` for what they reject. With
    /// `in_order`, one consumer at a time is served by each.
    pub fn notifications(in_order: bool) -> Topology {
        const EXCHANGE: &str = "notifications.exchange";
        const DEAD_EXCHANGE: &str = "notifications.dead.exchange";
        const DEAD_QUEUE: &str = "notification.dead";
        let audiences = ["restaurant", "customer", "agency", "admin"];
        let names = audiences.map(|audience| format!("notification.{audience}"));
        let queue = |name: &String| Queue {
            name: name.clone(),
            dead_letter_exchange: Some(DEAD_EXCHANGE.to_owned()),
            single_active_consumer: in_order,
            ..Queue::default()
        };
        let dead = Queue {
            name: DEAD_QUEUE.to_owned(),
            ..Queue::default()
        };
        let binding = |exchange: &str, queue: &str, key: &str| Binding {
            exchange: exchange.to_owned(),
            queue: queue.to_owned(),
            routing_key: key.to_owned(),
        };
        Topology {
            exchanges: vec![exchange(EXCHANGE, "topic"), exchange(DEAD_EXCHANGE, "fanout")],
            queues: names.iter().map(queue).chain([dead]).collect(),
            bindings: names
                .iter()
                .map(|name| binding(EXCHANGE, name, name))
                .chain([binding(DEAD_EXCHANGE, DEAD_QUEUE, "")])
                .collect(),
        }
    }

    /// Declares everything. What the broker refuses is logged: messages that then have no queue come back as such.
    ///
    /// Over some mistakes, such as an unknown kind of exchange, the broker ends the whole connection: that is the
    /// error, in its own words. What it was about is added to `fatal` and left out at the next try, or nothing could
    /// be published for the sake of a declaration.
    pub(crate) async fn declare(
        &self,
        connection: &Connection,
        fatal: &mut BTreeSet<String>,
    ) -> Result<(), Failure> {
        let channel = None;
        let mut desk = Desk {
            connection,
            channel,
            fatal,
        };
        for exchange in &self.exchanges {
            let declare = async |channel: Channel| exchange.declare(&channel).await;
            desk.ask("exchange", &exchange.name, declare).await?;
        }
        for queue in &self.queues {
            let declare = async |channel: Channel| queue.declare(&channel).await;
            desk.ask("queue", &queue.name, declare).await?;
        }
        for binding in &self.bindings {
            let name = format!("{} to {}", binding.queue, binding.exchange);
            let declare = async |channel: Channel| binding.declare(&channel).await;
            desk.ask("binding", &name, declare).await?;
        }
        Ok(())
    }
}

/// A channel for declarations. The broker closes it at each refusal, so it is opened anew when need be.
struct Desk<'a> {
    connection: &'a Connection,
    channel: Option<Channel>,
    fatal: &'a mut BTreeSet<String>,
}

impl Desk<'_> {
    async fn ask(
        &mut self,
        what: &str,
        name: &str,
        declare: impl AsyncFnOnce(Channel) -> lapin::Result<()>,
    ) -> Result<(), Failure> {
        let called = format!("the {what} {name:?}");
        if self.fatal.contains(&called) {
            return Ok(());
        }
        let asked = async {
            let channel = match self.channel.take().filter(|channel| channel.status().connected()) {
                Some(channel) => channel,
                None => self.connection.create_channel().await?,
            };
            self.channel = Some(channel.clone());
            declare(channel).await
        };
        let (reason, spoken) = match tokio::time::timeout(LIMIT, asked).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => (error::words(&error), error::code(&error).is_some()),
            Err(_) => (format!("no answer within {LIMIT:?}"), false),
        };
        let gone = !self.connection.status().connected();
        if gone && !spoken {
            // The network, not the declaration: it is tried again with the next connection.
            return Err(Failure::new(
                ErrorKind::Unreachable,
                format!("declaring {called}: {reason}"),
            ));
        }
        tracing::error!(
            what,
            name,
            reason,
            "RabbitMQ refused a declaration; what is there is used as it is"
        );
        if !gone {
            return Ok(());
        }
        let text = format!("RabbitMQ ended the connection over {called}: {reason}");
        self.fatal.insert(called);
        Err(Failure::new(ErrorKind::Unreachable, text))
    }
}

fn exchange(name: &str, kind: &str) -> Exchange {
    Exchange {
        name: name.to_owned(),
        kind: kind.to_owned(),
    }
}

impl Exchange {
    async fn declare(&self, channel: &Channel) -> lapin::Result<()> {
        let kind = match self.kind.as_str() {
            "topic" => ExchangeKind::Topic,
            "direct" => ExchangeKind::Direct,
            "fanout" => ExchangeKind::Fanout,
            "headers" => ExchangeKind::Headers,
            other => ExchangeKind::Custom(other.to_owned()),
        };
        let options = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        channel
            .exchange_declare(short(&self.name)?, kind, options, FieldTable::default())
            .await
    }
}

impl Queue {
    async fn declare(&self, channel: &Channel) -> lapin::Result<()> {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(short(&self.name)?, options, self.arguments())
            .await
            .map(drop)
    }

    fn arguments(&self) -> FieldTable {
        let mut arguments = FieldTable::default();
        let text = |text: &str| AMQPValue::LongString(LongString::from(text.as_bytes()));
        arguments.insert("x-queue-type".into(), text("quorum"));
        if let Some(exchange) = &self.dead_letter_exchange {
            arguments.insert("x-dead-letter-exchange".into(), text(exchange));
            // By default a message that is dead-lettered while its target is away is lost. This strategy waits, and
            // needs a queue that refuses rather than drops when it is full.
            arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            arguments.insert("x-overflow".into(), text("reject-publish"));
        }
        if let Some(key) = &self.dead_letter_routing_key {
            arguments.insert("x-dead-letter-routing-key".into(), text(key));
        }
        if self.single_active_consumer {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        if let Some(limit) = self.delivery_limit {
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit.into()));
        }
        arguments
    }
}

impl Binding {
    async fn declare(&self, channel: &Channel) -> lapin::Result<()> {
        let (queue, exchange) = (short(&self.queue)?, short(&self.exchange)?);
        let options = QueueBindOptions::default();
        channel
            .queue_bind(
                queue,
                exchange,
                short(&self.routing_key)?,
                options,
                FieldTable::default(),
            )
            .await
    }
}

/// Longer names do not fit into the protocol; the client would send something else.
fn short(name: &str) -> lapin::Result<ShortString> {
    ShortString::try_new(name).map_err(|error| std::io::Error::other(error).into())
}
