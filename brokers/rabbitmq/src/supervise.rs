//! Keeps one connection up, for as long as somebody wants it.
//!
//! The client's own recovery stays off: it renumbers confirms behind the back of those who wait for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use postrider_core::{ErrorKind, Failure, RetryPolicy};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Topology;
use crate::connect::{Dialer, Live};

/// The pauses between attempts to connect: the longest is well below the 5 s in which publishing must resume.
const PAUSES: RetryPolicy = RetryPolicy::until_it_works(Duration::from_millis(100), Duration::from_secs(2));
/// The same after a refused login: brokers count those, and some lock the account.
const PAUSES_REFUSED: RetryPolicy =
    RetryPolicy::until_it_works(Duration::from_millis(100), Duration::from_secs(4));
/// A connection that lasted less counts as a failed attempt from the second time on, or a broker that accepts and drops
/// is dialled in a loop.
const STABLE: Duration = Duration::from_secs(1);
/// How often a connection is looked at when nothing is heard of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A connection that is made anew whenever it is lost.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    _ends: Arc<DropGuard>,
}

struct Shared {
    dialer: Dialer,
    declare: Option<Topology>,
    state: watch::Sender<State>,
    started: AtomicBool,
    /// Rung by those who found the connection dead.
    look: Notify,
    ended: CancellationToken,
}

#[derive(Clone)]
enum State {
    /// An attempt is under way, and the one before it did not fail.
    Connecting,
    Up(Arc<Live>),
    /// The last attempt failed; the next one comes by itself.
    Down(Failure),
}

impl Link {
    pub(crate) fn new(dialer: Dialer, declare: Option<Topology>) -> Link {
        let ended = CancellationToken::new();
        let shared = Shared {
            dialer,
            declare,
            state: watch::Sender::new(State::Connecting),
            started: AtomicBool::new(false),
            look: Notify::new(),
            ended: ended.clone(),
        };
        Link {
            shared: Arc::new(shared),
            _ends: Arc::new(ended.drop_guard()),
        }
    }

    /// The connection. Waits for an attempt under way, and no longer: while the broker is away, the answer is at once
    /// why the last attempt failed.
    pub(crate) async fn live(&self) -> Result<Arc<Live>, Failure> {
        let shared = &self.shared;
        if shared.ended.is_cancelled() {
            return Err(closed());
        }
        if !shared.started.swap(true, Ordering::AcqRel) {
            tokio::spawn(supervise(Arc::clone(shared)));
        }
        let mut state = shared.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                State::Up(live) if live.is_up() => return Ok(Arc::clone(live)),
                State::Up(_) => shared.look.notify_one(),
                State::Down(failure) => return Err(failure.clone()),
                State::Connecting => {}
            }
            tokio::select! {
                changed = state.changed() => changed.map_err(|_| closed())?,
                () = shared.ended.cancelled() => return Err(closed()),
            }
        }
    }

    /// Why the last attempt to connect failed, while there is no connection; none of one that was closed on purpose.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        match &*self.shared.state.borrow() {
            State::Down(failure) if !self.is_closed() => Some(failure.clone()),
            State::Down(_) | State::Up(_) | State::Connecting => None,
        }
    }

    /// Cuts a connection that is no longer trusted; another is made at once.
    pub(crate) fn give_up(&self, live: &Live) {
        live.cut();
        self.shared.look.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// Ends it for good; the connection, if there is one, is the caller's to close.
    pub(crate) fn close(&self) -> Option<Arc<Live>> {
        self.shared.ended.cancel();
        match self.shared.state.send_replace(State::Down(closed())) {
            State::Up(live) => Some(live),
            State::Connecting | State::Down(_) => None,
        }
    }
}

fn closed() -> Failure {
    Failure::new(ErrorKind::Unreachable, "it is closed")
}

async fn supervise(shared: Arc<Shared>) {
    let connection = shared.dialer.name();
    let mut failures: u32 = 0;
    let mut fatal = BTreeSet::new();
    while !shared.ended.is_cancelled() {
        let failure = match dial(&shared, &mut fatal).await {
            None => return,
            Some(Ok(live)) => {
                let since = Instant::now();
                let live = Arc::new(live);
                let vhost = live.connection.status().vhost();
                tracing::info!(connection, vhost = vhost.as_str(), "connected to RabbitMQ");
                if !replace(&shared, State::Up(Arc::clone(&live))) {
                    return;
                }
                watch_over(&shared, &live).await;
                if shared.ended.is_cancelled() {
                    return;
                }
                tracing::warn!(connection, "the connection to RabbitMQ was lost");
                replace(&shared, State::Connecting);
                let lasted = since.elapsed() >= STABLE;
                // The next broker may know what this one did not.
                fatal.clear();
                if lasted || failures == 0 {
                    failures = u32::from(!lasted);
                    continue;
                }
                Failure::new(
                    ErrorKind::Unreachable,
                    "the broker accepts connections and drops them",
                )
            }
            Some(Err(failure)) => failure,
        };
        failures += 1;
        let (kind, reason) = (failure.kind.as_str(), &*failure.text);
        let advice = failure.kind.policy().sentence;
        // At doubling distances: an outage is worth a line, not one at every try.
        match failures.is_power_of_two() {
            true => tracing::warn!(
                connection,
                kind,
                reason,
                advice,
                failures,
                "cannot connect to RabbitMQ"
            ),
            false => tracing::debug!(connection, kind, reason, failures, "cannot connect to RabbitMQ"),
        }
        let pauses = match failure.kind {
            ErrorKind::Credentials => PAUSES_REFUSED,
            _ => PAUSES,
        };
        if !replace(&shared, State::Down(failure)) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pauses.pause(failures)) => {}
            () = shared.ended.cancelled() => return,
        }
    }
}

/// Sets the state unless the link was closed meanwhile, which must not be undone.
fn replace(shared: &Shared, next: State) -> bool {
    shared.state.send_if_modified(|state| {
        let open = !shared.ended.is_cancelled();
        if open {
            *state = next;
        }
        open
    })
}

/// One attempt; none when the link was closed during it.
async fn dial(shared: &Shared, fatal: &mut BTreeSet<String>) -> Option<Result<Live, Failure>> {
    let attempt = async {
        let live = shared.dialer.dial().await?;
        if let Some(topology) = &shared.declare {
            topology.declare(&live.connection, fatal).await?;
        }
        Ok(live)
    };
    tokio::select! {
        outcome = attempt => Some(outcome),
        () = shared.ended.cancelled() => None,
    }
}

/// Returns when the connection has ended or the link was closed.
async fn watch_over(shared: &Shared, live: &Live) {
    let mut events = std::pin::pin!(live.connection.events_listener());
    let mut blocked = false;
    while live.is_up() {
        tokio::select! {
            _ = events.next() => {}
            () = shared.look.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = shared.ended.cancelled() => return,
        }
        if live.is_blocked() != blocked {
            blocked = !blocked;
            let connection = shared.dialer.name();
            tracing::warn!(
                connection,
                blocked,
                "RabbitMQ changed its mind about taking messages"
            );
        }
    }
}
