//! What happens before a relay runs: health and metrics are served, and its database is waited for.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use postrider_admin::{Admin, Options, Serving};
use postrider_core::{RetryPolicy, StoreError, StoreErrorKind, causes};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, DEFAULT_LISTEN, Listen, Origin, Outbox};
use crate::failure::Failure;
use crate::wire::{self, Missing, Opened};

/// The pauses between looks for a database that is not there: what is back is used again within 5 s.
const PAUSES: RetryPolicy = RetryPolicy::until_it_works(Duration::from_millis(250), Duration::from_secs(4));

/// What is watched, and the server that answers for it, if there is one.
pub fn admin(config: &Config, log_lines_dropped: Arc<AtomicU64>) -> Admin {
    let defaults = Options::default();
    Admin::new(Options {
        thresholds: config.health.clone(),
        token: config.admin.token.clone(),
        max_types: config.admin.max_types.unwrap_or(defaults.max_types),
        log_lines_dropped: Some(log_lines_dropped),
    })
}

/// Serves health and metrics. An address that was asked for and cannot be had is an error; the default one is given up.
pub fn serve(config: &Config, admin: &Admin) -> Result<Option<Serving>, Failure> {
    let (address, wanted) = match config.admin.listen {
        Listen::Off => return Ok(None),
        Listen::Default => (DEFAULT_LISTEN, false),
        Listen::At(address) => (address, true),
    };
    let serving = TcpListener::bind(address).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((admin.clone().serve_apart(listener)?, address))
    });
    match serving {
        Ok((serving, address)) => {
            tracing::info!(%address, token = config.admin.token.is_some(), "serving health and metrics");
            Ok(Some(serving))
        }
        Err(error) if wanted => Err(Failure::backend(format!(
            "health and metrics cannot be served on {address}"
        ))
        .because(&error)
        .advice("set `listen` in [admin] to an address that is free, or to \"off\"")),
        Err(error) => {
            let advice = "set `listen` in [admin] to an address of its own, or to \"off\"";
            let text = match error.kind() {
                ErrorKind::AddrInUse => {
                    "another process answers here: what it says of health and metrics is not about this one, whose \
                     work goes on"
                }
                _ => "health and metrics are not served; the work goes on",
            };
            tracing::warn!(%address, %error, advice, pid = std::process::id(), "{text}");
            Ok(None)
        }
    }
}

/// An outbox, and whether its database answered.
pub struct Started {
    pub opened: Opened,
    pub ready: bool,
    create: bool,
}

/// Opens an outbox. Nobody who has no configuration has run a migration, so then it is made on the way. A database that
/// is not there yet, or is just starting, is waited for later: a supervisor that restarts us would not help it.
pub async fn open(
    config: &Config,
    name: &str,
    outbox: &Outbox,
    migrate: bool,
    wait: bool,
) -> Result<Started, Failure> {
    let create = migrate || config.origin == Origin::Embedded;
    let missing = if create { Missing::Create } else { Missing::Refuse };
    let opened = wire::open(name, outbox, missing)?;
    if let Some(weakness) = outbox.weakness() {
        tracing::warn!(outbox = name, "{weakness}");
    }
    match prepare(&opened, create).await {
        Ok(()) => Ok(Started {
            opened,
            ready: true,
            create,
        }),
        Err(NotReady::Store(error)) if wait && comes_back(&error) => {
            let text = causes(&error);
            tracing::warn!(
                outbox = name,
                error = text,
                advice = error.advice(),
                "the database is waited for"
            );
            Ok(Started {
                opened,
                ready: false,
                create,
            })
        }
        Err(NotReady::Store(error)) => Err(Failure::store(name, &error)),
        Err(NotReady::Schema(failure)) => Err(failure),
    }
}

impl Started {
    /// Waits until the tables are there, or until it is told to stop; answers whether they are.
    pub async fn wait(&self, stop: &CancellationToken) -> bool {
        if self.ready {
            return true;
        }
        for failures in 1.. {
            let pause = tokio::time::sleep(PAUSES.pause(failures));
            if stop.run_until_cancelled(pause).await.is_none() {
                break;
            }
            let name = self.opened.name.as_str();
            match prepare(&self.opened, self.create).await {
                Ok(()) => {
                    tracing::info!(outbox = name, "the database is there");
                    return true;
                }
                Err(NotReady::Store(error)) => {
                    let text = causes(&error);
                    tracing::debug!(outbox = name, error = text, "the database is still waited for");
                }
                Err(NotReady::Schema(failure)) => {
                    tracing::warn!(outbox = name, error = %failure, "the tables are still waited for");
                }
            }
        }
        false
    }
}

enum NotReady {
    Store(StoreError),
    Schema(Failure),
}

/// Makes the tables, or looks whether they are there.
async fn prepare(opened: &Opened, create: bool) -> Result<(), NotReady> {
    if create {
        let steps = opened.schema.up().await.map_err(NotReady::Store)?;
        if !steps.is_empty() {
            tracing::info!(outbox = opened.name, "made the tables");
        }
    }
    let status = opened.schema.status().await.map_err(NotReady::Store)?;
    for difference in &status.differs {
        tracing::warn!(outbox = opened.name, "{difference}");
    }
    match status.is_usable() {
        true => Ok(()),
        false => Err(NotReady::Schema(Failure::schema(&opened.name, &status))),
    }
}

fn comes_back(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unreachable | StoreErrorKind::Busy)
}
