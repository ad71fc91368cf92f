//! The cleaning of the history beside everything else, as a relay does it: a batch, then a pause as long as the batch.

use std::time::{Duration, Instant};

use postrider_core::{Kept, Purge, Upkeep};
use postrider_postgres::PgStore;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::Failure;

/// What is removed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// Older than this
    #[arg(long)]
    seconds: u64,
    /// Rows in one transaction
    #[arg(long, default_value_t = 1_000)]
    batch: u32,
}

/// Removes until standard input ends or nothing is left; answers how many rows.
pub(crate) async fn until_told(store: PgStore, args: Args) -> Result<Value, Failure> {
    let told = tokio::spawn(async { tokio::io::stdin().read_to_end(&mut Vec::new()).await });
    let (mut removed, mut batches) = (0, 0);
    while !told.is_finished() {
        let began = Instant::now();
        let purge = Purge::of(Kept::History, Duration::from_secs(args.seconds), args.batch);
        let purged = store.purge(purge).await?;
        removed += purged.rows;
        batches += 1;
        if !purged.more {
            break;
        }
        tokio::time::sleep(began.elapsed()).await;
    }
    Ok(json!({"removed": removed, "batches": batches}))
}
