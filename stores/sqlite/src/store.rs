//! The handle that implements the traits: every call is a message to one of its threads.

use std::path::Path;
use std::sync::{Arc, Mutex};

use postrider_core::{
    BoxFuture, Doorbell, Heartbeat, Page, Read, Settle, Settled, Standing, Store, StoreError, StoreErrorKind,
};

use crate::config::SqliteOptions;
use crate::connect::{self, Role, Worker};
use crate::error::Result;
use crate::heads::Round;
use crate::ident::Tables;
use crate::settle::Keeping;
use crate::{lease, read, settle};

/// An outbox in a SQLite file. Clones are handles to the same connections.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tables: Arc<Tables>,
    options: SqliteOptions,
    writer: Worker,
    reader: Worker,
    viewer: Worker,
    /// Where the search for due heads goes on at the next read.
    round: Arc<Mutex<Round>>,
}

impl SqliteStore {
    /// Opens the file. Makes no tables: that is what [`Schema::up`](postrider_core::Schema::up) is for.
    ///
    /// The file is switched to the write-ahead log, which needs a local file system.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref();
        let tables = Tables::new(&options.prefix).map_err(|error| {
            StoreError::new(StoreErrorKind::Other, error.to_string()).with_advice("correct the prefix")
        })?;
        let spawn = |name, role| {
            let connection = connect::open(path, &options, role)?;
            Worker::spawn(name, connection, &options)
        };
        Ok(Self {
            inner: Arc::new(Inner {
                tables: Arc::new(tables),
                writer: spawn("writer", Role::Writer)?,
                reader: spawn("reader", Role::Reader)?,
                viewer: spawn("viewer", Role::Reader)?,
                round: Arc::default(),
                options,
            }),
        })
    }

    /// The settings that the store was opened with.
    pub fn options(&self) -> &SqliteOptions {
        &self.inner.options
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.inner.tables
    }

    pub(crate) fn tables_shared(&self) -> Arc<Tables> {
        Arc::clone(&self.inner.tables)
    }

    /// The thread that writes.
    pub(crate) fn writer(&self) -> &Worker {
        &self.inner.writer
    }

    /// The thread that reads for operators.
    pub(crate) fn viewer(&self) -> &Worker {
        &self.inner.viewer
    }
}

impl Store for SqliteStore {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        let tables = self.tables_shared();
        let history = self.inner.options.trimmed();
        Box::pin(self.writer().call("renewing the lease", move |session| {
            lease::heartbeat(&mut session.connection, &tables, history, &beat)
        }))
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        let tables = self.tables_shared();
        let round = Arc::clone(&self.inner.round);
        let dedup = self.inner.options.dedup_window();
        Box::pin(self.inner.reader.call("reading the outbox", move |session| {
            read::read(&mut session.connection, &tables, dedup, &round, &read)
        }))
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        let tables = self.tables_shared();
        let keeping = Keeping {
            history: self.inner.options.history.is_some(),
            trimmed: self.inner.options.trimmed(),
        };
        Box::pin(self.writer().call("settling a batch", move |session| {
            settle::settle(session, &tables, keeping, &settle)
        }))
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::new(self.clone()))
    }
}
