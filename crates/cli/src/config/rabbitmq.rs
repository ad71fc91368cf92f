//! The settings of `[broker.NAME]` that only RabbitMQ has.

// They are read in every build, so that the same file is good for all; without the feature nobody uses them.
#![cfg_attr(not(feature = "rabbitmq"), allow(dead_code))]

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Secret, nearest};
use serde::Deserialize;
use serde::de::Error as _;
use toml::Spanned;

use super::duration::Span;
use super::error::Problem;
use super::scalar::{Size, Switch, Whole, word};

/// The defaults of the sink, for showing them.
pub mod defaults {
    use std::time::Duration;

    pub const CHANNELS: usize = 8;
    pub const PREFETCH: u16 = 256;
    pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
    pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(20);
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
}

/// The keys as they are written. A table of its own, so that the other kinds of brokers can refuse them as one.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RabbitTable {
    channels: Option<Whole<1, 256>>,
    prefetch: Option<Whole<1, 65_535>>,
    max_message_bytes: Option<Size>,
    confirm_timeout: Option<Span>,
    connect_timeout: Option<Span>,
    ca_file: Option<PathBuf>,
    declare: Option<Switch>,
    preset: Option<Preset>,
    #[serde(default)]
    exchange: Vec<ExchangeTable>,
    #[serde(default)]
    queue: Vec<QueueTable>,
    #[serde(default)]
    binding: Vec<BindingTable>,
}

/// What is declared by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The queues of notifications.
    Notifications,
    /// The same, with one consumer at a time.
    NotificationsInOrder,
}

impl Preset {
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Notifications => "notifications",
            Preset::NotificationsInOrder => "notifications-in-order",
        }
    }
}

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = [Preset::Notifications, Preset::NotificationsInOrder];
        word(deserializer, &all.map(|preset| (preset.as_str(), preset)))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeTable {
    pub name: String,
    #[serde(default)]
    pub kind: ExchangeKind,
}

/// What an exchange does with a routing key.
#[derive(Clone, Debug)]
pub struct ExchangeKind(pub String);

impl Default for ExchangeKind {
    fn default() -> Self {
        Self("topic".to_owned())
    }
}

impl<'de> Deserialize<'de> for ExchangeKind {
    /// RabbitMQ closes the whole connection over a kind that it does not know, so a slip is caught here. The kinds of
    /// plugins begin with `x-`, all of them.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let known = ["topic", "direct", "fanout", "headers"];
        let text = String::deserialize(deserializer)?;
        if known.contains(&text.as_str()) || text.len() > 2 && text.starts_with("x-") {
            return Ok(Self(text));
        }
        let meant =
            nearest(&text, known).map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        Err(D::Error::custom(format!(
            "must be \"topic\", \"direct\", \"fanout\", \"headers\" or the kind of a plugin, \
             such as \"x-random\"{meant}"
        )))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueTable {
    pub name: String,
    pub dead_letter_exchange: Option<String>,
    pub dead_letter_routing_key: Option<String>,
    #[serde(default)]
    pub single_active_consumer: bool,
    pub delivery_limit: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingTable {
    pub exchange: String,
    pub queue: String,
    pub routing_key: String,
}

/// A RabbitMQ. What is not set has the default of its sink.
#[derive(Clone, Debug)]
pub struct Rabbit {
    pub url: Secret,
    pub channels: Option<usize>,
    pub prefetch: Option<u16>,
    pub max_message_bytes: Option<usize>,
    pub confirm_timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub ca_file: Option<PathBuf>,
    /// What is declared at every connect; none: nothing.
    pub declare: Option<Declare>,
}

/// What is declared.
#[derive(Clone, Debug)]
pub struct Declare {
    pub preset: Option<Preset>,
    pub exchanges: Vec<ExchangeTable>,
    pub queues: Vec<QueueTable>,
    pub bindings: Vec<BindingTable>,
}

impl RabbitTable {
    pub fn resolve(given: Option<Spanned<RabbitTable>>, url: &Secret) -> Result<Rabbit, Problem> {
        let span = given.as_ref().map(Spanned::span).unwrap_or_default();
        let table = given.map(Spanned::into_inner).unwrap_or_default();
        let declare = Declare {
            preset: table.preset,
            exchanges: table.exchange,
            queues: table.queue,
            bindings: table.binding,
        };
        let wanted = table.declare.is_some_and(|declare| declare.0);
        if !wanted && !declare.is_empty() {
            let problem =
                Problem::new("exchanges, queues and bindings are listed, but `declare` is not true");
            return Err(problem
                .help("set declare = true, or leave them out".to_owned())
                .at(span));
        }
        if wanted && declare.is_empty() {
            return Err(Problem::new("`declare` is true, but nothing is listed to declare").at(span));
        }
        Ok(Rabbit {
            url: url.clone(),
            channels: table.channels.and_then(|number| usize::try_from(number.0).ok()),
            prefetch: table.prefetch.and_then(|number| u16::try_from(number.0).ok()),
            max_message_bytes: table.max_message_bytes.map(|size| size.0),
            confirm_timeout: table.confirm_timeout.map(|limit| limit.0),
            connect_timeout: table.connect_timeout.map(|limit| limit.0),
            ca_file: table.ca_file,
            declare: wanted.then_some(declare),
        })
    }
}

impl Declare {
    fn is_empty(&self) -> bool {
        let lists = [self.exchanges.len(), self.queues.len(), self.bindings.len()];
        self.preset.is_none() && lists == [0, 0, 0]
    }
}
