//! Which destinations an event goes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Address, Destination, DestinationId, DestinationName, ErrorKind, Event, Failure};

/// What a route asks of an event. Every part that is given must hold; an empty condition matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The outbox is one of these.
    pub outbox: Vec<String>,
    /// The aggregate type is one of these.
    pub aggregate_type: Vec<String>,
    /// The event type is one of these.
    pub event_type: Vec<String>,
    /// Every one of these headers has one of its values.
    pub header: BTreeMap<String, Vec<String>>,
}

impl Condition {
    /// Why the event does not match, in words for `route explain`; none when it does.
    pub fn mismatch(&self, outbox: &str, event: &Event) -> Option<String> {
        let differs = |what: &str, wanted: &[String], got: Option<&str>| {
            let matches = wanted.is_empty() || got.is_some_and(|got| wanted.iter().any(|one| one == got));
            let got = got.map_or_else(|| "missing".to_owned(), |got| format!("{got:?}"));
            (!matches).then(|| format!("{what} is {got}, the route wants {}", wanted.join(" or ")))
        };
        differs("outbox", &self.outbox, Some(outbox))
            .or_else(|| {
                differs(
                    "aggregate_type",
                    &self.aggregate_type,
                    Some(&event.aggregate_type),
                )
            })
            .or_else(|| differs("event_type", &self.event_type, Some(&event.event_type)))
            .or_else(|| {
                self.header.iter().find_map(|(name, wanted)| {
                    let got = event.headers.get(name).map(String::as_str);
                    differs(&format!("header {name}"), wanted, got)
                })
            })
    }
}

/// One `[[route]]`: the first that matches wins.
#[derive(Clone, Debug)]
pub struct Route {
    /// What it asks.
    pub when: Condition,
    /// Where its events go; empty: dropped on purpose, and counted.
    pub to: Vec<DestinationId>,
}

/// One destination of one event.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Which destination.
    pub destination: DestinationId,
    /// Where in it, and the message key; or why the templates could not be filled in.
    pub rendered: Result<(Address, String), Failure>,
}

/// What the router says of an event.
#[derive(Clone, Debug)]
pub enum Routed {
    /// It goes to these.
    To(Vec<Delivery>),
    /// It is dropped on purpose.
    Dropped,
    /// No route matches, and there is no default.
    Nowhere(Failure),
}

/// Every route and destination of a relay.
#[derive(Clone, Debug, Default)]
pub struct Router {
    routes: Vec<Route>,
    destinations: Vec<Arc<Destination>>,
}

impl Router {
    /// Starts an empty router.
    pub fn builder() -> RouterBuilder {
        RouterBuilder::default()
    }

    /// Everything goes to one destination.
    pub fn all_to(destination: Destination) -> Router {
        Router {
            routes: vec![Route {
                when: Condition::default(),
                to: vec![DestinationId(0)],
            }],
            destinations: vec![Arc::new(destination)],
        }
    }

    /// All destinations, in the order of their ids.
    pub fn destinations(&self) -> &[Arc<Destination>] {
        &self.destinations
    }

    /// All routes, in the order they are tried.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// One destination.
    pub fn destination(&self, id: DestinationId) -> &Destination {
        &self.destinations[id.0]
    }

    /// A destination by its stored name; none when the configuration no longer has it.
    pub fn by_name(&self, name: &DestinationName) -> Option<DestinationId> {
        self.destinations
            .iter()
            .position(|destination| &destination.name == name)
            .map(DestinationId)
    }

    /// The first route that matches.
    pub fn matching(&self, outbox: &str, event: &Event) -> Option<(usize, &Route)> {
        self.routes
            .iter()
            .enumerate()
            .find(|(_, route)| route.when.mismatch(outbox, event).is_none())
    }

    /// Where an event goes.
    pub fn route(&self, outbox: &str, event: &Event) -> Routed {
        match self.matching(outbox, event) {
            None => Routed::Nowhere(Failure::new(
                ErrorKind::NoRoute,
                format!(
                    "no route matches aggregate_type {:?}, event_type {:?} of outbox {outbox:?}",
                    event.aggregate_type, event.event_type
                ),
            )),
            Some((_, route)) if route.to.is_empty() => Routed::Dropped,
            Some((_, route)) => Routed::To(route.to.iter().map(|&id| self.deliver(id, event)).collect()),
        }
    }

    /// The address and key of an event at one destination.
    pub fn deliver(&self, id: DestinationId, event: &Event) -> Delivery {
        Delivery {
            destination: id,
            rendered: self.destination(id).render(event),
        }
    }
}

impl Destination {
    /// Fills in the address and the message key.
    pub fn render(&self, event: &Event) -> Result<(Address, String), Failure> {
        let missing = |part: &str, error: crate::TemplateError| {
            Failure::new(ErrorKind::TemplateValueMissing, format!("{part}: {error}"))
        };
        let mut address = Vec::with_capacity(self.address.len());
        for (part, template) in &self.address {
            let value = template.render(event).map_err(|error| missing(part, error))?;
            address.push((part.clone(), value));
        }
        let key = match &self.message_key {
            Some(template) => template
                .render(event)
                .map_err(|error| missing("message_key", error))?,
            None => event.aggregate_id.clone(),
        };
        Ok((Address(address), key))
    }
}

/// Why routes do not fit together.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Two different destinations share a name, and the name is what is stored with their rows.
    #[error("two different destinations are named {0:?}: give one of them another name")]
    NameTwice(String),
    /// The name does not fit its column.
    #[error("the destination name {0:?} is longer than 255 characters: give it a shorter `name`")]
    NameTooLong(String),
}

/// Puts routes together. Destinations of the same name and content are one destination, with one circuit.
#[derive(Clone, Debug, Default)]
pub struct RouterBuilder {
    router: Router,
}

impl RouterBuilder {
    /// Adds a route behind the others.
    pub fn route(mut self, when: Condition, to: Vec<Destination>) -> Result<Self, RouterError> {
        let mut ids = Vec::with_capacity(to.len());
        for destination in to {
            let id = self.destination(destination)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        self.router.routes.push(Route { when, to: ids });
        Ok(self)
    }

    /// The router.
    pub fn build(self) -> Router {
        self.router
    }

    fn destination(&mut self, destination: Destination) -> Result<DestinationId, RouterError> {
        if destination.name.as_str().chars().count() > 255 {
            return Err(RouterError::NameTooLong(destination.name.to_string()));
        }
        if let Some(id) = self.router.by_name(&destination.name) {
            let same = format!("{:?}", self.router.destination(id)) == format!("{destination:?}");
            return if same {
                Ok(id)
            } else {
                Err(RouterError::NameTwice(destination.name.to_string()))
            };
        }
        self.router.destinations.push(Arc::new(destination));
        Ok(DestinationId(self.router.destinations.len() - 1))
    }
}
