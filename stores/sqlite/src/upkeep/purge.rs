//! Removal by age.

use postrider_core::{Kept, Purge, Purged, StoreError};

use crate::console::{View, audit};
use crate::error::Result;
use crate::schema;
use crate::settle;

pub(super) fn purge(view: &View<'_>, purge: &Purge) -> Result<Purged> {
    match purge.what {
        Kept::History if !purge.dry_run && purge.not_after.is_none() => history(view, purge),
        _ => Err(StoreError::unsupported().into()),
    }
}

fn history(view: &View<'_>, purge: &Purge) -> Result<Purged> {
    let before = schema::since(view.standing.now, purge.older_than);
    let gone = settle::purge(view.tx, view.tables, before, purge.limit as usize)? as u64;
    if gone > 0 {
        let actor = purge.actor.as_deref().unwrap_or("-");
        let detail = format!("older than {}s", purge.older_than.as_secs());
        audit(view, actor, "purge", &detail, gone, 0)?;
    }
    Ok(Purged {
        rows: gone,
        exact: true,
        more: gone >= u64::from(purge.limit),
    })
}
