//! The api of a board.

use std::fmt;
use std::sync::{Arc, OnceLock};

use postrider_core::Secret;

use super::{Demo, Hub};
use crate::Board;

/// Who may ask, and whether there is a demo.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// What services prove themselves with. None: they are let in on loopback only.
    pub token: Option<Secret>,
    /// What the ids of people are signed with, see [`super::sign`]. None: they are let in on loopback only, unsigned.
    pub secret: Option<Secret>,
    /// Whether push urls of private networks and plain http are taken: what is said to
    /// [`crate::deliver::PushOptions::allow_private`].
    pub private_push: bool,
    /// The page at `/demo`, which shows the feed of anybody in it: on loopback only. None: there is none.
    pub demo: Option<Demo>,
}

postrider_core::setters! {
    Options {
        token: impl Into<Secret> => Some(token.into()),
        secret: impl Into<Secret> => Some(secret.into()),
        private_push: bool,
        demo: impl Into<Demo> => Some(demo.into()),
    }
}

/// The api of a board. Clones are the same api.
#[derive(Clone)]
pub struct Api {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) board: Arc<dyn Board>,
    pub(super) hub: Hub,
    pub(super) options: Options,
    on_stored: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Inner {
    /// A call stored something.
    pub(super) fn stored(&self) {
        if let Some(call) = self.on_stored.get() {
            call();
        }
    }
}

impl Api {
    /// The api of this board.
    pub fn new(board: Arc<dyn Board>, options: Options) -> Self {
        let hub = Hub::new(board.clone());
        let inner = Arc::new(Inner {
            board,
            hub,
            options,
            on_stored: OnceLock::new(),
        });
        Self { inner }
    }

    /// Calls this whenever a call stored something that is to be delivered or gone on with, so that whoever does that
    /// need not look first. It must not block. The first one that is given counts.
    pub fn on_stored(self, call: impl Fn() + Send + Sync + 'static) -> Self {
        let _ = self.inner.on_stored.set(Box::new(call));
        self
    }

    /// What tells open feeds that something may be new. Whoever writes to the board in this process gives a nudge;
    /// what nobody nudges for is found a second later.
    pub fn hub(&self) -> &Hub {
        &self.inner.hub
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}
