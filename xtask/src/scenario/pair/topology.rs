//! What an operator does to exchange and bindings by mistake, and how it is mended.

use lapin::options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::runtime::Handle;

use super::configuration::{Exchanges, queue, routing_key};
use crate::failure::Result;

/// The exchange, the queues and the bindings of a scenario.
pub(in crate::scenario) struct Topology<'a> {
    runtime: &'a Handle,
    url: String,
    exchanges: Exchanges,
}

impl<'a> Topology<'a> {
    pub(super) fn new(runtime: &'a Handle, url: String, exchanges: Exchanges) -> Self {
        Self {
            runtime,
            url,
            exchanges,
        }
    }

    /// Takes the binding of a queue away.
    pub(in crate::scenario) fn unbind(&self, line: usize) -> Result<()> {
        self.ask(async |channel| {
            let (exchange, queue, key) = (self.exchanges.of(line), queue(line), routing_key(line));
            let arguments = FieldTable::default();
            channel
                .queue_unbind(queue.into(), exchange.into(), key.into(), arguments)
                .await
        })
    }

    /// Puts the binding of a queue back.
    pub(in crate::scenario) fn bind(&self, line: usize) -> Result<()> {
        self.ask(async |channel| {
            let (exchange, queue, key) = (self.exchanges.of(line), queue(line), routing_key(line));
            let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
            channel
                .queue_bind(queue.into(), exchange.into(), key.into(), options, arguments)
                .await
        })
    }

    /// Deletes the exchange of a line, and with it every binding.
    pub(in crate::scenario) fn delete_exchange(&self, line: usize) -> Result<()> {
        self.ask(async |channel| {
            let options = ExchangeDeleteOptions::default();
            channel
                .exchange_delete(self.exchanges.of(line).into(), options)
                .await
        })
    }

    /// Makes the exchange of a line again, without bindings.
    pub(in crate::scenario) fn declare_exchange(&self, line: usize) -> Result<()> {
        self.ask(async |channel| {
            let options = ExchangeDeclareOptions {
                durable: true,
                ..ExchangeDeclareOptions::default()
            };
            let (exchange, arguments) = (self.exchanges.of(line), FieldTable::default());
            channel
                .exchange_declare(exchange.into(), ExchangeKind::Topic, options, arguments)
                .await
        })
    }

    fn ask(&self, ask: impl AsyncFnOnce(Channel) -> lapin::Result<()>) -> Result<()> {
        self.runtime.block_on(async {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            ask(channel.clone()).await?;
            // What was asked for is done; how the goodbye goes does not matter.
            let _ = connection.close(200, "done".into()).await;
            Ok(())
        })
    }
}
