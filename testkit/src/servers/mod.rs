//! Real servers, private to a test process.

pub mod certificates;
mod ports;
pub mod rabbitmq;
mod watched;
