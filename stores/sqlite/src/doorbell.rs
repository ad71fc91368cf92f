//! Waking a sleeping relay: `PRAGMA data_version` changes when another connection has committed.
//!
//! It is asked on the connection that writes, so that the relay's own settles do not wake it; what operators do through
//! the same store rings by hand.

use postrider_core::{BoxFuture, Doorbell, Ring, Shard, StoreError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::SqliteStore;

/// The doorbells that wait on one connection.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    armed: Vec<Armed>,
}

#[derive(Debug)]
struct Armed {
    /// What the database said when the doorbell was armed.
    version: i64,
    ring: oneshot::Sender<()>,
}

impl Bells {
    /// Whether anybody waits. Those that were dropped do not.
    pub(crate) fn are_armed(&mut self) -> bool {
        self.armed.retain(|bell| !bell.ring.is_closed());
        !self.armed.is_empty()
    }

    /// Arms a doorbell at the state of the database as it is now.
    pub(crate) fn arm(&mut self, connection: &Connection) -> rusqlite::Result<oneshot::Receiver<()>> {
        let version = data_version(connection)?;
        let (ring, rung) = oneshot::channel();
        self.armed.push(Armed { version, ring });
        Ok(rung)
    }

    /// Rings those that were armed before something was committed. An error rings too: the relay then reads, and sees
    /// what is wrong.
    pub(crate) fn look(&mut self, connection: &Connection) {
        if self.armed.is_empty() {
            return;
        }
        let version = data_version(connection).ok();
        for bell in self.armed.extract_if(.., |bell| version != Some(bell.version)) {
            let _ = bell.ring.send(());
        }
    }

    /// Rings all of them.
    pub(crate) fn ring(&mut self) {
        for bell in self.armed.drain(..) {
            let _ = bell.ring.send(());
        }
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

impl Doorbell for SqliteStore {
    fn arm(&self, _shards: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        Box::pin(async move {
            let rung = self
                .writer()
                .call("arming the doorbell", |session| {
                    Ok(session.bells.arm(&session.connection)?)
                })
                .await?;
            let ring: Ring = Box::pin(async move {
                if rung.await.is_err() {
                    // The store is gone, and with it everybody who could ring.
                    std::future::pending::<()>().await;
                }
            });
            Ok(ring)
        })
    }
}
