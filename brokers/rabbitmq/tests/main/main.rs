//! Everything that the RabbitMQ sink and source promise, on a real RabbitMQ.

mod abandoned;
mod addresses;
mod barred;
mod conformance;
mod conformance_source;
mod consume;
mod declare;
mod faults;
mod form;
mod full;
mod network;
mod relayed;
mod support;
mod tls;
