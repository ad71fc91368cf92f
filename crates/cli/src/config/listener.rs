//! `[listener.NAME]`: a queue whose events are posted to a url, with an inbox in front.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_admin::Webhook;
use postrider_core::{Address, Envelope, RetryPolicy};
use postrider_listener::{Order, Replays};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use toml::Spanned;

use super::duration::{Span, show};
use super::error::Problem;
use super::nearest::suggestion;
use super::relay::RetryTable;
use super::scalar::{Hidden, Whole, word};
use super::secret::{path, secret};
use super::{Broker, Kind};
use crate::wire;

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long a stop waits for calls under way: longer than one may take.
const DRAIN: Duration = Duration::from_secs(20);
/// Short at first, because most trouble is; and all of them are over before RabbitMQ takes its message back.
const RETRY: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(200),
    multiplier: 2.0,
    max: Duration::from_secs(30),
    jitter: 0.2,
    max_attempts: 10,
};

/// Text at a place.
type Text = Spanned<String>;

/// The table as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerTable {
    pub url: Option<Spanned<Hidden>>,
    pub url_file: Option<Spanned<PathBuf>>,
    pub broker: Option<Text>,
    pub queue: Option<Text>,
    pub position: Option<Spanned<PathBuf>>,
    pub consumer: Option<Text>,
    pub inbox: Option<Text>,
    pub dead_letters: Option<Spanned<BTreeMap<Text, Text>>>,
    concurrency: Option<Whole<1, 1_000>>,
    prefetch: Option<Whole<1, 65_535>>,
    redelivery_limit: Option<Whole<1, 1_000_000>>,
    order: Option<OrderWord>,
    replays: Option<ReplaysWord>,
    envelope: Option<EnvelopeWord>,
    timeout: Option<Span>,
    drain_timeout: Option<Spanned<Span>>,
    horizon: Option<Span>,
    #[serde(default)]
    retry: RetryTable,
}

/// One listener.
#[derive(Clone, Debug)]
pub struct Listener {
    pub url: Webhook,
    pub broker: String,
    pub from: From,
    pub consumer: String,
    /// The name of its inbox; none: the only one there is.
    pub inbox: Option<String>,
    pub dead_broker: String,
    pub dead_address: Address,
    pub concurrency: usize,
    pub prefetch: u16,
    pub redelivery_limit: u32,
    pub order: Order,
    pub replays: Replays,
    pub envelope: Envelope,
    pub timeout: Duration,
    pub drain_timeout: Duration,
    /// How late the broker may deliver again, if that is known.
    pub horizon: Option<Duration>,
    pub retry: RetryPolicy,
}

/// What of the broker is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    Queue(String),
    /// The file of the broker; how far it was read is kept in this one.
    File {
        position: PathBuf,
    },
}

impl ListenerTable {
    /// The file that holds its secret.
    pub fn secret_file(&self) -> Option<PathBuf> {
        path(self.url_file.as_ref())
    }

    pub fn resolve(self, name: &Text, brokers: &BTreeMap<String, Broker>) -> Result<Listener, Problem> {
        let missing = |key: &str| Problem::new(format!("the key `{key}` is missing")).at(name.span());
        let url = secret("url", self.url, self.url_file)?.ok_or_else(|| missing("url"))?;
        let span = url.span();
        let url = Webhook::new(url.into_inner()).map_err(|text| Problem::new(text).at(span))?;
        let broker_name = self.broker.ok_or_else(|| missing("broker"))?;
        let broker = find(&broker_name, brokers)?;
        let consumer = self.consumer.unwrap_or_else(|| name.clone());
        if consumer.get_ref().trim().is_empty() {
            return Err(Problem::new("a consumer has a name: the inbox knows it by that").at(consumer.span()));
        }
        let from = from(
            broker,
            &broker_name,
            self.queue,
            self.position,
            consumer.get_ref(),
        )?;
        let dead = self.dead_letters.ok_or_else(|| {
            missing("dead_letters").help("for example dead_letters = { routing_key = \"dead\" }".to_owned())
        })?;
        let (dead_broker, dead_address) = dead_letters(dead, (&broker_name, broker, &from), brokers)?;
        let timeout = self.timeout.map_or(TIMEOUT, |span| span.0);
        let drain_timeout = match self.drain_timeout {
            Some(given) if given.get_ref().0 < timeout => {
                let text = "must not be shorter than `timeout`, or a stop breaks off what is called";
                return Err(Problem::new(text).at(given.span()));
            }
            Some(given) => given.get_ref().0,
            None => DRAIN.max(timeout + (DRAIN - TIMEOUT)),
        };
        Ok(Listener {
            url,
            broker: broker_name.into_inner(),
            from,
            consumer: consumer.into_inner(),
            inbox: self.inbox.map(Spanned::into_inner),
            dead_broker,
            dead_address,
            concurrency: self.concurrency.map_or(8, |n| n.0 as usize),
            prefetch: self.prefetch.map_or(200, |n| n.0 as u16),
            redelivery_limit: self.redelivery_limit.map_or(15, |n| n.0 as u32),
            order: self.order.map_or(Order::PerKey, |word| word.0),
            replays: self.replays.map_or(Replays::Ignore, |word| word.0),
            envelope: self.envelope.map_or(Envelope::Flat, |word| word.0),
            timeout,
            drain_timeout,
            horizon: self.horizon.map(|span| span.0),
            retry: self.retry.over(RETRY),
        })
    }
}

fn from(
    broker: &Broker,
    at: &Text,
    queue: Option<Text>,
    position: Option<Spanned<PathBuf>>,
    consumer: &str,
) -> Result<From, Problem> {
    match (&broker.kind, queue, position) {
        (Kind::RabbitMq(_), Some(queue), None) => Ok(From::Queue(queue.into_inner())),
        (Kind::RabbitMq(_), None, _) => {
            let text = "the key `queue` is missing: RabbitMQ has queues";
            Err(Problem::new(text).at(at.span()))
        }
        (Kind::RabbitMq(_), _, Some(given)) => {
            Err(Problem::new("`position` is a setting of file brokers").at(given.span()))
        }
        (Kind::File { .. }, Some(given), _) => {
            Err(Problem::new("a file has no queues: it is read from its beginning").at(given.span()))
        }
        (Kind::File { path, .. }, None, given) => {
            let beside = || {
                let mut position = path.clone().into_os_string();
                position.push(format!(".{consumer}"));
                position.into()
            };
            let position = given.map_or_else(beside, Spanned::into_inner);
            Ok(From::File { position })
        }
        _ => {
            let text = "nothing can be read from this kind of broker";
            let help = "listeners read RabbitMQ and files of JSON lines".to_owned();
            Err(Problem::new(text).at(at.span()).help(help))
        }
    }
}

/// The broker of dead letters, which is the listener's own unless another is named, and the parts of their address.
pub fn dead_letters(
    table: Spanned<BTreeMap<Text, Text>>,
    (own, reads, from): (&Text, &Broker, &From),
    brokers: &BTreeMap<String, Broker>,
) -> Result<(String, Address), Problem> {
    let span = table.span();
    let mut name = own.clone();
    let mut parts = Vec::new();
    for (part, value) in table.into_inner() {
        match part.get_ref().as_str() {
            "broker" => name = value,
            _ => parts.push((part, value)),
        }
    }
    let broker = find(&name, brokers)?;
    if let Some(fields) = wire::address_fields(&broker.kind) {
        let known: Vec<&str> = fields.iter().map(|field| field.name).chain(["broker"]).collect();
        if let Some((stranger, _)) = parts
            .iter()
            .find(|(part, _)| !known.contains(&part.get_ref().as_str()))
        {
            let problem = Problem::new(format!("unknown key `{}`", stranger.get_ref())).at(stranger.span());
            return Err(problem.help(suggestion(stranger.get_ref(), &known)));
        }
        let given = |field: &str| parts.iter().any(|(part, _)| part.get_ref() == field);
        if let Some(field) = fields.iter().find(|field| field.required && !given(field.name)) {
            let text = format!("the key `{}` is missing: the broker needs it", field.name);
            return Err(Problem::new(text).at(span));
        }
    }
    let address = parts
        .into_iter()
        .map(|(part, value)| (part.into_inner(), value.into_inner()));
    let address = Address(address.collect());
    if leads_back(reads, from, broker, &address) {
        let text = "dead letters must go somewhere else than where they came from: they would be read, refused and \
                    written again without an end";
        let help = match from {
            From::Queue(_) => "name another queue, for example dead_letters = { routing_key = \"dead\" }",
            From::File { .. } => "name another broker, for example dead_letters = { broker = \"dead\" }",
        };
        return Err(Problem::new(text).at(span).help(help.to_owned()));
    }
    Ok((name.into_inner(), address))
}

/// Whether what is written there is read again, as far as settings tell: whether an exchange leads to the queue is for
/// its bindings to say.
fn leads_back(reads: &Broker, from: &From, writes: &Broker, address: &Address) -> bool {
    match (from, &reads.kind, &writes.kind) {
        (From::Queue(queue), Kind::RabbitMq(one), Kind::RabbitMq(other)) => {
            let part = |name| address.get(name).unwrap_or_default();
            // Without an exchange the routing key is the name of a queue.
            without_login(one.url.expose()) == without_login(other.url.expose())
                && part("exchange").is_empty()
                && part("routing_key") == queue
        }
        (From::File { .. }, Kind::File { path: one, .. }, Kind::File { path: other, .. }) => {
            let file = match (address.get("path"), other.parent()) {
                (Some(relative), Some(folder)) => folder.join(relative),
                _ => other.clone(),
            };
            same_file(one, &file)
        }
        _ => false,
    }
}

/// The part of a url that says where a broker is.
fn without_login(url: &str) -> &str {
    let (_, place) = url.split_once("://").unwrap_or(("", url));
    let end = place.find('/').unwrap_or(place.len());
    match place[..end].rfind('@') {
        Some(at) => &place[at + 1..],
        None => place,
    }
}

/// Whether two paths are one file: one that is not there yet is known by its name only.
fn same_file(one: &Path, other: &Path) -> bool {
    let known = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    known(one) == known(other)
}

pub fn find<'a>(name: &Text, brokers: &'a BTreeMap<String, Broker>) -> Result<&'a Broker, Problem> {
    let known: Vec<&str> = brokers.keys().map(String::as_str).collect();
    brokers.get(name.get_ref()).ok_or_else(|| {
        Problem::new(format!("there is no broker named {:?}", name.get_ref()))
            .at(name.span())
            .help(suggestion(name.get_ref(), &known))
    })
}

impl Listener {
    /// What is in force, without the url's secrets.
    pub fn show(&self) -> Value {
        let mut dead: BTreeMap<&str, &str> = BTreeMap::from([("broker", self.dead_broker.as_str())]);
        let parts = self.dead_address.0.iter();
        dead.extend(parts.map(|(part, value)| (part.as_str(), value.as_str())));
        let mut value = json!({
            "url": self.url.show(),
            "broker": self.broker,
            "consumer": self.consumer,
            "dead_letters": dead,
            "concurrency": self.concurrency,
            "prefetch": self.prefetch,
            "redelivery_limit": self.redelivery_limit,
            "order": if self.order == Order::PerKey { "key" } else { "none" },
            "replays": if self.replays == Replays::Apply { "apply" } else { "ignore" },
            "envelope": super::show::envelope(self.envelope),
            "timeout": show(self.timeout),
            "drain_timeout": show(self.drain_timeout),
            "retry": super::show::retry(&self.retry),
        });
        match &self.from {
            From::Queue(queue) => value["queue"] = queue.as_str().into(),
            From::File { position } => value["position"] = position.display().to_string().into(),
        }
        if let Some(inbox) = &self.inbox {
            value["inbox"] = inbox.as_str().into();
        }
        if let Some(horizon) = self.horizon {
            value["horizon"] = show(horizon).into();
        }
        value
    }
}

struct OrderWord(Order);

impl<'de> Deserialize<'de> for OrderWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("key", Order::PerKey), ("none", Order::None)]).map(Self)
    }
}

struct ReplaysWord(Replays);

impl<'de> Deserialize<'de> for ReplaysWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &[("ignore", Replays::Ignore), ("apply", Replays::Apply)],
        )
        .map(Self)
    }
}

struct EnvelopeWord(Envelope);

impl<'de> Deserialize<'de> for EnvelopeWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("flat", Envelope::Flat), ("raw", Envelope::Raw)]).map(Self)
    }
}
