//! Everything that the RabbitMQ sink and source promise, on a real RabbitMQ.

mod addresses;
mod conformance;
mod faults;
mod form;
mod network;
mod rate;
mod relayed;
mod source;
mod support;
mod tls;
