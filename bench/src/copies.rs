//! Events in a queue, some of them several times.

use std::sync::Arc;

use postrider_core::{Address, Answer, Envelope, Event, Message, Sink, encode};
use postrider_rabbitmq::{Queue, RabbitOptions, RabbitSink, Topology};
use serde_json::{Value, json};

use crate::Failure;

/// Messages of one publish call.
const BATCH: usize = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The broker
    #[arg(long)]
    rabbit: String,
    /// The queue, which is declared
    #[arg(long)]
    queue: String,
    /// Another queue that is declared, for dead letters
    #[arg(long, default_value = "dead")]
    dead_queue: String,
    /// One consumer at a time, which is what order needs
    #[arg(long)]
    single: bool,
    /// Events, first copies in order
    #[arg(long)]
    events: u64,
    /// The number of the first
    #[arg(long, default_value_t = 1)]
    first: u64,
    #[arg(long, default_value_t = 1_000)]
    keys: u64,
    /// At most so many copies of each, later and anywhere
    #[arg(long, default_value_t = 0)]
    copies: u64,
    /// One of so many events has a payload that no handler can use
    #[arg(long, default_value_t = 0)]
    poison_every: u64,
    /// This event ends the process that works on it
    #[arg(long, default_value_t = 0)]
    crash_at: u64,
}

/// Publishes them all and waits for the confirms; gives how many messages there are, and how many are poison.
pub(crate) async fn publish(args: Args) -> Result<Value, Failure> {
    let queue = |name: &str, single| Queue {
        name: name.to_owned(),
        single_active_consumer: single,
        ..Queue::default()
    };
    let topology = Topology {
        queues: vec![queue(&args.queue, args.single), queue(&args.dead_queue, false)],
        ..Topology::default()
    };
    let sink = RabbitSink::new(RabbitOptions::new(args.rabbit.as_str()).declare(topology))?;
    let mut order: Vec<u64> = Vec::new();
    let mut chance = Chance(args.events);
    // Copies of what is there already, while the rest still comes: a copy never comes before its first.
    let last = args.first + args.events;
    for n in args.first..last {
        order.push(n);
        if args.copies > 0 {
            for _ in 0..1 + chance.below(args.copies) {
                order.push(args.first + chance.below(n - args.first + 1));
            }
        }
    }
    let is_poison = |n: u64| args.poison_every > 0 && n.is_multiple_of(args.poison_every);
    for batch in order.chunks(BATCH) {
        let messages: Vec<Message> = batch
            .iter()
            .map(|n| message(*n, &args, is_poison(*n)))
            .collect::<Result<_, _>>()?;
        for answer in sink.publish(Arc::from(messages)).await {
            if let Answer::Failed(failure) = answer {
                return Err(failure.text.into_string().into());
            }
        }
    }
    sink.close().await;
    let poison = (args.first..last).filter(|n| is_poison(*n)).count();
    Ok(json!({ "messages": order.len(), "poison": poison }))
}

fn message(n: u64, args: &Args, poison: bool) -> Result<Message, Failure> {
    let payload = match (poison, n == args.crash_at) {
        (true, _) => "{}".to_owned(),
        (_, true) => "{\"crash\":true}".to_owned(),
        _ => format!("{{\"n\":{n}}}"),
    };
    let key = format!("{}", n % args.keys);
    let event = Event::builder("OrderPlaced")
        .id(format!("e{n:08}"))
        .aggregate("ORDER", &key)
        .json(payload)
        .build()?;
    let address = Address(vec![("routing_key".to_owned(), args.queue.clone())]);
    let order_key = event.order_key();
    encode(Envelope::Flat, &event, &order_key, address, key)
        .map_err(|failure| failure.text.into_string().into())
}

/// Numbers that look like chance and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}
