//! A few connections that listeners take turns on. Each is opened when it is needed, and is dropped rather than given
//! to the next when it is not certain that its transaction is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::{StoreError, StoreErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::PgOptions;
use crate::connect::{Role, Target};
use crate::identity::Identity;
use crate::session::{Ending, Session};
use crate::tls::Address;

#[derive(Debug)]
pub(super) struct Pool {
    target: Target,
    places: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// A connection that is in use. Dropped without [`Lent::keep`], by an error, a panic or a caller who does not wait any
/// more, the server is told to stop what it does on it.
pub(super) struct Lent<'a> {
    pub(super) session: Session,
    ends: Unfinished,
    place: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(url: &str, options: PgOptions, connections: usize) -> Result<Self, StoreError> {
        let address = Address::parse(url, &options)?.read_again_from(options.url_file.as_ref());
        let target = Target {
            address,
            role: Role::Consumer,
            pooled: options.poll_only || options.listen_url.is_some(),
            options,
            identity: Arc::new(Identity::default()),
        };
        Ok(Self {
            target,
            places: Semaphore::new(connections.clamp(1, 1_000)),
            idle: Mutex::default(),
        })
    }

    /// A connection that nobody else uses.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let Ok(place) = self.places.acquire().await else {
            let text = "the connections of the inbox were closed";
            return Err(StoreError::new(StoreErrorKind::Unreachable, text));
        };
        let session = match self.take() {
            Some(session) => session,
            None => {
                let opened = self.target.open().await;
                opened.map_err(|error| error.while_doing("connecting to the consumer's database"))?
            }
        };
        Ok(Lent {
            ends: Unfinished(Some(session.ending())),
            session,
            place,
        })
    }

    /// Whether statements may be kept on the server between two transactions.
    pub(super) fn keeps_sessions(&self) -> bool {
        !self.target.pooled
    }

    fn take(&self) -> Option<Session> {
        let mut idle = self.idle();
        // Those that the server has closed in the meantime are of no use to anybody.
        idle.retain(Session::is_good);
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    /// Gives the connection to whoever comes next: no transaction is open on it.
    pub(super) fn keep(self, pool: &Pool) {
        let Lent {
            session,
            mut ends,
            place,
        } = self;
        ends.0 = None;
        if session.is_good() {
            pool.idle().push(session);
        }
        // Only now: whoever waits for the place must find the connection.
        drop(place);
    }
}

struct Unfinished(Option<Ending>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(ending) = self.0.take() {
            ending.run();
        }
    }
}
