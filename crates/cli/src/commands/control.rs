//! `postrider pause`, `resume` and `limit`: kept in the database, so every relay obeys and everybody sees it.

use std::time::Duration;

use postrider_core::{Control, DestinationName, InForce, Limits, Route, Scope, Timestamp, limits};
use serde_json::{Value, json};

use super::ask::actor;
use crate::args::{LimitArgs, PauseArgs};
use crate::config::{Config, Outbox, duration, suggestion};
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, key, time};
use crate::wire::{self, Opened};

/// The type and the id of an aggregate, with what separates them.
const LONGEST_KEY: usize = limits::AGGREGATE_TYPE + 1 + limits::AGGREGATE_ID;

/// Stops an outbox, a destination or a key.
pub async fn pause(config: &Config, out: Output, args: &PauseArgs) -> Result<Done, Failure> {
    let scope = scope(args);
    match &scope {
        Scope::Destination(name) => known(config, name)?,
        // Such a key is never met, and a pause that holds nothing must not look like one.
        Scope::Key(key) if key.is_empty() || key.chars().count() > LONGEST_KEY => {
            let text = format!("no event has a key of {} characters", key.chars().count());
            return Err(Failure::input(text).advice("`postrider show ID` has the key of an event"));
        }
        Scope::Key(key) if key.chars().any(char::is_control) => {
            let failure = Failure::input("no event has a key with control characters");
            return Err(failure.advice("`postrider show ID` has the key of an event"));
        }
        Scope::Outbox | Scope::Key(_) => {}
    }
    let chosen = match &scope {
        Scope::Destination(name) => served(config, args.outbox.as_deref(), name)?,
        Scope::Outbox | Scope::Key(_) => chosen(config, args)?,
    };
    for (name, outbox) in chosen {
        let opened = wire::ready(name, outbox).await?;
        change(&opened, Control::Pause(scope.clone())).await?;
        let within = obeyed_within(config);
        let text = format!(
            "{}: {} is paused, and relays obey within {within}; `{}` lets it go on",
            opened.name,
            said(&scope),
            undone_by(config, &opened.name, &scope)
        );
        out.either(&answer(&opened.name, &scope, "paused"), text)?;
    }
    Ok(Done::Fine)
}

/// Lets it go on.
pub async fn resume(config: &Config, out: Output, args: &PauseArgs) -> Result<Done, Failure> {
    let scope = scope(args);
    let mut found = false;
    for (name, outbox) in chosen(config, args)? {
        let opened = wire::ready(name, outbox).await?;
        let mut controls = in_force(&opened).await?.into_iter();
        if !controls.any(|one| one.paused && one.scope == scope) {
            continue;
        }
        found = true;
        change(&opened, Control::Resume(scope.clone())).await?;
        let text = format!("{}: {} goes on", opened.name, said(&scope));
        out.either(&answer(&opened.name, &scope, "resumed"), text)?;
    }
    match found {
        true => Ok(Done::Fine),
        false => Err(Failure::found(format!("{} is not paused", said(&scope)))
            .advice("`postrider status` shows what is paused, in which outbox")),
    }
}

/// Other limits for a destination than the configured ones.
pub async fn limit(config: &Config, out: Output, args: &LimitArgs) -> Result<Done, Failure> {
    if args.rate.is_none() && args.in_flight.is_none() && !args.reset {
        return Err(Failure::input("no limit is given")
            .advice("give --rate, --in-flight or both, or --reset for what the configuration says"));
    }
    let name = DestinationName::from(args.destination.as_str());
    // A limit may outlive its route, and be taken back then; a name that is neither is misspelt.
    let mut unknown = known(config, &name).err();
    if let Some(failure) = unknown.take_if(|_| !args.reset) {
        return Err(failure);
    }
    let scope = Scope::Destination(name.clone());
    let given = Limits {
        max_rate: args.rate,
        max_in_flight: args.in_flight,
    };
    // Taken back everywhere: the route may have gone since.
    let chosen = match args.reset {
        true => wire::chosen(config, args.outbox.as_deref())?,
        false => served(config, args.outbox.as_deref(), &name)?,
    };
    let mut is_any = false;
    for (outbox, settings) in chosen {
        let opened = wire::ready(outbox, settings).await?;
        let is_limited = |one: &InForce| one.scope == scope && one.limits != Limits::default();
        if unknown.is_some() && !in_force(&opened).await?.iter().any(is_limited) {
            continue;
        }
        is_any = true;
        let control = match args.reset {
            true => Control::Unlimit(name.clone()),
            false => Control::Limit(name.clone(), given),
        };
        change(&opened, control).await?;
        let mut controls = in_force(&opened).await?.into_iter();
        let decided = controls.find(|one| one.scope == scope);
        let limits = decided.map(|one| one.limits).unwrap_or_default();
        let done = if args.reset { "unlimited" } else { "limited" };
        let mut value = answer(outbox, &scope, done);
        value["max_rate"] = json!(limits.max_rate);
        value["max_in_flight"] = json!(limits.max_in_flight);
        let text = match limits == Limits::default() {
            true => format!("{outbox}: {} has its configured limits", said(&scope)),
            false => format!("{outbox}: {} gets {}", said(&scope), bounds(limits)),
        };
        let text = format!("{text}, and relays obey within {}", obeyed_within(config));
        out.either(&value, text)?;
    }
    match unknown.filter(|_| !is_any) {
        Some(failure) => Err(failure),
        None => Ok(Done::Fine),
    }
}

/// A relay hears of a decision when it renews its lease, in thirds of it; to the whole second above.
fn obeyed_within(config: &Config) -> String {
    duration::show(renewal(config))
}

fn renewal(config: &Config) -> Duration {
    Duration::from_secs((config.relay.settings.lease.as_secs_f64() / 3.0).ceil() as u64)
}

/// For how long a pause may still be unknown to some relay; none: it is known, or every read looks for it. By the clock
/// of this machine, which is good enough for a warning.
pub fn heard_within(config: &Config, pause: &InForce) -> Option<String> {
    let age = Timestamp::now().0.saturating_sub(pause.since.0);
    let age = Duration::from_micros(u64::try_from(age).unwrap_or(0));
    let is_heard_of = matches!(pause.scope, Scope::Key(_)) || age > renewal(config);
    (!is_heard_of).then(|| obeyed_within(config))
}

/// What takes a pause back; with several outboxes it has to say in which.
pub fn undone_by(config: &Config, outbox: &str, scope: &Scope) -> String {
    format!(
        "postrider resume{}{}",
        scope.as_args(),
        wire::option(config, outbox)
    )
}

/// What is paused or limited now.
pub async fn in_force(opened: &Opened) -> Result<Vec<InForce>, Failure> {
    let controls = opened.console.controls().await;
    controls.map_err(|error| Failure::store(&opened.name, &error))
}

/// A decision that is in force, as a line.
pub fn line(one: &InForce) -> String {
    let decided = |(by, since): (&str, _)| format!("by {} since {}", cell(by), time(since));
    let mut parts = Vec::new();
    if one.paused {
        parts.push(format!("paused {}", decided((&one.actor, one.since))));
    }
    if one.limits != Limits::default() {
        let by = one.limited.as_ref().map(|(by, since)| decided((by, *since)));
        let by = by.map_or_else(String::new, |by| format!(" {by}"));
        parts.push(format!("limited to {}{by}", bounds(one.limits)));
    }
    format!("{} is {}", said(&one.scope), parts.join(", "))
}

/// A decision that is in force, as JSON.
pub fn value(one: &InForce) -> Value {
    let (what, name) = names(&one.scope);
    json!({
        "what": what,
        "name": name,
        "paused": one.paused,
        "max_rate": one.limits.max_rate,
        "max_in_flight": one.limits.max_in_flight,
        "actor": one.actor,
        "since": time(one.since),
        "limited_by": one.limited.as_ref().map(|(by, _)| by),
        "limited_since": one.limited.as_ref().map(|(_, since)| time(*since)),
    })
}

fn bounds(limits: Limits) -> String {
    let rate = limits.max_rate.map(|rate| format!("{rate} events/s"));
    let flight = limits
        .max_in_flight
        .map(|flight| format!("{flight} events in flight"));
    let bounds: Vec<String> = rate.into_iter().chain(flight).collect();
    format!("{} for each relay", bounds.join(" and "))
}

fn scope(args: &PauseArgs) -> Scope {
    match (&args.destination, &args.key) {
        (Some(name), _) => Scope::Destination(name.as_str().into()),
        (None, Some(key)) => Scope::Key(key.clone()),
        (None, None) => Scope::Outbox,
    }
}

fn names(scope: &Scope) -> (&'static str, Option<&str>) {
    match scope {
        Scope::Outbox => ("outbox", None),
        Scope::Destination(name) => ("destination", Some(name.as_str())),
        Scope::Key(key) => ("key", Some(key)),
    }
}

pub fn said(scope: &Scope) -> String {
    match scope {
        Scope::Outbox => "the outbox".to_owned(),
        Scope::Destination(name) => format!("the destination {}", cell(name.as_str())),
        Scope::Key(text) => format!("the key {}", key(text)),
    }
}

fn answer(outbox: &str, scope: &Scope, done: &str) -> Value {
    let (what, name) = names(scope);
    json!({ "outbox": outbox, "what": what, "name": name, "done": done })
}

/// A destination may have several outboxes; to stop an outbox or a key somebody has to say in which.
fn chosen<'a>(config: &'a Config, args: &PauseArgs) -> Result<Vec<(&'a str, &'a Outbox)>, Failure> {
    match &args.destination {
        Some(_) => wire::chosen(config, args.outbox.as_deref()),
        None => Ok(vec![wire::single(config, args.outbox.as_deref())?]),
    }
}

/// The outbox that was named, or each that has a route to the destination. One that the configuration does not name any
/// more may be in any of them.
fn served<'a>(
    config: &'a Config,
    outbox: Option<&str>,
    destination: &DestinationName,
) -> Result<Vec<(&'a str, &'a Outbox)>, Failure> {
    let mut chosen = wire::chosen(config, outbox)?;
    let router = &config.router;
    if outbox.is_none() && router.destinations().iter().any(|one| one.name == *destination) {
        let is_of = |route: &Route, name: &str| {
            let wanted = &route.when.outbox;
            wanted.is_empty() || wanted.iter().any(|one| one == name)
        };
        let leads = |route: &Route| {
            route
                .to
                .iter()
                .any(|id| router.destination(*id).name == *destination)
        };
        let routes: Vec<&Route> = router.routes().iter().filter(|route| leads(route)).collect();
        chosen.retain(|(name, _)| routes.iter().any(|route| is_of(route, name)));
    }
    Ok(chosen)
}

/// Refuses a destination that was named, of which nothing was found, and that no route leads to: a name that is
/// mistyped must not look like one with which all is well. One that was removed from the configuration has rows until
/// they are gone.
pub fn named_is_known(config: &Config, name: Option<&str>) -> Result<(), Failure> {
    name.map_or(Ok(()), |name| known(config, &name.into()))
}

/// Nobody is helped by a pause of a destination that does not exist.
pub fn known(config: &Config, name: &DestinationName) -> Result<(), Failure> {
    let destinations = config.router.destinations();
    let known: Vec<&str> = destinations.iter().map(|one| one.name.as_str()).collect();
    match known.contains(&name.as_str()) {
        true => Ok(()),
        false => Err(
            Failure::input(format!("there is no destination named {:?}", cell(name.as_str()))).advice(
                suggestion(name.as_str(), &known)
                    .unwrap_or_else(|| "add a route that leads to it".to_owned()),
            ),
        ),
    }
}

async fn change(opened: &Opened, control: Control) -> Result<(), Failure> {
    let changed = opened.console.control(control, actor()).await;
    changed.map_err(|error| Failure::store(&opened.name, &error))
}
