//! Pauses and limits.

use postrider_core::{Control, DestinationName, Scope, StoreError};
use rusqlite::params;

use super::{View, act};
use crate::error::Result;
use crate::row::destination_text;

/// Takes in what a person decided. Relays hear of it with their next heartbeat.
pub(super) fn decide(view: &View<'_>, control: &Control, actor: &str) -> Result<()> {
    match control {
        Control::Pause(scope) => pause(view, scope, true, actor),
        Control::Resume(scope) => pause(view, scope, false, actor),
        Control::Limit(..) => Err(StoreError::unsupported().into()),
    }
}

fn pause(view: &View<'_>, scope: &Scope, paused: bool, actor: &str) -> Result<()> {
    let destination: Option<&DestinationName> = match scope {
        Scope::Outbox => None,
        Scope::Destination(name) => Some(name),
        Scope::Key(_) => return Err(StoreError::unsupported().into()),
    };
    let sql = view.sql(
        "INSERT INTO {outbox_control} (destination, paused) VALUES (?1, ?2)
         ON CONFLICT (destination) DO UPDATE SET paused = ?2",
    );
    let name = destination_text(destination);
    view.tx.execute(&sql, params![name, paused])?;
    let action = if paused { "pause" } else { "resume" };
    let what = if name.is_empty() { "the outbox" } else { name };
    act::audit(view, actor, action, what, 1, 0)
}
