//! From configuration to a RabbitMQ sink or source.

use postrider_core::causes;
use postrider_rabbitmq::{
    Binding, Exchange, Queue, RabbitError, RabbitOptions, RabbitSink, RabbitSource, Topology,
};

use crate::config::{Broker, Declare, Preset, Problem, Rabbit};
use crate::failure::Failure;
use crate::wire::refuse;

/// Makes the sink of a broker. Nothing is connected yet: its relay does that when it starts.
pub fn open(name: &str, broker: &Broker, rabbit: &Rabbit) -> Result<RabbitSink, Failure> {
    RabbitSink::new(options(name, broker, rabbit)).map_err(|error| unusable(name, broker, &error))
}

/// Makes a consumer of a queue. Nothing is connected yet.
pub fn source(
    name: &str,
    broker: &Broker,
    rabbit: &Rabbit,
    queue: &str,
    prefetch: u16,
) -> Result<RabbitSource, Failure> {
    let options = options(name, broker, rabbit).prefetch(prefetch);
    RabbitSource::new(options, queue).map_err(|error| unusable(name, broker, &error))
}

/// Whether the sink can read its settings. Nothing is connected.
pub fn check(name: &str, broker: &Broker, rabbit: &Rabbit) -> Result<(), Failure> {
    options(name, broker, rabbit)
        .check()
        .map_err(|error| unusable(name, broker, &error))
}

fn unusable(name: &str, broker: &Broker, error: &RabbitError) -> Failure {
    let problem = Problem::new(format!("the broker {name:?}: {}", causes(error)));
    refuse(broker.place_of_url.as_deref(), problem)
}

fn options(name: &str, broker: &Broker, rabbit: &Rabbit) -> RabbitOptions {
    let mut options = RabbitOptions::new(rabbit.url.clone())
        .name(format!("postrider {name}"))
        .login(broker.user.clone(), broker.password.clone());
    if let Some(file) = &broker.url_file {
        options = options.url_file(file);
    }
    if let Some(file) = &broker.password_file {
        options = options.password_file(file);
    }
    if let Some(channels) = rabbit.channels {
        options = options.channels(channels);
    }
    if let Some(deliveries) = rabbit.prefetch {
        options = options.prefetch(deliveries);
    }
    if let Some(bytes) = rabbit.max_message_bytes {
        options = options.max_message_bytes(bytes);
    }
    if let Some(limit) = rabbit.confirm_timeout {
        options = options.confirm_timeout(limit);
    }
    if let Some(limit) = rabbit.connect_timeout {
        options = options.connect_timeout(limit);
    }
    if let Some(file) = &rabbit.ca_file {
        options = options.ca_file(file);
    }
    if let Some(declare) = &rabbit.declare {
        options = options.declare(topology(declare));
    }
    options
}

/// Exchanges and queues of bindings that are neither declared here nor the server's own.
pub fn undeclared(rabbit: &Rabbit) -> Vec<String> {
    let topology = rabbit.declare.as_ref().map(topology).unwrap_or_default();
    let mut unknown = Vec::new();
    for binding in &topology.bindings {
        let own = binding.exchange.is_empty() || binding.exchange.starts_with("amq.");
        if !own && topology.exchanges.iter().all(|it| it.name != binding.exchange) {
            unknown.push(format!("the exchange {:?}", binding.exchange));
        }
        if topology.queues.iter().all(|it| it.name != binding.queue) {
            unknown.push(format!("the queue {:?}", binding.queue));
        }
    }
    unknown
}

fn topology(declare: &Declare) -> Topology {
    let mut topology = match declare.preset {
        None => Topology::default(),
        Some(preset) => Topology::notifications(preset == Preset::NotificationsInOrder),
    };
    topology
        .exchanges
        .extend(declare.exchanges.iter().map(|exchange| Exchange {
            name: exchange.name.clone(),
            kind: exchange.kind.0.clone(),
        }));
    topology.queues.extend(declare.queues.iter().map(|queue| Queue {
        name: queue.name.clone(),
        dead_letter_exchange: queue.dead_letter_exchange.clone(),
        dead_letter_routing_key: queue.dead_letter_routing_key.clone(),
        single_active_consumer: queue.single_active_consumer,
        delivery_limit: queue.delivery_limit,
    }));
    topology
        .bindings
        .extend(declare.bindings.iter().map(|binding| Binding {
            exchange: binding.exchange.clone(),
            queue: binding.queue.clone(),
            routing_key: binding.routing_key.clone(),
        }));
    topology
}
