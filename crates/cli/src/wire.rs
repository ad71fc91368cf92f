//! From configuration to stores and sinks: the one place that names backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{AddressField, Console, Schema, Sink, Store};
use postrider_memory::MemoryBroker;

use crate::config::{Broker, Config, Kind, Outbox, Place, suggestion};
use crate::failure::Failure;

/// An outbox with its database open.
#[derive(Clone)]
pub struct Opened {
    pub name: String,
    pub store: Arc<dyn Store>,
    pub console: Arc<dyn Console>,
    pub schema: Arc<dyn Schema>,
}

/// What to do about a database file that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A mistyped path is an error, not an empty database.
    Refuse,
    /// Make it.
    Create,
}

/// The outboxes that a command is about: all, or the one that was named.
pub fn chosen<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<(&'a str, &'a Outbox)>, Failure> {
    let Some(name) = name else {
        return Ok(config
            .outboxes
            .iter()
            .map(|(name, outbox)| (name.as_str(), outbox))
            .collect());
    };
    match config.outboxes.get_key_value(name) {
        Some((name, outbox)) => Ok(vec![(name, outbox)]),
        None => {
            let known: Vec<&str> = config.outboxes.keys().map(String::as_str).collect();
            let failure = Failure::input(format!("there is no outbox named {name:?}"));
            Err(failure.advice(suggestion(name, &known).unwrap_or_default()))
        }
    }
}

/// The outbox that a command is about, where it can be only one.
pub fn single<'a>(config: &'a Config, name: Option<&str>) -> Result<(&'a str, &'a Outbox), Failure> {
    match chosen(config, name)?.as_slice() {
        [one] => Ok(*one),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            let failure = Failure::input("there are several outboxes");
            Err(failure.advice(format!("name one with --outbox: {}", names.join(", "))))
        }
    }
}

/// Opens the database of an outbox, whatever its tables are.
pub fn open(name: &str, outbox: &Outbox, missing: Missing) -> Result<Opened, Failure> {
    match &outbox.place {
        #[cfg(feature = "postgres")]
        Place::Other { scheme, url } if crate::postgres::is_one(scheme) => {
            crate::postgres::open(name, outbox, url)
        }
        Place::Other { scheme, .. } => Err(unavailable("outbox", name, scheme)),
        #[cfg(feature = "sqlite")]
        Place::Sqlite(path) => crate::sqlite::open(name, outbox, path, missing),
        #[cfg(not(feature = "sqlite"))]
        Place::Sqlite(_) => {
            let _ = missing;
            Err(unavailable("outbox", name, "sqlite"))
        }
    }
}

/// Opens the database of an outbox whose tables are up to date.
pub async fn ready(name: &str, outbox: &Outbox) -> Result<Opened, Failure> {
    let opened = open(name, outbox, Missing::Refuse)?;
    let status = opened
        .schema
        .status()
        .await
        .map_err(|error| Failure::store(name, &error))?;
    match status.installed == status.wanted {
        true => Ok(opened),
        false => Err(Failure::schema(name, &status)),
    }
}

/// Whether this build has what the configuration asks for. Touches nothing.
pub fn check(config: &Config) -> Result<(), Failure> {
    for (name, outbox) in &config.outboxes {
        match &outbox.place {
            #[cfg(feature = "postgres")]
            Place::Other { scheme, .. } if crate::postgres::is_one(scheme) => {}
            Place::Other { scheme, .. } => return Err(unavailable("outbox", name, scheme)),
            Place::Sqlite(_) if !cfg!(feature = "sqlite") => {
                return Err(unavailable("outbox", name, "sqlite"));
            }
            Place::Sqlite(_) => {}
        }
    }
    for (name, broker) in &config.brokers {
        match &broker.kind {
            Kind::Other { scheme, .. } => return Err(unavailable("broker", name, scheme)),
            Kind::File { .. } | Kind::Stdout if !cfg!(feature = "file") => {
                return Err(unavailable("broker", name, "file"));
            }
            Kind::RabbitMq(_) if !cfg!(feature = "rabbitmq") => {
                return Err(unavailable("broker", name, "amqp"));
            }
            Kind::File { .. } | Kind::Stdout | Kind::RabbitMq(_) | Kind::Memory => {}
        }
    }
    Ok(())
}

/// Opens every broker that a route uses.
pub fn sinks(config: &Config) -> Result<BTreeMap<String, Arc<dyn Sink>>, Failure> {
    let mut sinks = BTreeMap::new();
    for destination in config.router.destinations() {
        let name = &destination.broker;
        if let (false, Some(broker)) = (sinks.contains_key(name), config.brokers.get(name)) {
            sinks.insert(name.clone(), sink(name, broker)?);
        }
    }
    Ok(sinks)
}

fn sink(name: &str, broker: &Broker) -> Result<Arc<dyn Sink>, Failure> {
    #[cfg(feature = "file")]
    let failed = |error: postrider_file::FileError| {
        Failure::backend(format!("the broker {name:?} cannot be opened"))
            .because(&error)
            .advice("check that the directory exists and that the relay may write there")
    };
    match &broker.kind {
        Kind::Other { scheme, .. } => Err(unavailable("broker", name, scheme)),
        #[cfg(feature = "rabbitmq")]
        Kind::RabbitMq(rabbit) => match crate::rabbitmq::open(name, broker, rabbit) {
            Ok(sink) => Ok(Arc::new(sink)),
            Err(error) => Err(Failure::input(format!("the broker {name:?} cannot be used")).because(&error)),
        },
        #[cfg(not(feature = "rabbitmq"))]
        Kind::RabbitMq(_) => Err(unavailable("broker", name, "amqp")),
        Kind::Memory => Ok(Arc::new(MemoryBroker::new())),
        #[cfg(feature = "file")]
        Kind::File { path, sync } => {
            let options = postrider_file::FileOptions::default().sync(*sync);
            Ok(Arc::new(
                postrider_file::FileSink::open(path, options).map_err(failed)?,
            ))
        }
        #[cfg(feature = "file")]
        Kind::Stdout => Ok(Arc::new(postrider_file::FileSink::stdout().map_err(failed)?)),
        #[cfg(not(feature = "file"))]
        Kind::File { .. } | Kind::Stdout => Err(unavailable("broker", name, "file")),
    }
}

/// The parts of an address that a kind of broker takes; none when this build does not know the kind.
///
/// The same as `capabilities().address` of its sink, but known before anything is opened: checking a configuration must
/// not create files or connect to anything.
pub fn address_fields(kind: &Kind) -> Option<&'static [AddressField]> {
    match kind {
        #[cfg(feature = "file")]
        Kind::File { .. } => Some(postrider_file::FileSink::ADDRESS),
        #[cfg(not(feature = "file"))]
        Kind::File { .. } => None,
        Kind::Stdout => Some(&[]),
        #[cfg(feature = "rabbitmq")]
        Kind::RabbitMq(_) => Some(postrider_rabbitmq::RabbitSink::ADDRESS),
        #[cfg(not(feature = "rabbitmq"))]
        Kind::RabbitMq(_) => None,
        // It takes any address, so that the routes of production can be tried on it.
        Kind::Memory | Kind::Other { .. } => None,
    }
}

/// The cargo feature that has the backend of a scheme.
fn feature(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "sqlite" => "sqlite",
        "file" | "stdout" => "file",
        "postgres" | "postgresql" => "postgres",
        "mysql" | "mariadb" => "mysql",
        "mongodb" | "mongodb+srv" => "mongodb",
        "amqp" | "amqps" => "rabbitmq",
        "kafka" => "kafka",
        "nats" | "tls" => "nats",
        "redis" | "rediss" => "redis",
        "sqs" | "sns" => "sqs",
        "http" | "https" => "webhook",
        _ => return None,
    })
}

fn unavailable(what: &str, name: &str, scheme: &str) -> Failure {
    match feature(scheme) {
        Some(feature) => Failure::input(format!(
            "the {what} {name:?} needs {feature}, which is not available in this build"
        ))
        .advice(format!(
            "use a build of postrider with the cargo feature `{feature}`"
        )),
        None => {
            let known = match what {
                "outbox" => "sqlite:PATH and postgres://USER@HOST/DATABASE",
                _ => "amqp://…, amqps://…, file:PATH, stdout: or memory:",
            };
            Failure::input(format!(
                "the {what} {name:?} has a url of an unknown kind, `{scheme}:`"
            ))
            .advice(format!("this build knows {known}"))
        }
    }
}
