//! Pauses and limits.

use postrider_core::{Control, DestinationName, Scope, StoreError};

use super::{View, act};
use crate::error::Result;
use crate::row::{destination_text, storable};

/// Takes in what a person decided. Relays hear of it with their next heartbeat.
pub(super) async fn decide(view: &View, control: &Control, actor: &str) -> Result<()> {
    match control {
        Control::Pause(scope) => pause(view, scope, true, actor).await,
        Control::Resume(scope) => pause(view, scope, false, actor).await,
        Control::Limit(..) => Err(StoreError::unsupported().into()),
    }
}

async fn pause(view: &View, scope: &Scope, paused: bool, actor: &str) -> Result<()> {
    let destination: Option<&DestinationName> = match scope {
        Scope::Outbox => None,
        Scope::Destination(name) => Some(name),
        Scope::Key(_) => return Err(StoreError::unsupported().into()),
    };
    let sql = view.sql(
        "INSERT INTO {outbox_control} AS c (destination, paused) VALUES ($1, $2)
         ON CONFLICT (destination) DO UPDATE SET paused = excluded.paused",
    );
    let name = storable(destination_text(destination));
    view.client().execute(&sql, &[&name, &paused]).await?;
    let action = if paused { "pause" } else { "resume" };
    let what = if name.is_empty() { "the outbox" } else { &*name };
    act::audit(view, actor, action, what, 1, 0).await
}
