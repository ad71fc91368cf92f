//! Open feeds, and who looks for what is new in them.
//!
//! Polling is the truth: the feed of a person is looked at every second while somebody watches it, whoever wrote to it
//! and from whichever process. A nudge only makes that sooner. There is one look for a person, however many of their
//! windows are open, and only so many at a time, so that a crowd of watchers cannot keep writers from the database.

mod look;
mod news;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

pub(super) use news::{News, catch_up};

use crate::Board;

/// How many streams there are at most, of everybody: what a small machine looks for every second without noticing.
const STREAMS: usize = 512;
/// How many of one person: windows that are open, on all their devices.
const OF_ONE: usize = 8;
/// How much news a stream may be behind before it is ended. Its reader comes back and is told what it missed.
const BEHIND: usize = 8;
/// How many looks there are at a time.
const LOOKS: usize = 8;

/// Tells open feeds that something may be new. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    board: Arc<dyn Board>,
    rooms: Mutex<HashMap<String, Room>>,
    /// Seats are numbered over all rooms: one that is left late must not be taken for another's.
    next: AtomicU64,
    places: Arc<Semaphore>,
    looks: Semaphore,
    stop: CancellationToken,
}

/// The open streams of one person.
struct Room {
    seats: Vec<(u64, mpsc::Sender<Arc<News>>)>,
    nudge: Arc<Notify>,
    /// Ends the task that looks. It is ended with the last seat, so a room never outlives its streams.
    gone: CancellationToken,
}

impl Hub {
    pub(super) fn new(board: Arc<dyn Board>) -> Self {
        let inner = Arc::new(Inner {
            board,
            rooms: Mutex::default(),
            next: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(STREAMS)),
            looks: Semaphore::new(LOOKS),
            stop: CancellationToken::new(),
        });
        Self { inner }
    }

    /// Something may be new for this person. Costs nothing where nobody watches.
    pub fn nudge(&self, user: &str) {
        if let Some(room) = self.inner.rooms().get(user) {
            room.nudge.notify_one();
        }
    }

    /// Something may be new for anybody.
    pub fn nudge_all(&self) {
        for room in self.inner.rooms().values() {
            room.nudge.notify_one();
        }
    }

    /// How many streams are open.
    pub fn streams(&self) -> usize {
        STREAMS - self.inner.places.available_permits()
    }

    /// Ends every stream, and lets nobody open another: a server that shuts down would wait for them for ever.
    pub fn close(&self) {
        self.inner.stop.cancel();
    }

    /// A place among the streams of a person.
    pub(super) fn join(&self, user: &str) -> Result<Seat, Full> {
        if self.inner.stop.is_cancelled() {
            return Err(Full::Closed);
        }
        let place = self.inner.places.clone().try_acquire_owned();
        let place = place.map_err(|_| Full::Everybody)?;
        let mut rooms = self.inner.rooms();
        let room = rooms
            .entry(user.to_owned())
            .or_insert_with(|| look::begin(&self.inner, user));
        if room.seats.len() >= OF_ONE {
            return Err(Full::OfOne);
        }
        let (sender, news) = mpsc::channel(BEHIND);
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        room.seats.push((number, sender));
        Ok(Seat {
            news,
            stop: self.inner.stop.clone(),
            leaves: Leaves {
                hub: self.inner.clone(),
                user: user.to_owned(),
                number,
            },
            _place: place,
        })
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn rooms(&self) -> MutexGuard<'_, HashMap<String, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the streams of a person. One that is too far behind is ended by dropping its sender.
    fn tell(&self, user: &str, news: News) {
        let news = Arc::new(news);
        if let Some(room) = self.rooms().get_mut(user) {
            let told = |sender: &mpsc::Sender<_>| {
                !matches!(sender.try_send(Arc::clone(&news)), Err(TrySendError::Full(_)))
            };
            room.seats.retain(|(_, sender)| told(sender));
        }
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// There are too many streams.
    Everybody,
    /// There are too many of this person.
    OfOne,
    /// The server is shutting down.
    Closed,
}

/// A place among the streams of a person; it is free again when this is dropped.
pub(super) struct Seat {
    pub(super) news: mpsc::Receiver<Arc<News>>,
    pub(super) stop: CancellationToken,
    #[expect(dead_code, reason = "it is dropped with the seat")]
    leaves: Leaves,
    _place: tokio::sync::OwnedSemaphorePermit,
}

struct Leaves {
    hub: Arc<Inner>,
    user: String,
    number: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let mut rooms = self.hub.rooms();
        let Some(room) = rooms.get_mut(&self.user) else {
            return;
        };
        room.seats.retain(|(number, _)| *number != self.number);
        if room.seats.is_empty() {
            room.gone.cancel();
            rooms.remove(&self.user);
        }
    }
}
