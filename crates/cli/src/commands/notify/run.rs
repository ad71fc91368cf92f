//! `postrider notify run`: everything about notifications in one process, until stopped.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use postrider_admin::Admin;
use postrider_core::{Effects, Source, Stats, causes};
use postrider_listener::{DeadLetters, Keep};
use postrider_notify::app::{App, AppBuilder, Report};
use postrider_notify::deliver::{EmailSink, PushSink};
use postrider_notify::{Channel, http};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::commands::start::{self, Started};
use crate::commands::watch::Watch;
use crate::config::{Config, Notify, Queues};
use crate::duties::{Duties, Ear};
use crate::failure::{Done, Failure};
use crate::notify::{self, OpenBoard};
use crate::output::Output;
use crate::signal;
use crate::wire::{self, Missing};

/// What everything needs that is put together here.
struct Stage<'a> {
    config: &'a Config,
    notify: &'a Notify,
    started: Arc<Started>,
    opened: OpenBoard,
    admin: Admin,
    http: Option<TcpListener>,
    token: CancellationToken,
}

pub async fn run(
    config: &Config,
    out: Output,
    migrate: bool,
    log_lines_dropped: Arc<AtomicU64>,
) -> Result<Done, Failure> {
    wire::check(config)?;
    let (notify, outbox) = notify::configured(config)?;
    let config = &cleaning(config, notify);
    let admin = start::admin(config, log_lines_dropped);
    let serving = start::serve(config, &admin)?;
    let http = bind(notify).await?;
    let started = start::open(config, &notify.outbox, outbox, migrate, true).await;
    let started = started.map_err(Failure::with_notifications)?;
    let token = signal::stop_token();
    if !started.wait(&token).await {
        return Ok(Done::Fine);
    }
    let opened = notify::open(config, Missing::Refuse)?;
    if migrate {
        opened.migrate(&notify.outbox).await?;
    }
    opened.check(&notify.outbox).await?;
    if let Some(bound) = &http {
        let (address, token, secret) = (
            bound.local_addr()?,
            notify.token.is_some(),
            notify.secret.is_some(),
        );
        tracing::info!(%address, token, secret, "serving feeds");
    }
    let stopping = (token.clone(), admin.clone());
    tokio::spawn(async move {
        stopping.0.cancelled().await;
        stopping.1.stopping();
    });
    let stage = Stage {
        config,
        notify,
        started: Arc::new(started),
        opened: opened.clone(),
        admin,
        http,
        token,
    };
    let (started, report) = match opened {
        #[cfg(feature = "sqlite")]
        OpenBoard::Sqlite(effects, board) => stage.run(effects, board.handler()).await?,
        #[cfg(feature = "postgres")]
        OpenBoard::Postgres(effects, board) => stage.run(effects, board.handler()).await?,
    };
    drop(serving);
    summary(out, &started, &report).await
}

/// Records of the inbox are removed by the cleanup where no listener does it.
fn cleaning(config: &Config, notify: &Notify) -> Config {
    let mut config = config.clone();
    let table = crate::config::DEFAULT_INBOX;
    if notify.queues.is_none() && config.cleanup.inbox.iter().all(|known| known != table) {
        config.cleanup.inbox.push(table.to_owned());
    }
    config
}

async fn bind(notify: &Notify) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = notify.listen else {
        return Ok(None);
    };
    let bound = TcpListener::bind(address).await.map_err(|error| {
        Failure::backend(format!("feeds cannot be served on {address}"))
            .because(&error)
            .advice("set `listen` in [notify] to an address that is free, or to \"off\"")
    })?;
    Ok(Some(bound))
}

impl Stage<'_> {
    async fn run<E: Effects>(
        self,
        effects: E,
        handler: Arc<E::Handler>,
    ) -> Result<(Arc<Started>, Report), Failure> {
        let watch = Arc::new(Watch::new(self.config, self.token.clone()));
        let ear = Arc::new(Ear::default());
        let mut builder = App::builder(self.opened.board(), effects, handler)
            .outbox(self.notify.outbox.as_str(), self.started.opened.store.clone())
            .settings(self.config.relay.settings.clone())
            .router(self.config.router.clone())
            .direct(self.notify.direct())
            .keep(self.notify.keep)
            .watch(&self.admin, self.started.opened.console.clone())
            .observer(watch.clone())
            .observer(ear.clone());
        for (name, sink) in wire::sinks(self.config)? {
            builder = builder.sink(name, sink);
        }
        builder = channels(builder, self.notify)?;
        if let Some(queues) = &self.notify.queues {
            let retention = self.config.cleanup.inbox_retention;
            builder = builder.inbox(Keep::new(self.opened.inbox(), retention));
            builder = listeners(builder, self.config, self.notify, queues)?;
        }
        if let Some(listener) = self.http {
            let mut options = http::Options::default();
            options.private_push = self
                .notify
                .push
                .as_ref()
                .is_some_and(|push| push.options.allow_private);
            (options.token, options.secret) = (self.notify.token.clone(), self.notify.secret.clone());
            builder = builder.http(listener, options);
        }
        let app = builder
            .build()
            .map_err(|error| Failure::input("notifications cannot be put together").because(&error))?;
        let ended = CancellationToken::new();
        if let Some(outbox) = self.config.outboxes.get(&self.notify.outbox) {
            Duties::new(self.config, &self.started.opened, outbox, ended.clone()).start(ear);
        }
        let report = Box::pin(app.run(self.token)).await;
        ended.cancel();
        let report = report.map_err(|error| Failure::backend("notifications stopped").because(&error))?;
        match watch.reader_is_gone() {
            true => Err(Failure::backend("whoever read standard output is gone")
                .advice("run again with a reader: what was not taken is still in the outbox")),
            false => Ok((self.started, report)),
        }
    }
}

fn channels<E: Effects>(mut builder: AppBuilder<E>, notify: &Notify) -> Result<AppBuilder<E>, Failure> {
    if let Some(email) = &notify.email {
        let sink = EmailSink::new(email.options.clone())
            .map_err(|error| Failure::input("[notify.email] cannot be used").because(&error))?;
        builder = builder.channel(Channel::Email, Arc::new(sink));
    }
    if let Some(push) = &notify.push {
        let sink = PushSink::new(push.options.clone())
            .map_err(|error| Failure::input("[notify.push] cannot be used").because(&error))?;
        builder = builder.channel(Channel::Push, Arc::new(sink));
    }
    Ok(builder)
}

/// A listener for each audience.
fn listeners<E: Effects>(
    mut builder: AppBuilder<E>,
    config: &Config,
    notify: &Notify,
    queues: &Queues,
) -> Result<AppBuilder<E>, Failure> {
    let missing = |name: &str| Failure::input(format!("there is no broker named {name:?}"));
    let dead = config.brokers.get(&queues.dead_broker);
    let letters = wire::sink(
        &queues.dead_broker,
        dead.ok_or_else(|| missing(&queues.dead_broker))?,
    )?;
    for (audience, queue) in &notify.queue_of {
        let source = source(config, queues, queue)?;
        let place = DeadLetters::to(letters.clone(), queues.dead_address.clone());
        builder = builder.listen(format!("notify-{}", audience.to_lowercase()), source, place);
    }
    Ok(builder)
}

fn source(config: &Config, queues: &Queues, queue: &str) -> Result<Arc<dyn Source>, Failure> {
    match config
        .brokers
        .get(&queues.broker)
        .map(|broker| (broker, &broker.kind))
    {
        #[cfg(feature = "rabbitmq")]
        Some((broker, crate::config::Kind::RabbitMq(rabbit))) => {
            let source = crate::rabbitmq::source(&queues.broker, broker, rabbit, queue, PREFETCH)?;
            Ok(Arc::new(source))
        }
        // The configuration was read by the same rule, and what this build lacks was refused before.
        _ => Err(Failure::input(format!(
            "the queue {queue:?} of the broker {:?} cannot be read",
            queues.broker
        ))),
    }
}

/// Messages that a listener holds without a verdict: what it fetches ahead is not less.
#[cfg(feature = "rabbitmq")]
const PREFETCH: u16 = 200;

/// Says what was done.
async fn summary(out: Output, started: &Started, report: &Report) -> Result<Done, Failure> {
    let name = started.opened.name.as_str();
    let stats = started.opened.console.stats().await.unwrap_or_else(|error| {
        let error = causes(&error);
        tracing::warn!(outbox = name, error, "the state of the outbox cannot be read");
        Stats::default()
    });
    let listeners = report.listeners.iter().map(|(consumer, did)| {
        let did = json!({
            "received": did.received,
            "effects": did.effects,
            "duplicates": did.duplicates,
            "dead_letters": did.dead_letters,
        });
        (consumer.clone(), did)
    });
    let value = json!({
        "outbox": name,
        "published": report.relay.published,
        "duplicates": report.relay.duplicates,
        "dead": stats.dead,
        "queued": stats.queued,
        "parked": stats.parked.values().sum::<u64>(),
        "listeners": listeners.collect::<serde_json::Map<_, _>>(),
        "broken_off": report.broken_off,
    });
    let mut text = format!("{name}: {} settled", report.relay.published);
    for (number, what) in [
        (stats.queued, "still queued"),
        (stats.dead, "dead (postrider dead list)"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {number} {what}"));
        }
    }
    for (consumer, did) in &report.listeners {
        let (effects, dead) = (did.effects, did.dead_letters);
        text.push_str(&format!("\n{consumer}: {effects} taken in, {dead} dead letters"));
    }
    out.either(&value, text)?;
    Ok(Done::Fine)
}
