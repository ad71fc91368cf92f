//! Queues of RabbitMQ that the events of an outbox go to, by the type of their aggregate.

use crate::failure::Result;
use crate::scenario::pair::vhost;

/// A virtual host of its own with its queues.
pub(in crate::scenario) struct Queues {
    pub(super) url: String,
    /// Queues, each with a type of aggregates whose events it gets.
    bindings: Vec<(&'static str, &'static str)>,
    /// More of `[broker.mq.rabbitmq]`.
    more: &'static str,
}

impl Queues {
    /// A queue for each type, with its name.
    pub(in crate::scenario) fn of(types: &[&'static str]) -> Result<Self> {
        Self::bound(types.iter().map(|name| (*name, *name)).collect(), "")
    }

    /// These queues with these types, and more of what can be said of a RabbitMQ.
    pub(in crate::scenario) fn bound(
        bindings: Vec<(&'static str, &'static str)>,
        more: &'static str,
    ) -> Result<Self> {
        Ok(Self {
            url: vhost()?,
            bindings,
            more,
        })
    }

    /// The same virtual host with other bindings, and without anything more.
    pub(in crate::scenario) fn rebind(&mut self, bindings: Vec<(&'static str, &'static str)>) {
        self.bindings = bindings;
        self.more = "";
    }

    /// The broker as the configuration names it. A relay declares the queues when it starts.
    pub(super) fn broker(&self) -> String {
        let mut names: Vec<&str> = self.bindings.iter().map(|(queue, _)| *queue).collect();
        names.dedup();
        let queues = names.iter().map(|name| format!("{{ name = \"{name}\" }}"));
        let bindings = self.bindings.iter().map(|(queue, of)| {
            format!("{{ exchange = \"shop\", queue = \"{queue}\", routing_key = \"{of}\" }}")
        });
        format!(
            "[broker.mq]\nurl = \"{}\"\n\n[broker.mq.rabbitmq]\ndeclare = true\n{}\n\
             exchange = [{{ name = \"shop\" }}]\nqueue = [{}]\nbinding = [{}]",
            self.url,
            self.more,
            queues.collect::<Vec<_>>().join(", "),
            bindings.collect::<Vec<_>>().join(", ")
        )
    }

    /// How a route names it.
    pub(super) const ROUTE: &'static str =
        "broker = \"mq\", exchange = \"shop\", routing_key = \"{aggregate_type}\"";
}
