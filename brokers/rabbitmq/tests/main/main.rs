//! Everything that the RabbitMQ sink and source promise, on a real RabbitMQ.

mod conformance;
mod support;
