//! `[notify]`: which events become notifications of whom, by which channels, and where feeds are read.

mod channels;
mod show;
mod workflow;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Address, RetryPolicy, Router, RouterError, Secret};
use postrider_notify::{Audience, Channel, Workflows, app};
use serde::Deserialize;
use toml::Spanned;

use super::duration::Keep;
use super::error::Problem;
use super::listener::{From, dead_letters, find};
use super::nearest::suggestion;
use super::relay::Relay;
use super::scalar::{Hidden, shown};
use super::secret::{path, secret};
use super::{Broker, Kind, Outbox};
pub use channels::{Email, Push};

/// Beside the port of health and metrics.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7788);
/// As long as people look back.
const DEFAULT_KEEP: Duration = Duration::from_secs(90 * 86_400);
/// Nobody types them, so they may be long enough that nobody guesses them.
const SHORTEST_SECRET: usize = 16;
/// The people that there are where nobody says otherwise, as aggregate types.
const AUDIENCES: [&str; 4] = ["RESTAURANT", "CUSTOMER", "AGENCY", "ADMIN"];
/// Where the preset `notifications` puts what its queues reject.
const DEAD_EXCHANGE: &str = "notifications.dead.exchange";
const DEAD_KEY: &str = "notification.dead";

type Text = Spanned<String>;

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyTable {
    outbox: Option<Text>,
    listen: Option<Text>,
    token: Option<Spanned<Hidden>>,
    token_file: Option<Spanned<PathBuf>>,
    secret: Option<Spanned<Hidden>>,
    secret_file: Option<Spanned<PathBuf>>,
    keep: Option<Keep>,
    #[serde(default)]
    ignore: Vec<String>,
    broker: Option<Text>,
    dead_letters: Option<Spanned<BTreeMap<Text, Text>>>,
    #[serde(default)]
    audience: Vec<Spanned<AudienceTable>>,
    #[serde(default)]
    workflow: Vec<Spanned<workflow::WorkflowTable>>,
    email: Option<Spanned<channels::EmailTable>>,
    push: Option<Spanned<channels::PushTable>>,
}

/// `[[notify.audience]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AudienceTable {
    name: Text,
    queue: Option<Text>,
    view: Option<Text>,
}

/// Everything about notifications.
#[derive(Clone, Debug)]
pub struct Notify {
    /// The outbox in whose database notifications are stored, and which carries the deliveries.
    pub outbox: String,
    /// Where feeds are served; none: nowhere.
    pub listen: Option<SocketAddr>,
    pub token: Option<Secret>,
    pub secret: Option<Secret>,
    /// How long notifications are kept; none: for ever.
    pub keep: Option<Duration>,
    /// Where the events come from; none: from the outbox itself, without a broker.
    pub queues: Option<Queues>,
    /// What is listened to, by the name of the audience.
    pub queue_of: BTreeMap<String, String>,
    pub workflows: Arc<Workflows>,
    pub email: Option<Email>,
    pub push: Option<Push>,
}

/// The broker that events of audiences come from.
#[derive(Clone, Debug)]
pub struct Queues {
    pub broker: String,
    pub dead_broker: String,
    pub dead_address: Address,
}

/// What the table refers to.
pub struct Beside<'a> {
    pub outboxes: &'a BTreeMap<String, Outbox>,
    pub brokers: &'a BTreeMap<String, Broker>,
    pub relay: &'a Relay,
}

impl Notify {
    /// The channels through which something is sent.
    pub fn channels(&self) -> Vec<Channel> {
        let email = self.email.as_ref().map(|_| Channel::Email);
        email
            .into_iter()
            .chain(self.push.as_ref().map(|_| Channel::Push))
            .collect()
    }

    /// The audiences whose events take effect without a broker.
    pub fn direct(&self) -> Vec<String> {
        match &self.queues {
            Some(_) => Vec::new(),
            None => {
                let audiences = self.workflows.audiences().iter();
                audiences.map(|audience| audience.name.clone()).collect()
            }
        }
    }

    /// The routes of its outbox, and behind them those of the file.
    pub fn router(&self, published: &Router, retry: RetryPolicy) -> Result<Router, Problem> {
        let wrong = |error: RouterError| {
            let help = "\"notifications\", \"email\" and \"push\" are the names of [notify]".to_owned();
            Problem::new(error.to_string()).help(help)
        };
        let mut builder =
            app::routes(&self.outbox, &self.direct(), &self.channels(), retry).map_err(wrong)?;
        for route in published.routes() {
            let to = route.to.iter().map(|id| published.destination(*id).clone());
            builder = builder.route(route.when.clone(), to.collect()).map_err(wrong)?;
        }
        Ok(builder.build())
    }
}

impl NotifyTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let own = [&self.token_file, &self.secret_file];
        let mut files: Vec<PathBuf> = own.into_iter().filter_map(|file| path(file.as_ref())).collect();
        files.extend(self.email.iter().flat_map(|table| table.get_ref().secret_files()));
        files.extend(self.push.iter().filter_map(|table| table.get_ref().secret_file()));
        files
    }

    pub fn resolve(table: Spanned<Self>, beside: &Beside<'_>) -> Result<Notify, Problem> {
        let span = table.span();
        let table = table.into_inner();
        let outbox = outbox(table.outbox, span.clone(), beside.outboxes)?;
        let token = long(secret("token", table.token, table.token_file)?)?;
        let secret = long(secret("secret", table.secret, table.secret_file)?)?;
        let listen = match &table.listen {
            None => Some(DEFAULT_LISTEN),
            Some(given) => listen(given, token.is_some() && secret.is_some())?,
        };
        let (audiences, queue_of) = audiences(table.audience, table.broker.is_some())?;
        let queues = queues(table.broker, table.dead_letters, &queue_of, beside.brokers)?;
        let limit = beside.relay.settings.publish_timeout;
        let email = table
            .email
            .map(|table| channels::EmailTable::resolve(table, limit, secret.as_ref()));
        let push = table.push.map(|table| channels::PushTable::resolve(table, limit));
        let (email, push) = (email.transpose()?, push.transpose()?);
        let ways = [(Channel::Email, email.is_some()), (Channel::Push, push.is_some())];
        let keep = table.keep.map_or(Some(DEFAULT_KEEP), |keep| keep.0);
        let workflows = workflow::resolve(table.workflow, audiences, (&ways, keep), span)?;
        Ok(Notify {
            outbox,
            listen,
            token,
            secret,
            keep,
            queues,
            queue_of,
            workflows: Arc::new(workflows.ignoring(table.ignore)),
            email,
            push,
        })
    }
}

/// The outbox that is named, or the only one there is.
fn outbox(
    given: Option<Text>,
    at: Range<usize>,
    outboxes: &BTreeMap<String, Outbox>,
) -> Result<String, Problem> {
    let known: Vec<&str> = outboxes.keys().map(String::as_str).collect();
    match (given, known.as_slice()) {
        (Some(name), known) if known.contains(&name.get_ref().as_str()) => Ok(name.into_inner()),
        (Some(name), known) => Err(
            Problem::new(format!("there is no outbox named {:?}", name.get_ref()))
                .at(name.span())
                .help(suggestion(name.get_ref(), known)),
        ),
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            let text = "the key `outbox` is missing: it names the database that notifications are stored in";
            Err(Problem::new(text)
                .at(at)
                .help("for example outbox = \"main\"".to_owned()))
        }
    }
}

fn long(secret: Option<Spanned<Secret>>) -> Result<Option<Secret>, Problem> {
    let short = |secret: &&Spanned<Secret>| secret.get_ref().expose().len() < SHORTEST_SECRET;
    if let Some(secret) = secret.as_ref().filter(short) {
        let text = format!("must have at least {SHORTEST_SECRET} characters");
        let help = "make one with `openssl rand -hex 32`".to_owned();
        return Err(Problem::new(text).at(secret.span()).help(help));
    }
    Ok(secret.map(Spanned::into_inner))
}

fn listen(given: &Text, guarded: bool) -> Result<Option<SocketAddr>, Problem> {
    let text = given.get_ref().trim();
    if text == "off" {
        return Ok(None);
    }
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let address: SocketAddr = text.parse().map_err(|_| {
        let text = format!("must be an address with a port, or \"off\", is {}", shown(&text));
        let help = format!("for example \"{DEFAULT_LISTEN}\" or \"[::1]:7788\"");
        Problem::new(text).at(given.span()).help(help)
    })?;
    match guarded || address.ip().to_canonical().is_loopback() {
        true => Ok(Some(address)),
        false => {
            let text = format!("other machines can reach {address}, so a token and a secret are needed");
            let help = "set `token_file` and `secret_file` in [notify] to files with long random texts, or listen on \
                        127.0.0.1";
            Err(Problem::new(text).at(given.span()).help(help.to_owned()))
        }
    }
}

fn queues(
    broker: Option<Text>,
    letters: Option<Spanned<BTreeMap<Text, Text>>>,
    queue_of: &BTreeMap<String, String>,
    brokers: &BTreeMap<String, Broker>,
) -> Result<Option<Queues>, Problem> {
    let Some(name) = broker else {
        return match letters {
            Some(given) => Err(Problem::new(
                "`dead_letters` are those of a broker; without one, what fails is parked in the outbox",
            )
            .at(given.span())),
            None => Ok(None),
        };
    };
    if !matches!(find(&name, brokers)?.kind, Kind::RabbitMq(_)) {
        let help =
            "listen to RabbitMQ, or leave `broker` out: events of the outbox itself need none".to_owned();
        return Err(Problem::new("this kind of broker has no queues")
            .at(name.span())
            .help(help));
    }
    let parts = [("exchange", DEAD_EXCHANGE), ("routing_key", DEAD_KEY)];
    let parts = parts.map(|(part, value)| (part.to_owned(), value.to_owned()));
    let (mut dead_broker, mut dead_address) = (name.get_ref().clone(), Address(parts.into()));
    if let Some(given) = letters {
        let reads = find(&name, brokers)?;
        // They must lead back to none of the queues.
        for queue in queue_of.values() {
            let from = From::Queue(queue.clone());
            (dead_broker, dead_address) = dead_letters(given.clone(), (&name, reads, &from), brokers)?;
        }
    }
    Ok(Some(Queues {
        broker: name.into_inner(),
        dead_broker,
        dead_address,
    }))
}

/// Who there is, and which queue is whose.
fn audiences(
    tables: Vec<Spanned<AudienceTable>>,
    has_broker: bool,
) -> Result<(Vec<Audience>, BTreeMap<String, String>), Problem> {
    let (mut audiences, mut queues) = (Vec::new(), BTreeMap::new());
    let usual = tables.is_empty().then_some(AUDIENCES).into_iter().flatten();
    let usual = usual.map(|name| (name.to_owned(), None, None, 0..0));
    let given = tables.into_iter().map(|table| {
        let (span, table) = (table.span(), table.into_inner());
        (table.name.into_inner(), table.view, table.queue, span)
    });
    for (name, view, queue, span) in given.chain(usual) {
        let small = name.to_lowercase();
        if let (Some(queue), false) = (&queue, has_broker) {
            let text = "a queue is one of a broker: name it with `broker` in [notify]";
            return Err(Problem::new(text).at(queue.span()));
        }
        let view = view.map_or_else(|| usual_view(&small), Spanned::into_inner);
        let queue = queue.map_or_else(|| format!("notification.{small}"), Spanned::into_inner);
        queues.insert(name.clone(), queue);
        audiences.push(Audience { name, view });
        // Each is checked with those before it, so that the error has the line of the one that is wrong.
        Workflows::new(audiences.clone(), Vec::new()).map_err(|error| Problem::new(error.text).at(span))?;
    }
    Ok((audiences, queues))
}

/// The view of an audience that names none: two of the four usual ones are users of something.
fn usual_view(audience: &str) -> String {
    match audience {
        "restaurant" | "agency" => format!("{audience}_user_notification"),
        _ => format!("{audience}_notification"),
    }
}
