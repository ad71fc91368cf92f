//! From configuration to stores and sinks: the one place that names backends.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::{AddressField, Console, Event, Schema, Sink, Store, Upkeep};
use postrider_memory::MemoryBroker;
use tempfile::TempDir;

use crate::config::{Broker, Config, ConfigError, Kind, Outbox, Place, Problem, suggestion};
use crate::failure::Failure;

/// An outbox with its database open.
#[derive(Clone)]
pub struct Opened {
    pub name: String,
    pub store: Arc<dyn Store>,
    pub console: Arc<dyn Console>,
    pub upkeep: Arc<dyn Upkeep>,
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
    if config.outboxes.is_empty() {
        let failure = Failure::input("no outbox is configured");
        return Err(failure.advice("add one, for example [outbox.main] with url = \"sqlite:postrider.db\""));
    }
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

/// What a command that is about one outbox has to be given behind its other arguments: nothing where there is only one.
pub fn option(config: &Config, outbox: &str) -> String {
    match config.outboxes.len() {
        0 | 1 => String::new(),
        _ => format!(" --outbox {outbox}"),
    }
}

/// Opens the database of an outbox, whatever its tables are.
pub fn open(name: &str, outbox: &Outbox, missing: Missing) -> Result<Opened, Failure> {
    match &outbox.place {
        Place::Other { scheme, .. } => Err(refuse(
            outbox.place_of_url.as_deref(),
            unsupported("outbox", name, scheme),
        )),
        #[cfg(feature = "postgres")]
        Place::Postgres(place) => crate::postgres::open(name, outbox, place),
        #[cfg(not(feature = "postgres"))]
        Place::Postgres(_) => Err(left_out("outbox", name, "postgres")),
        #[cfg(feature = "sqlite")]
        Place::Sqlite(path) => crate::sqlite::open(name, outbox, path, missing),
        #[cfg(not(feature = "sqlite"))]
        Place::Sqlite(_) => {
            let _ = missing;
            Err(left_out("outbox", name, "sqlite"))
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
    match status.is_usable() {
        true => Ok(opened),
        false => Err(Failure::schema(name, &status)),
    }
}

/// Commits events to an outbox in one transaction: all of them or none.
pub async fn commit(name: &str, outbox: &Outbox, events: &[Event]) -> Result<(), Failure> {
    match &outbox.place {
        #[cfg(feature = "sqlite")]
        Place::Sqlite(path) => crate::sqlite::commit(name, outbox, path, events),
        #[cfg(feature = "postgres")]
        Place::Postgres(place) => crate::postgres::commit(name, outbox, place, events).await,
        // [`ready`] refused every store that this build does not have.
        _ => Err(Failure::input(format!(
            "events cannot be sent to outbox {name:?} from here: {} events",
            events.len()
        ))),
    }
}

/// Whether the database of an outbox may be there; only a file can be told to be missing.
pub fn exists(outbox: &Outbox) -> bool {
    match &outbox.place {
        Place::Sqlite(path) => path.exists(),
        Place::Postgres(_) | Place::Other { .. } => true,
    }
}

/// The schema of an outbox of which nothing is touched: it is asked of a store on a file that goes away.
pub fn elsewhere(name: &str, outbox: &Outbox) -> Result<(Arc<dyn Schema>, TempDir), Failure> {
    let folder = tempfile::tempdir()?;
    let mut elsewhere = outbox.clone();
    if let Place::Sqlite(path) = &mut elsewhere.place {
        *path = folder.path().join("print.db");
    }
    Ok((open(name, &elsewhere, Missing::Create)?.schema, folder))
}

/// What a broker binds without declaring it.
pub fn undeclared(broker: &Broker) -> Vec<String> {
    match &broker.kind {
        #[cfg(feature = "rabbitmq")]
        Kind::RabbitMq(rabbit) => crate::rabbitmq::undeclared(rabbit),
        _ => Vec::new(),
    }
}

/// Whether this build has what the configuration asks for, and whether the backends can read their own settings.
/// Touches no database and no broker.
pub fn check(config: &Config) -> Result<(), Failure> {
    for (name, outbox) in &config.outboxes {
        match &outbox.place {
            Place::Other { scheme, .. } => {
                let problem = unsupported("outbox", name, scheme);
                return Err(refuse(outbox.place_of_url.as_deref(), problem));
            }
            #[cfg(not(feature = "postgres"))]
            Place::Postgres(_) => return Err(left_out("outbox", name, "postgres")),
            #[cfg(feature = "postgres")]
            Place::Postgres(place) => crate::postgres::check(name, outbox, place)?,
            #[cfg(not(feature = "sqlite"))]
            Place::Sqlite(_) => return Err(left_out("outbox", name, "sqlite")),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(_) => {}
        }
    }
    for (name, inbox) in &config.inboxes {
        crate::inbox::check(name, inbox)?;
    }
    for (name, listener) in &config.listeners {
        crate::listen::check(config, name, listener)?;
    }
    for (name, broker) in &config.brokers {
        match &broker.kind {
            Kind::Other { scheme, .. } => {
                let problem = unsupported("broker", name, scheme);
                return Err(refuse(broker.place_of_url.as_deref(), problem));
            }
            #[cfg(not(feature = "file"))]
            Kind::File { .. } | Kind::Stdout => return Err(left_out("broker", name, "file")),
            #[cfg(feature = "file")]
            Kind::File { .. } | Kind::Stdout => {}
            #[cfg(not(feature = "rabbitmq"))]
            Kind::RabbitMq(_) => return Err(left_out("broker", name, "rabbitmq")),
            #[cfg(feature = "rabbitmq")]
            Kind::RabbitMq(rabbit) => crate::rabbitmq::check(name, broker, rabbit)?,
            Kind::Memory => {}
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

/// Opens one broker for publishing.
pub fn sink(name: &str, broker: &Broker) -> Result<Arc<dyn Sink>, Failure> {
    #[cfg(feature = "file")]
    let failed = |error: postrider_file::FileError| {
        Failure::backend(format!("the broker {name:?} cannot be opened"))
            .because(&error)
            .advice("check that the directory exists and that the relay may write there")
    };
    match &broker.kind {
        Kind::Other { scheme, .. } => Err(refuse(
            broker.place_of_url.as_deref(),
            unsupported("broker", name, scheme),
        )),
        #[cfg(feature = "rabbitmq")]
        Kind::RabbitMq(rabbit) => Ok(Arc::new(crate::rabbitmq::open(name, broker, rabbit)?)),
        #[cfg(not(feature = "rabbitmq"))]
        Kind::RabbitMq(_) => Err(left_out("broker", name, "rabbitmq")),
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
        Kind::File { .. } | Kind::Stdout => Err(left_out("broker", name, "file")),
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

/// What people call the backend of a scheme.
fn backend(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "mysql" => "MySQL",
        "mariadb" => "MariaDB",
        "mongodb" | "mongodb+srv" => "MongoDB",
        "kafka" => "Kafka",
        "nats" | "tls" => "NATS",
        "redis" | "rediss" => "Redis",
        "sqs" => "SQS",
        "sns" => "SNS",
        "http" | "https" => "a webhook",
        _ => return None,
    })
}

/// A url that no backend of this program takes.
pub fn unsupported(what: &str, name: &str, scheme: &str) -> Problem {
    let known = match what {
        "outbox" | "inbox" => "sqlite:PATH and postgres://USER@HOST/DATABASE",
        _ => "amqp://HOST, amqps://HOST, file:PATH, stdout: and memory:",
    };
    let text = match backend(scheme) {
        Some(backend) => format!("the {what} {name:?}: {backend} is not supported by this build yet"),
        None => format!("the {what} {name:?} has a url of an unknown kind, `{scheme}:`"),
    };
    Problem::new(text).help(format!("this build knows {known}"))
}

/// The problem at its line.
pub fn refuse(place: Option<&ConfigError>, problem: Problem) -> Failure {
    match place {
        Some(place) => place.saying(problem).into(),
        None => Failure::input(problem.message),
    }
}

/// A backend that was left out of this build.
#[cfg(not(all(
    feature = "sqlite",
    feature = "postgres",
    feature = "file",
    feature = "rabbitmq"
)))]
fn left_out(what: &str, name: &str, feature: &str) -> Failure {
    Failure::input(format!(
        "the {what} {name:?} needs {feature}, which is not available in this build"
    ))
    .advice(format!(
        "use a build of postrider with the cargo feature `{feature}`"
    ))
}
