//! The configuration as it is in force: every default filled in, every name derived, every secret left out.

use postrider_admin::Options;
use postrider_core::{DeadLetter, Destination, Envelope, RetryPolicy, Router, redact_url};
use serde_json::{Map, Value, json};

use super::duration::{show, show_keep};
use super::postgres::{DEFAULT_CONNECT_TIMEOUT, DEFAULT_SCHEMA, DEFAULT_SHARDS};
use super::rabbitmq::{BindingTable, Declare, ExchangeTable, QueueTable, defaults};
use super::{Admin, Broker, Cleanup, Config, Inbox, Kind, Outbox, Place, Postgres, Rabbit, Relay};

/// What stands for a secret.
pub const REDACTED: &str = "[redacted]";

impl Config {
    /// Everything, ready to be printed as JSON or TOML.
    pub fn show(&self) -> Value {
        let outboxes: Map<_, _> = self
            .outboxes
            .iter()
            .map(|(name, it)| (name.clone(), outbox(it)))
            .collect();
        let brokers: Map<_, _> = self
            .brokers
            .iter()
            .map(|(name, it)| (name.clone(), broker(it)))
            .collect();
        let mut value = json!({
            "outbox": outboxes,
            "broker": brokers,
            "route": routes(&self.published),
            "relay": relay(&self.relay),
            "log": { "format": self.log.format.as_str(), "level": self.log.level },
            "cleanup": cleanup(&self.cleanup),
            "health": {
                "max_unpublished": self.health.max_unpublished,
                "max_age": show(self.health.max_age),
                "max_dead": self.health.max_dead,
                "failing_unpublished": self.health.failing_unpublished,
                "failing_age": show(self.health.failing_age),
                "stuck_after": show(self.health.stuck_after),
            },
            "admin": admin(&self.admin),
        });
        if !self.inboxes.is_empty() {
            let inboxes = self.inboxes.iter();
            value["inbox"] = inboxes.map(|(name, it)| (name.clone(), inbox(it))).collect();
        }
        if !self.listeners.is_empty() {
            let listeners = self.listeners.iter();
            value["listener"] = listeners.map(|(name, it)| (name.clone(), it.show())).collect();
        }
        if let Some(notify) = &self.notify {
            value["notify"] = notify.show();
        }
        if let Some(on_dead) = &self.on_dead {
            value["on_dead"] = json!({ "timeout": show(on_dead.timeout) });
            if let Some(command) = &on_dead.command {
                value["on_dead"]["command"] = json!(command);
            }
            if let Some(url) = &on_dead.url {
                value["on_dead"]["url"] = url.show().into();
            }
        }
        value
    }
}

fn cleanup(it: &Cleanup) -> Value {
    let mut value = json!({
        "retention": show_keep(it.retention),
        "schedule": it.schedule.as_str(),
        "batch_size": it.batch_size,
        "audit_retention": show(it.audit_retention),
        "inbox": it.inbox,
        "inbox_retention": show(it.inbox_retention),
    });
    if let Some(archive) = &it.archive {
        value["archive_dir"] = archive.dir.display().to_string().into();
        value["archive_after"] = show(archive.after).into();
    }
    value
}

fn admin(it: &Admin) -> Value {
    let mut value = json!({ "listen": it.listen.show() });
    if it.token.is_some() {
        value["token"] = REDACTED.into();
    }
    value["max_types"] = json!(it.max_types.unwrap_or(Options::default().max_types));
    value
}

fn outbox(it: &Outbox) -> Value {
    let mut value = json!({
        "url": it.place.show(),
        "prefix": it.prefix,
        "history": show_keep(it.history),
        "dedup": show_keep(it.dedup),
    });
    match &it.place {
        Place::Postgres(place) => value["postgres"] = postgres(place),
        Place::Sqlite(_) => value["busy_timeout"] = show(it.busy_timeout).into(),
        Place::Other { .. } => {}
    }
    login(&mut value, it.user.as_deref(), it.password.is_some());
    value
}

fn inbox(it: &Inbox) -> Value {
    let mut value = outbox(&it.database);
    if let Some(shown) = value.as_object_mut() {
        // What is the outbox's alone.
        let table = shown.remove("prefix");
        let _ = (shown.remove("history"), shown.remove("dedup"));
        shown.extend(table.map(|table| ("table".to_owned(), table)));
        shown.insert("retention".to_owned(), show(it.retention).into());
    }
    value
}

fn postgres(it: &Postgres) -> Value {
    let mut value = json!({
        "schema": it.schema.as_deref().unwrap_or(DEFAULT_SCHEMA),
        "shards": it.shards.unwrap_or(DEFAULT_SHARDS),
        "strict_keys": it.strict_keys.unwrap_or(false),
        "poll_only": it.poll_only.unwrap_or(false),
        "connect_timeout": show(it.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT)),
    });
    if let Some(url) = &it.listen_url {
        value["listen_url"] = redact_url(url.expose()).into();
    }
    if let Some(file) = &it.ca_file {
        value["ca_file"] = file.display().to_string().into();
    }
    // The configuration fits it to the lease, so it is always set.
    if let Some(limit) = it.statement_timeout {
        value["statement_timeout"] = show(limit).into();
    }
    value
}

fn broker(it: &Broker) -> Value {
    let mut value = json!({ "url": it.kind.show() });
    if let Kind::File { sync, .. } = it.kind {
        value["sync"] = sync.into();
    }
    if let Kind::RabbitMq(rabbit) = &it.kind {
        value["rabbitmq"] = rabbitmq(rabbit);
    }
    login(&mut value, it.user.as_deref(), it.password.is_some());
    value
}

fn rabbitmq(it: &Rabbit) -> Value {
    let mut value = json!({
        "declare": it.declare.is_some(),
        "channels": it.channels.unwrap_or(defaults::CHANNELS),
        "prefetch": it.prefetch.unwrap_or(defaults::PREFETCH),
        "max_message_bytes": it.max_message_bytes.unwrap_or(defaults::MAX_MESSAGE_BYTES),
        "confirm_timeout": show(it.confirm_timeout.unwrap_or(defaults::CONFIRM_TIMEOUT)),
        "connect_timeout": show(it.connect_timeout.unwrap_or(defaults::CONNECT_TIMEOUT)),
    });
    if let Some(file) = &it.ca_file {
        value["ca_file"] = file.display().to_string().into();
    }
    if let Some(declare) = &it.declare {
        declared(&mut value, declare);
    }
    value
}

/// What is declared at every connect.
fn declared(value: &mut Value, it: &Declare) {
    if let Some(preset) = it.preset {
        value["preset"] = preset.as_str().into();
    }
    let mut list = |key: &str, entries: Vec<Value>| {
        if !entries.is_empty() {
            value[key] = entries.into();
        }
    };
    let exchange = |one: &ExchangeTable| json!({ "name": one.name, "kind": one.kind.0 });
    list("exchange", it.exchanges.iter().map(exchange).collect());
    list("queue", it.queues.iter().map(queue).collect());
    let binding = |one: &BindingTable| {
        let (exchange, queue, key) = (&one.exchange, &one.queue, &one.routing_key);
        json!({ "exchange": exchange, "queue": queue, "routing_key": key })
    };
    list("binding", it.bindings.iter().map(binding).collect());
}

fn queue(it: &QueueTable) -> Value {
    let mut value = json!({ "name": it.name, "single_active_consumer": it.single_active_consumer });
    if let Some(name) = &it.dead_letter_exchange {
        value["dead_letter_exchange"] = name.as_str().into();
    }
    if let Some(key) = &it.dead_letter_routing_key {
        value["dead_letter_routing_key"] = key.as_str().into();
    }
    if let Some(limit) = it.delivery_limit {
        value["delivery_limit"] = limit.into();
    }
    value
}

fn login(value: &mut Value, user: Option<&str>, password: bool) {
    if let Some(user) = user {
        value["user"] = user.into();
    }
    if password {
        value["password"] = REDACTED.into();
    }
}

fn relay(it: &Relay) -> Value {
    let settings = &it.settings;
    let mut value = json!({
        "poll_interval": show(settings.poll_interval),
        "initial_delay": show(settings.initial_delay),
        "batch_size": settings.batch_size,
        "window": settings.window,
        "window_bytes": settings.window_bytes,
        "publish_timeout": show(settings.publish_timeout),
        "lease": show(settings.lease),
        "drain_timeout": show(settings.drain_timeout),
        "stalled_after": show(settings.stalled_after),
        "retry": retry(&settings.retry),
    });
    if let Some(profile) = it.profile {
        value["profile"] = profile.as_str().into();
    }
    value
}

/// How something is tried again.
pub fn retry(it: &RetryPolicy) -> Value {
    json!({
        "base": show(it.base),
        "multiplier": it.multiplier,
        "max": show(it.max),
        "jitter": it.jitter,
        "max_attempts": it.max_attempts,
    })
}

fn routes(router: &Router) -> Vec<Value> {
    let entry = |route: &postrider_core::Route| {
        let mut when = Map::new();
        let mut words = |key: &str, words: &[String]| {
            if !words.is_empty() {
                when.insert(key.to_owned(), json!(words));
            }
        };
        words("outbox", &route.when.outbox);
        words("aggregate_type", &route.when.aggregate_type);
        words("event_type", &route.when.event_type);
        if !route.when.header.is_empty() {
            when.insert("header".to_owned(), json!(route.when.header));
        }
        let to: Vec<Value> = route
            .to
            .iter()
            .map(|id| destination(router.destination(*id)))
            .collect();
        json!({ "when": when, "to": to })
    };
    router.routes().iter().map(entry).collect()
}

fn destination(it: &Destination) -> Value {
    let mut value = json!({
        "broker": it.broker,
        "name": it.name.as_str(),
        "envelope": envelope(it.envelope),
        "dead_letter": match it.dead_letter { DeadLetter::Hold => "hold", DeadLetter::Skip => "skip" },
        "retry": retry(&it.retry),
    });
    if let Some(key) = &it.message_key {
        value["message_key"] = key.source().into();
    }
    if let Some(limit) = it.limits.max_in_flight {
        value["max_in_flight"] = limit.into();
    }
    if let Some(limit) = it.limits.max_rate {
        value["max_rate"] = limit.into();
    }
    for (part, template) in &it.address {
        value[part] = template.source().into();
    }
    value
}

/// The word of an envelope.
pub fn envelope(it: Envelope) -> &'static str {
    match it {
        Envelope::Flat => "flat",
        Envelope::Raw => "raw",
    }
}
