//! RabbitMQ as a destination and a source of Postrider.

mod batch;
mod config;
mod connect;
mod encode;
mod error;
mod returns;
mod sink;
mod supervise;
mod topology;
mod url;

pub use config::RabbitOptions;
pub use error::RabbitError;
pub use sink::RabbitSink;
pub use topology::{Binding, Exchange, Queue, Topology};
