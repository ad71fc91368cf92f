//! The configuration as it is in force: every default filled in, every name derived, every secret left out.

use postrider_core::{DeadLetter, Destination, Envelope, RetryPolicy, Router, redact_url};
use serde_json::{Map, Value, json};

use super::duration::{show, show_keep};
use super::{Admin, Broker, Cleanup, Config, Kind, Outbox, Place, Postgres, Rabbit, Relay};

/// What stands for a secret.
const REDACTED: &str = "[redacted]";

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
            "route": routes(&self.router),
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
        if let Some(on_dead) = &self.on_dead {
            let words = std::iter::once(&on_dead.program).chain(&on_dead.arguments);
            value["on_dead"] = json!({
                "command": words.collect::<Vec<_>>(),
                "timeout": show(on_dead.timeout),
            });
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
    if let Some(max_types) = it.max_types {
        value["max_types"] = max_types.into();
    }
    value
}

fn outbox(it: &Outbox) -> Value {
    let mut value = json!({
        "url": it.place.show(),
        "prefix": it.prefix,
        "history": show_keep(it.history),
        "dedup": show_keep(it.dedup),
        "busy_timeout": show(it.busy_timeout),
    });
    if let Place::Postgres(place) = &it.place {
        value["postgres"] = postgres(place);
    }
    login(&mut value, it.user.as_deref(), it.password.is_some());
    value
}

/// Only what is set: the defaults are the store's.
fn postgres(it: &Postgres) -> Value {
    let mut value = json!({});
    let mut set = |key: &str, shown: Option<Value>| {
        if let Some(shown) = shown {
            value[key] = shown;
        }
    };
    set("schema", it.schema.clone().map(Value::from));
    set("shards", it.shards.map(Value::from));
    set("strict_keys", it.strict_keys.map(Value::from));
    let listen_url = it.listen_url.as_ref();
    set(
        "listen_url",
        listen_url.map(|url| redact_url(url.expose()).into()),
    );
    set("poll_only", it.poll_only.map(Value::from));
    let file = it.ca_file.as_ref();
    set("ca_file", file.map(|file| file.display().to_string().into()));
    set(
        "connect_timeout",
        it.connect_timeout.map(|limit| show(limit).into()),
    );
    set(
        "statement_timeout",
        it.statement_timeout.map(|limit| show(limit).into()),
    );
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

/// Only what is set: the defaults are the sink's.
fn rabbitmq(it: &Rabbit) -> Value {
    let mut value = json!({ "declare": it.declare.is_some() });
    let mut set = |key: &str, shown: Option<Value>| {
        if let Some(shown) = shown {
            value[key] = shown;
        }
    };
    set("channels", it.channels.map(Value::from));
    set("prefetch", it.prefetch.map(Value::from));
    set("max_message_bytes", it.max_message_bytes.map(Value::from));
    set(
        "confirm_timeout",
        it.confirm_timeout.map(|limit| show(limit).into()),
    );
    set(
        "connect_timeout",
        it.connect_timeout.map(|limit| show(limit).into()),
    );
    let file = it.ca_file.as_ref();
    set("ca_file", file.map(|file| file.display().to_string().into()));
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

fn retry(it: &RetryPolicy) -> Value {
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
