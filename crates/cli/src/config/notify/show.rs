//! What is in force about notifications, without secrets.

use std::collections::BTreeMap;

use postrider_notify::Workflow;
use serde_json::{Map, Value, json};

use super::channels::security;
use super::{Email, Notify, Push};
use crate::config::duration::{show, show_keep};
use crate::config::show::REDACTED;

impl Notify {
    /// What is in force.
    pub fn show(&self) -> Value {
        let mut value = json!({
            "outbox": self.outbox,
            "listen": self.listen.map_or_else(|| "off".to_owned(), |address| address.to_string()),
            "keep": show_keep(self.keep),
            "ignore": self.workflows.ignored(),
            "workflow": self.workflows.all().iter().map(workflow).collect::<Vec<_>>(),
        });
        let audiences = self.workflows.audiences().iter();
        let audiences = audiences.map(|audience| {
            let mut value = json!({ "name": audience.name, "view": audience.view });
            if let (Some(_), Some(queue)) = (&self.queues, self.queue_of.get(&audience.name)) {
                value["queue"] = queue.as_str().into();
            }
            value
        });
        value["audience"] = audiences.collect::<Vec<_>>().into();
        for (key, secret) in [("token", &self.token), ("secret", &self.secret)] {
            if secret.is_some() {
                value[key] = REDACTED.into();
            }
        }
        if let Some(queues) = &self.queues {
            let mut dead = BTreeMap::from([("broker", queues.dead_broker.as_str())]);
            let parts = queues.dead_address.0.iter();
            dead.extend(parts.map(|(part, value)| (part.as_str(), value.as_str())));
            value["broker"] = queues.broker.as_str().into();
            value["dead_letters"] = json!(dead);
        }
        if let Some(it) = &self.email {
            value["email"] = email(it);
        }
        if let Some(Push { options }) = &self.push {
            value["push"] = json!({ "secret": REDACTED, "allow_private": options.allow_private });
        }
        value
    }
}

fn workflow(it: &Workflow) -> Value {
    let mut templates = Map::new();
    for ((channel, locale), parts) in &it.templates {
        let of_channel = templates.entry(channel.as_str()).or_insert_with(|| json!({}));
        of_channel[locale] = json!(parts);
    }
    let channels: Vec<&str> = it.channels.iter().map(|channel| channel.as_str()).collect();
    let mut value = json!({
        "name": it.name,
        "audiences": it.audiences,
        "events": it.event_types,
        "category": it.category,
        "channels": channels,
        "locale": it.locale,
        "templates": templates,
    });
    if let Some(resource) = &it.resource {
        value["resource"] = resource.as_str().into();
    }
    if let Some(period) = it.period {
        value["period"] = show(period).into();
    }
    if let Some(digest) = it.digest {
        value["digest"] = show(digest.window).into();
    }
    value
}

fn email(Email { options }: &Email) -> Value {
    let port = options.port.map_or_else(String::new, |port| format!(":{port}"));
    let user = options
        .user
        .as_ref()
        .map_or_else(String::new, |user| format!("{user}@"));
    let scheme = match options.security {
        postrider_notify::deliver::Security::Tls => "smtps",
        _ => "smtp",
    };
    let mut value = json!({
        "url": format!("{scheme}://{user}{}{port}", options.host),
        "from": options.from,
        "security": security(options.security),
        "allow_plain": options.allow_plain,
    });
    if options.password.is_some() {
        value["password"] = REDACTED.into();
    }
    if let Some(unsubscribe) = &options.unsubscribe {
        value["unsubscribe"] = unsubscribe.as_str().into();
    }
    if let Some(file) = &options.ca_file {
        value["ca_file"] = file.display().to_string().into();
    }
    value
}
