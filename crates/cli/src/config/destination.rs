//! Routes as they are written become the router: references looked up, names derived, addresses checked.

use std::collections::BTreeMap;

use postrider_core::{Destination, DestinationName, Limits, RetryPolicy, Router};

use super::error::Problem;
use super::nearest::suggestion;
use super::route::{RouteTable, TO_KEYS, ToTable};
use super::{Broker, Outbox};
use crate::wire;

/// Builds the router of all routes.
pub fn router(
    routes: Vec<RouteTable>,
    outboxes: &BTreeMap<String, Outbox>,
    brokers: &BTreeMap<String, Broker>,
    retry: RetryPolicy,
) -> Result<Router, Problem> {
    let mut builder = Router::builder();
    for route in routes {
        if let Some(wanted) = &route.when.outbox {
            for name in &wanted.get_ref().0 {
                exists("outbox", name, outboxes).map_err(|problem| problem.at(wanted.span()))?;
            }
        }
        let mut to = Vec::with_capacity(route.to.len());
        let mut last = 0..0;
        for entry in route.to {
            last = entry.span();
            to.push(destination(entry.into_inner(), brokers, retry)?);
        }
        builder = builder
            .route(route.when.condition(), to)
            .map_err(|error| Problem::new(error.to_string()).at(last))?;
    }
    Ok(builder.build())
}

fn destination(
    to: ToTable,
    brokers: &BTreeMap<String, Broker>,
    retry: RetryPolicy,
) -> Result<Destination, Problem> {
    let broker_name = to.broker.get_ref();
    let broker = exists("broker", broker_name, brokers).map_err(|problem| problem.at(to.broker.span()))?;
    check_address(&to, broker)?;
    let name = match &to.name {
        Some(name) if name.get_ref().trim().is_empty() => {
            return Err(Problem::new("a destination's name must not be empty").at(name.span()));
        }
        Some(name) => name.get_ref().clone(),
        None => derived_name(&to),
    };
    let retry = to.retry.over(retry);
    if retry.max < retry.base {
        let text = format!(
            "retry.max ({:?}) must not be less than retry.base ({:?})",
            retry.max, retry.base
        );
        return Err(Problem::new(text).at(to.broker.span()));
    }
    Ok(Destination {
        name: DestinationName::new(name),
        broker: to.broker.into_inner(),
        address: to
            .address
            .into_iter()
            .map(|(part, text)| (part.into_inner(), text.0))
            .collect(),
        message_key: to.message_key.map(|text| text.0),
        envelope: to.envelope,
        dead_letter: to.dead_letter,
        retry,
        limits: Limits {
            max_in_flight: to.max_in_flight,
            max_rate: to.max_rate,
        },
    })
}

/// The name is stored with every row, so it must not change with the order of keys or of routes.
fn derived_name(to: &ToTable) -> String {
    let parts = to.address.values().map(|text| text.0.source());
    std::iter::once(to.broker.get_ref().as_str())
        .chain(parts)
        .collect::<Vec<_>>()
        .join("/")
}

/// Every part of the address is one that the broker knows, and none that it needs is missing.
fn check_address(to: &ToTable, broker: &Broker) -> Result<(), Problem> {
    let Some(fields) = wire::address_fields(&broker.kind) else {
        return Ok(());
    };
    let known: Vec<&str> = fields.iter().map(|field| field.name).chain(TO_KEYS).collect();
    if let Some(stranger) = to
        .address
        .keys()
        .find(|part| !known.contains(&part.get_ref().as_str()))
    {
        let problem = Problem::new(format!("unknown key `{}`", stranger.get_ref())).at(stranger.span());
        return Err(problem.help(suggestion(stranger.get_ref(), &known)));
    }
    let given = |name: &str| to.address.keys().any(|part| part.get_ref() == name);
    match fields.iter().find(|field| field.required && !given(field.name)) {
        Some(missing) => {
            let text = format!("the key `{}` is missing: the broker needs it", missing.name);
            Err(Problem::new(text).at(to.broker.span()))
        }
        None => Ok(()),
    }
}

fn exists<'a, T>(what: &str, name: &str, all: &'a BTreeMap<String, T>) -> Result<&'a T, Problem> {
    let known: Vec<&str> = all.keys().map(String::as_str).collect();
    all.get(name).ok_or_else(|| {
        Problem::new(format!("there is no {what} named {name:?}")).help(suggestion(name, &known))
    })
}
