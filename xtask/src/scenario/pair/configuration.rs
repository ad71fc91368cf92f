//! postrider.toml of the pair.

use std::fs;

use super::Pair;
use crate::failure::{Failure, Result};

/// The exchanges that the relay publishes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::scenario) enum Exchanges {
    /// One for all lines of business.
    #[default]
    One,
    /// One for each.
    PerLine,
}

impl Exchanges {
    /// The exchange of a line of business.
    pub(super) fn of(self, line: usize) -> String {
        match self {
            Self::One => "shop.exchange".to_owned(),
            Self::PerLine => format!("shop{line}.exchange"),
        }
    }

    /// The same as a template of a route.
    fn template(self) -> &'static str {
        match self {
            Self::One => "shop.exchange",
            Self::PerLine => "{aggregate_type|lower}.exchange",
        }
    }
}

/// The queue of a line of business.
pub(super) fn queue(line: usize) -> String {
    format!("shop{line}")
}

/// What the binding of a queue matches: the route makes it of the aggregate's type.
pub(super) fn routing_key(line: usize) -> String {
    format!("order.shop{line}")
}

/// What a scenario sets.
pub(in crate::scenario) struct Setup {
    /// Lines of business, each with a queue of its own.
    pub(in crate::scenario) queues: usize,
    pub(in crate::scenario) exchanges: Exchanges,
    /// Lines for `[relay]`.
    pub(in crate::scenario) relay: String,
    /// Lines for `[outbox.shop]`.
    pub(in crate::scenario) outbox: String,
    /// Lines for `[broker.rabbit.rabbitmq]`.
    pub(in crate::scenario) rabbitmq: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            queues: 1,
            exchanges: Exchanges::One,
            relay: String::new(),
            outbox: String::new(),
            rabbitmq: String::new(),
        }
    }
}

impl Setup {
    pub(super) fn text(&self, database: &str, rabbit: &str) -> String {
        let list = |of: &dyn Fn(usize) -> String| (0..self.queues).map(of).collect::<Vec<_>>().join(", ");
        let exchange = |line| self.exchanges.of(line);
        let exchanges = match self.exchanges {
            Exchanges::One => format!("{{ name = \"{}\" }}", exchange(0)),
            Exchanges::PerLine => list(&|line| format!("{{ name = \"{}\" }}", exchange(line))),
        };
        let queues = list(&|line| format!("{{ name = \"{}\" }}", queue(line)));
        let bindings = list(&|line| {
            let (exchange, queue, key) = (exchange(line), queue(line), routing_key(line));
            format!("{{ exchange = \"{exchange}\", queue = \"{queue}\", routing_key = \"{key}\" }}")
        });
        let to = self.exchanges.template();
        let Setup {
            relay,
            outbox,
            rabbitmq,
            ..
        } = self;
        format!(
            "[outbox.shop]\nurl = \"{database}\"\n{outbox}\n\n\
             [broker.rabbit]\nurl = \"{rabbit}\"\n\n\
             [broker.rabbit.rabbitmq]\ndeclare = true\nexchange = [{exchanges}]\n\
             queue = [{queues}]\nbinding = [{bindings}]\n{rabbitmq}\n\n\
             [[route]]\nto = [{{ broker = \"rabbit\", exchange = \"{to}\", \
             routing_key = \"order.{{aggregate_type|lower}}\" }}]\n\n\
             [relay]\n{relay}\n\n[log]\nformat = \"json\"\n"
        )
    }
}

impl Pair<'_> {
    /// Writes postrider.toml by a setup, for relays that are started from now on.
    pub(in crate::scenario) fn reconfigure(&self, setup: &Setup) -> Result<()> {
        self.configure(&setup.text(self.database().url(), &self.rabbit_url()))
    }

    /// Writes postrider.toml, for relays that are started from now on.
    pub(in crate::scenario) fn configure(&self, text: &str) -> Result<()> {
        Ok(fs::write(self.directory().join("postrider.toml"), text)?)
    }

    /// Runs a command of the binary that must succeed, and gives what it printed.
    pub(in crate::scenario) fn postrider(&self, arguments: &[&str]) -> Result<String> {
        let output = self.stage.postrider(self.directory(), arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::new(format!(
                "postrider {} ended with {}: {}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }
}
