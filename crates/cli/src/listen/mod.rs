//! From configuration to listeners that post events to a url.

mod call;

use std::sync::Arc;

use postrider_admin::Admin;
use postrider_core::{Sink, Source};
use postrider_listener::{Calls, DeadLetters, Keep, Listener};

use crate::config::{self, Broker, Config, Inbox, Kind, ListenFrom};
use crate::failure::Failure;
use crate::inbox::{self, OpenInbox};
use crate::wire::{self, Missing};
use call::Post;

/// A listener that is ready to run.
pub struct Ready {
    pub name: String,
    pub listener: Listener<Calls>,
    /// The place of its dead letters, to be closed behind it.
    pub letters: Arc<dyn Sink>,
}

/// Puts a listener together. Nothing is connected yet, except to a database file; where it is asked for, the table of
/// the inbox is made.
pub async fn ready(
    config: &Config,
    name: &str,
    settings: &config::Listener,
    migrate: bool,
    admin: &Admin,
) -> Result<Ready, Failure> {
    let (inbox, retention) = open_inbox(config, name, settings, migrate).await?;
    let console = inbox.console();
    let mut keep = Keep::new(console.clone(), retention);
    if let Some(horizon) = settings.horizon {
        keep = keep.horizon(horizon);
    }
    let broker = broker(config, &settings.broker)?;
    let letters = wire::sink(
        &settings.dead_broker,
        self::broker(config, &settings.dead_broker)?,
    )?;
    let post = Post::new(settings.url.clone(), settings.timeout, &settings.consumer);
    let listener = Listener::builder(source(broker, settings)?, Calls::new(console))
        .consumer(settings.consumer.as_str())
        .handler(Arc::new(post))
        .dead_letters(DeadLetters::to(letters.clone(), settings.dead_address.clone()))
        .keep(keep)
        .concurrency(settings.concurrency)
        .prefetch(usize::from(settings.prefetch))
        .order(settings.order)
        .retry(settings.retry)
        .redelivery_limit(settings.redelivery_limit)
        .replays(settings.replays)
        .envelope(settings.envelope)
        .drain(settings.drain_timeout)
        .observer(admin.listener_observer())
        .build()
        .map_err(|error| Failure::input(format!("the listener {name:?}: {error}")))?;
    admin.watch_listener(&listener);
    Ok(Ready {
        name: name.to_owned(),
        listener,
        letters,
    })
}

/// Whether a listener has what it needs. Nothing is connected.
pub fn check(config: &Config, name: &str, settings: &config::Listener) -> Result<(), Failure> {
    single_inbox(config, name, settings).map(drop)
}

async fn open_inbox(
    config: &Config,
    name: &str,
    settings: &config::Listener,
    migrate: bool,
) -> Result<(OpenInbox, std::time::Duration), Failure> {
    let (inbox_name, inbox) = single_inbox(config, name, settings)?;
    let missing = if migrate { Missing::Create } else { Missing::Refuse };
    let opened = inbox::open(&inbox_name, &inbox, missing, settings.concurrency)?;
    if migrate {
        let made = opened.console().migrate().await;
        made.map_err(|error| inbox::failed(&inbox_name, &error))?;
    }
    Ok((opened, inbox.retention))
}

fn single_inbox(
    config: &Config,
    name: &str,
    settings: &config::Listener,
) -> Result<(String, Inbox), Failure> {
    let mut chosen = inbox::chosen(config, settings.inbox.as_deref())?;
    match (chosen.pop(), chosen.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Failure::input(format!("the listener {name:?} has no inbox"))
            .advice("add one, for example [inbox.main] with url = \"sqlite:inbox.db\"")),
        (Some(_), false) => Err(Failure::input(format!(
            "there are several inboxes, and the listener {name:?} names none"
        ))
        .advice("name it with `inbox` or with --inbox")),
    }
}

fn broker<'a>(config: &'a Config, name: &str) -> Result<&'a Broker, Failure> {
    let missing = || Failure::input(format!("there is no broker named {name:?}"));
    config.brokers.get(name).ok_or_else(missing)
}

fn source(broker: &Broker, settings: &config::Listener) -> Result<Arc<dyn Source>, Failure> {
    match (&broker.kind, &settings.from) {
        #[cfg(feature = "rabbitmq")]
        (Kind::RabbitMq(rabbit), ListenFrom::Queue(queue)) => {
            let prefetch = settings.prefetch;
            let source = crate::rabbitmq::source(&settings.broker, broker, rabbit, queue, prefetch)?;
            Ok(Arc::new(source))
        }
        #[cfg(feature = "file")]
        (Kind::File { path, .. }, ListenFrom::File { position }) => {
            Ok(Arc::new(postrider_file::FileSource::new(path, position)))
        }
        // The configuration was read by the same rule, and what this build lacks was refused before.
        _ => Err(Failure::input(format!(
            "nothing can be read from the broker {:?}",
            settings.broker
        ))),
    }
}
