//! Duties: what one relay does for all, once a slot, by the database's clock.

use postrider_core::{Claim, Duty};
use rusqlite::{OptionalExtension, params};

use crate::clock;
use crate::console::View;
use crate::error::Result;

/// A row of `outbox_duty`.
struct Known {
    slot: i64,
    owner: Option<String>,
    expires_at: i64,
    is_finished: bool,
}

/// Claims the slot, or renews the claim. The write lock makes two claims take turns.
pub(super) fn claim(view: &View<'_>, duty: &Duty) -> Result<Claim> {
    let now = view.standing.now;
    if duty.slot.0 > now {
        return Ok(Claim::Early(clock::until(now, duty.slot.0)));
    }
    let sql = view
        .sql("SELECT slot, owner, expires_at, finished_at IS NOT NULL FROM {outbox_duty} WHERE name = ?1");
    let known = view.tx.prepare_cached(&sql)?.query_row([&duty.name], |row| {
        Ok(Known {
            slot: row.get(0)?,
            owner: row.get(1)?,
            expires_at: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
            is_finished: row.get(3)?,
        })
    });
    if let Some(known) = known.optional()? {
        let is_past = known.slot > duty.slot.0 || (known.slot == duty.slot.0 && known.is_finished);
        if is_past {
            return Ok(Claim::Done);
        }
        let is_others = known.owner.as_deref() != Some(&*duty.holder.0);
        if is_others && !known.is_finished && known.expires_at > now {
            return Ok(Claim::Held);
        }
    }
    let sql = view.sql(
        "INSERT INTO {outbox_duty} (name, slot, owner, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET slot = ?2, owner = ?3, expires_at = ?4, finished_at = NULL",
    );
    let expires = now.saturating_add(clock::micros(duty.term));
    let values = params![duty.name, duty.slot.0, &*duty.holder.0, expires];
    view.tx.prepare_cached(&sql)?.execute(values)?;
    Ok(Claim::Yours)
}

/// The slot is done. Somebody else's claim stays: it ran out, and he does it again.
pub(super) fn finish(view: &View<'_>, duty: &Duty, note: &str) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_duty} SET finished_at = ?4, note = ?5 WHERE name = ?1 AND slot = ?2 AND owner = ?3",
    );
    let values = params![duty.name, duty.slot.0, &*duty.holder.0, view.standing.now, note];
    view.tx.execute(&sql, values)?;
    Ok(())
}

pub(super) fn forget(view: &View<'_>, prefix: &str, but: &[String]) -> Result<u64> {
    let sql = view.sql("SELECT name FROM {outbox_duty} WHERE substr(name, 1, length(?1)) = ?1");
    let mut statement = view.tx.prepare_cached(&sql)?;
    let names = statement.query_map([prefix], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<rusqlite::Result<_>>()?;
    let remove = view.sql("DELETE FROM {outbox_duty} WHERE name = ?1");
    let mut remove = view.tx.prepare_cached(&remove)?;
    let mut forgotten = 0;
    for name in names.iter().filter(|name| !but.contains(name)) {
        forgotten += remove.execute([name])? as u64;
    }
    Ok(forgotten)
}
