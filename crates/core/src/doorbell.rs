//! How a store wakes a sleeping relay. A doorbell is a hint; polling is the truth.

use crate::{BoxFuture, Shard, StoreError};

/// A future that ends when something was committed since it was armed. Dropping it disarms the doorbell.
pub type Ring = BoxFuture<'static, ()>;

/// The protocol is: arm, read once more, and only then wait. A commit after arming rings; a commit before it is found
/// by the read in between. A relay that gives shards up rings too, for the others that sleep beside it. A ring for
/// nothing is allowed; a missed ring costs one poll interval, never an event.
pub trait Doorbell: Send + Sync {
    /// Arms the doorbell for these shards.
    fn arm(&self, shards: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>>;
}
