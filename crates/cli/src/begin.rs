//! The beginning of a job, which may have happened although its answer was lost.

use postrider_core::{Job, NewJob, StoreErrorKind};

use crate::failure::Failure;
use crate::wire::Opened;

/// Begins a job. Where the connection was lost it may have begun: asked again under the same id it begins once.
pub async fn begin(outbox: &Opened, job: NewJob) -> Result<Job, Failure> {
    let id = job.id.clone();
    let begun = match outbox.console.begin(job.clone()).await {
        Err(error) if error.kind() == StoreErrorKind::Unreachable => outbox.console.begin(job).await,
        begun => begun,
    };
    begun.map_err(|error| match error.kind() {
        StoreErrorKind::Unreachable => {
            let advice = error.advice();
            let known = format!("{advice}; then `postrider job list` tells whether the job {id} has begun");
            Failure::store(&outbox.name, &error).advice(known)
        }
        _ => Failure::store(&outbox.name, &error),
    })
}
