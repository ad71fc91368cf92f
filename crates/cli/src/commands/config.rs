//! `postrider config check` and `show`.

use std::path::Path;

use postrider_core::Condition;
use serde_json::{Value, json};

use crate::config::{Config, open_to_others};
use crate::failure::{Done, Failure};
use crate::output::{Output, count, whole};
use crate::wire;

/// Says that the configuration is right. That it could be read at all is most of the check.
pub fn check(config: &Config, out: Output) -> Result<Done, Failure> {
    wire::check(config)?;
    let source = config.origin.show();
    let unused: Vec<&String> = config
        .brokers
        .keys()
        .filter(|name| {
            let mut destinations = config.router.destinations().iter();
            let mut listeners = config.listeners.values();
            let mut queues = config.notify.iter().filter_map(|notify| notify.queues.as_ref());
            destinations.all(|destination| destination.broker != **name)
                && listeners.all(|listener| listener.broker != **name && listener.dead_broker != **name)
                && queues.all(|queues| queues.broker != **name && queues.dead_broker != **name)
        })
        .collect();
    let unreachable = unreachable(config);
    let notes = weaknesses(config).chain(undeclared(config));
    let notes: Vec<String> = notes.chain(missing(config)).collect();
    let open: Vec<String> = config
        .secret_files
        .iter()
        .filter(|path| open_to_others(path))
        .map(|path| path.display().to_string())
        .collect();
    let value = json!({
        "ok": true,
        "source": source,
        "outboxes": config.outboxes.len(),
        "brokers": config.brokers.len(),
        "routes": config.published.routes().len(),
        "unused_brokers": unused,
        "unreachable_routes": unreachable,
        "open_secret_files": open,
        "notes": notes,
    });
    let mut text = format!(
        "{source}: fine ({}, {}, {})",
        count(config.outboxes.len() as u64, "outbox").replace("outboxs", "outboxes"),
        count(config.brokers.len() as u64, "broker"),
        count(config.published.routes().len() as u64, "route"),
    );
    for name in unused {
        text.push_str(&format!("\nnote: no route uses the broker {name:?}"));
    }
    for number in unreachable {
        text.push_str(&format!(
            "\nnote: route {number} is never reached: an earlier one matches everything"
        ));
    }
    for note in notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    for path in open {
        text.push_str(&format!(
            "\nnote: every user of this machine may read {path}: chmod 600 it"
        ));
    }
    out.either(&value, text)?;
    Ok(Done::Fine)
}

fn weaknesses(config: &Config) -> impl Iterator<Item = String> {
    let named = config.outboxes.iter();
    named.filter_map(|(name, outbox)| Some(format!("the outbox {name:?}: {}", outbox.weakness()?)))
}

/// A command of `[on_dead]` that is not on this machine. Relays may run on another one, so that it is no error.
fn missing(config: &Config) -> Option<String> {
    let program = config.on_dead.as_ref()?.command.as_ref()?.first()?;
    let is_there = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        }
    };
    (!is_there).then(|| {
        let program = whole(program);
        format!(
            "[on_dead]: there is no program {program} on this machine; where a relay runs it must be there"
        )
    })
}

/// Bindings of what is not declared: it may exist, but a slip looks the same.
fn undeclared(config: &Config) -> impl Iterator<Item = String> {
    config.brokers.iter().flat_map(|(name, broker)| {
        let note = move |what| format!("the broker {name:?} binds {what}, which it does not declare itself");
        wire::undeclared(broker).into_iter().map(note)
    })
}

/// Routes behind one that matches everything, counted from 1.
fn unreachable(config: &Config) -> Vec<usize> {
    let routes = config.published.routes();
    let all = routes.iter().position(|route| route.when == Condition::default());
    all.map_or_else(Vec::new, |first| (first + 2..=routes.len()).collect())
}

/// Shows what is in force.
pub fn show(config: &Config, out: Output) -> Result<Done, Failure> {
    let mut value = config.show();
    if out.is_json() {
        value["source"] = config.origin.show().into();
        out.value(&value)?;
        return Ok(Done::Fine);
    }
    let text = toml::to_string(&drop_empty(value))
        .map_err(|error| Failure::backend("the configuration cannot be written as TOML").because(&error))?;
    let text: Vec<String> = text.lines().map(whole).collect();
    out.line(format!("# {}\n{}", config.origin.show(), text.join("\n")))?;
    Ok(Done::Fine)
}

/// An empty `when` is what no `when` means.
fn drop_empty(mut value: Value) -> Value {
    if let Some(routes) = value["route"].as_array_mut() {
        for route in routes.iter_mut().filter_map(Value::as_object_mut) {
            if route
                .get("when")
                .and_then(Value::as_object)
                .is_some_and(|when| when.is_empty())
            {
                route.remove("when");
            }
        }
    }
    value
}
