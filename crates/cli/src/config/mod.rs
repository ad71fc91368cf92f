//! One TOML file, read into types that the rest of the program can trust.
//!
//! Reading goes in three steps: the text becomes a tree with places (`load`), environment variables are laid over it
//! (`env`), and the tree becomes tables as they are written (`outbox`, `broker`, `route`, …), which are then resolved
//! into what they mean. An error at any step knows its line or its variable.

mod admin;
mod broker;
mod cleanup;
mod cron;
mod destination;
pub mod duration;
mod env;
mod error;
mod inbox;
mod listener;
mod load;
mod mask;
mod nearest;
mod notify;
mod on_dead;
mod outbox;
mod postgres;
mod rabbitmq;
mod relay;
mod route;
mod scalar;
mod secret;
mod show;
#[cfg(test)]
mod tests;
mod url;

use std::collections::BTreeMap;
use std::path::PathBuf;

use postrider_admin::Thresholds;
use postrider_core::Router;
use serde::Deserialize;
use toml::Spanned;

pub use admin::{Admin, DEFAULT_LISTEN, Listen};
pub use broker::{Broker, Kind};
pub use cleanup::{Cleanup, Format, Log};
pub use error::{ConfigError, Place as ErrorPlace, Problem};
pub use inbox::{DEFAULT_TABLE as DEFAULT_INBOX, Inbox};
pub use listener::{From as ListenFrom, Listener, ListenerTable};
#[cfg(test)]
pub use load::{DEFAULT, parse};
pub use load::{Origin, load};
pub use nearest::suggestion;
pub use notify::{Notify, Queues};
pub use on_dead::OnDead;
pub use outbox::{Outbox, Place};
pub use postgres::Postgres;
pub use rabbitmq::Rabbit;
#[cfg(any(test, feature = "rabbitmq"))]
pub use rabbitmq::{Declare, Preset};
pub use relay::Relay;
pub use scalar::Hidden;
pub use secret::open_to_others;

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    outbox: BTreeMap<Spanned<String>, outbox::OutboxTable>,
    #[serde(default)]
    inbox: BTreeMap<Spanned<String>, inbox::InboxTable>,
    #[serde(default)]
    broker: BTreeMap<Spanned<String>, broker::BrokerTable>,
    #[serde(default)]
    listener: BTreeMap<Spanned<String>, ListenerTable>,
    notify: Option<Spanned<notify::NotifyTable>>,
    #[serde(default)]
    route: Vec<route::RouteTable>,
    relay: Option<Spanned<relay::RelayTable>>,
    #[serde(default)]
    log: cleanup::LogTable,
    #[serde(default)]
    cleanup: cleanup::CleanupTable,
    on_dead: Option<Spanned<on_dead::OnDeadTable>>,
    #[serde(default)]
    health: admin::HealthTable,
    #[serde(default)]
    admin: admin::AdminTable,
}

/// A configuration in which every reference holds and every value is within its bounds.
#[derive(Clone, Debug)]
pub struct Config {
    pub origin: Origin,
    pub outboxes: BTreeMap<String, Outbox>,
    /// The inboxes that are configured; without any, there may be one beside each outbox.
    pub inboxes: BTreeMap<String, Inbox>,
    pub brokers: BTreeMap<String, Broker>,
    /// What `postrider listen` does.
    pub listeners: BTreeMap<String, Listener>,
    /// What becomes a notification, and of whom.
    pub notify: Option<Notify>,
    /// Every route: those of the file, and before them those of notifications.
    pub router: Router,
    /// The routes of the file alone: what `postrider run` publishes by.
    pub published: Router,
    pub relay: Relay,
    pub log: Log,
    pub cleanup: Cleanup,
    /// Who is told of dead letters.
    pub on_dead: Option<OnDead>,
    /// From when on something counts as trouble.
    pub health: Thresholds,
    pub admin: Admin,
    /// The files that hold secrets, for checking who may read them.
    pub secret_files: Vec<PathBuf>,
}

impl Document {
    fn resolve(self, origin: Origin) -> Result<Config, Problem> {
        let cleanup = self.cleanup.resolve()?;
        let relay = relay::RelayTable::resolve(self.relay)?;
        let mut outboxes = BTreeMap::new();
        let mut secret_files = Vec::new();
        for (name, table) in self.outbox {
            check_name(&name)?;
            secret_files.extend(table.secret_files());
            let mut outbox = table.resolve(&name, &cleanup)?;
            apart(&name, &outbox, &outboxes)?;
            outbox.fit(relay.settings.lease)?;
            cleanup.fits(name.get_ref(), outbox.history)?;
            outboxes.insert(name.into_inner(), outbox);
        }
        let mut inboxes = BTreeMap::new();
        for (name, table) in self.inbox {
            check_name(&name)?;
            secret_files.extend(table.secret_files());
            let inbox = table.resolve(&name, &cleanup)?;
            inboxes.insert(name.into_inner(), inbox);
        }
        let mut brokers = BTreeMap::new();
        for (name, table) in self.broker {
            check_name(&name)?;
            secret_files.extend(table.secret_files());
            let broker = table.resolve(&name)?;
            brokers.insert(name.into_inner(), broker);
        }
        let mut listeners = BTreeMap::new();
        for (name, table) in self.listener {
            check_name(&name)?;
            secret_files.extend(table.secret_file());
            let listener = table.resolve(&name, &brokers)?;
            listeners.insert(name.into_inner(), listener);
        }
        require(
            "outbox",
            "[outbox.main]\\nurl = \"sqlite:postrider.db\"",
            outboxes.is_empty() && inboxes.is_empty(),
        )?;
        require(
            "route",
            "[[route]]\\nto = [{ broker = \"events\" }]",
            self.route.is_empty() && !outboxes.is_empty() && self.notify.is_none(),
        )?;
        secret_files.extend(
            self.notify
                .iter()
                .flat_map(|table| table.get_ref().secret_files()),
        );
        let beside = notify::Beside {
            outboxes: &outboxes,
            brokers: &brokers,
            relay: &relay,
        };
        let notify = self
            .notify
            .map(|table| notify::NotifyTable::resolve(table, &beside));
        let notify = notify.transpose()?;
        let retry = relay.settings.retry;
        let published = destination::router(self.route, &outboxes, &brokers, retry)?;
        let router = match &notify {
            Some(notify) => notify.router(&published, retry)?,
            None => published.clone(),
        };
        let health = self.health.resolve(&relay)?;
        secret_files.extend(self.admin.secret_files());
        secret_files.extend(
            self.on_dead
                .as_ref()
                .and_then(|table| table.get_ref().secret_file()),
        );
        Ok(Config {
            origin,
            outboxes,
            inboxes,
            brokers,
            listeners,
            notify,
            router,
            published,
            relay,
            log: self.log.resolve()?,
            cleanup,
            on_dead: self.on_dead.map(on_dead::OnDeadTable::resolve).transpose()?,
            health,
            admin: self.admin.resolve()?,
            secret_files,
        })
    }
}

/// Two outboxes in the same tables would publish every event twice, each by its own routes.
fn apart(name: &Spanned<String>, outbox: &Outbox, others: &BTreeMap<String, Outbox>) -> Result<(), Problem> {
    let same = others.iter().find(|(_, other)| other.has_the_tables_of(outbox));
    match same {
        Some((other, _)) => Err(Problem::new(format!(
            "the outboxes {other:?} and {:?} are the same tables",
            name.get_ref()
        ))
        .at(name.span())
        .help("give one of them another url or another prefix".to_owned())),
        None => Ok(()),
    }
}

/// Names appear in logs, metrics, variables and the database, so they are kept plain.
fn check_name(name: &Spanned<String>) -> Result<(), Problem> {
    let text = name.get_ref();
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match plain && (1..=64).contains(&text.len()) {
        true => Ok(()),
        false => Err(Problem::new("a name has from 1 to 64 letters, digits, `_` and `-`").at(name.span())),
    }
}

fn require(what: &str, example: &str, missing: bool) -> Result<(), Problem> {
    match missing {
        true => Err(Problem::new(format!("no {what} is configured")).help(format!(
            "add one, for example:\n    {}",
            example.replace("\\n", "\n    ")
        ))),
        false => Ok(()),
    }
}
