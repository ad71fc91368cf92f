//! RabbitMQ as a destination and a source of Postrider.
//!
//! [`RabbitSink`] publishes persistent messages with publisher confirms and `mandatory`: confirmed means that every
//! queue which the message was routed to has it, and that there was at least one. A message without a queue, an
//! exchange that does not exist and a missing permission are failures of that message, never a success and never an
//! outage. [`RabbitSource`] consumes with manual acknowledgement and a bounded number of deliveries at a time. Both
//! connect, and connect again, by themselves.
//!
//! The message, field by field:
//!
//! | AMQP | value |
//! |---|---|
//! | exchange, routing key | the address that the route rendered; without an exchange the routing key names a queue |
//! | `message_id` | the event's id; one of more than 255 bytes cannot be sent |
//! | `type` | the event's type, if it has at most 255 bytes |
//! | `content_type` | the content type of the body |
//! | `timestamp` | when the event was made, in whole seconds, if known |
//! | `delivery_mode` | 2, persistent |
//! | `headers` | the transport headers, all of them long strings |
//! | body | the body |
//!
//! ```
//! use postrider_core::Sink;
//! use postrider_rabbitmq::{RabbitOptions, RabbitSink, Topology};
//!
//! // Nothing is connected to yet: a relay starts while its broker is away.
//! let options = RabbitOptions::new("amqp://relay:secret@mq.internal/").declare(Topology::notifications(true));
//! let sink = RabbitSink::new(options)?;
//! assert!(sink.capabilities().durable);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod barred;
mod batch;
mod call;
mod config;
mod connect;
mod decode;
mod encode;
mod error;
mod returns;
mod sink;
mod source;
mod supervise;
mod topology;
mod url;

pub use config::RabbitOptions;
pub use error::RabbitError;
pub use sink::RabbitSink;
pub use source::RabbitSource;
pub use topology::{Binding, Exchange, Queue, Topology};
