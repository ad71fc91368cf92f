//! Duties: what one relay does for all, once a slot, by the database's clock.

use postrider_core::{Claim, Duty, KnownDuty, PastDuty, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::clock;
use crate::console::View;
use crate::error::Result;

/// Claims the slot, or renews the claim. The write lock makes two claims take turns.
pub(super) fn claim(view: &View<'_>, duty: &Duty) -> Result<Claim> {
    let now = view.standing.now;
    let sql = view
        .sql("SELECT slot, owner, expires_at, finished_at IS NOT NULL FROM {outbox_duty} WHERE name = ?1");
    let known = view.tx.prepare_cached(&sql)?.query_row([&duty.name], |row| {
        let expires: Option<i64> = row.get(2)?;
        let times = (Timestamp(row.get(0)?), Timestamp(expires.unwrap_or(0)));
        Ok((times, row.get::<_, Option<String>>(1)?, row.get(3)?))
    });
    let known = known.optional()?;
    let known = known
        .as_ref()
        .map(|((slot, expires_at), owner, is_finished)| KnownDuty {
            slot: *slot,
            owner: owner.as_deref(),
            expires_at: *expires_at,
            is_finished: *is_finished,
        });
    let claim = duty.decide(known, Timestamp(now));
    if claim != Claim::Yours {
        return Ok(claim);
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

/// When a duty was done, or its last claim ended.
const ENDED: &str = "coalesce(finished_at, expires_at, 0)";

pub(super) fn past(view: &View<'_>, prefix: &str) -> Result<Vec<PastDuty>> {
    let sql = view.sql(&format!(
        "SELECT name, {ENDED} FROM {{outbox_duty}} WHERE substr(name, 1, length(?1)) = ?1 AND {ENDED} <= ?2"
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let past = statement.query_map(params![prefix, view.standing.now], |row| {
        Ok(PastDuty {
            name: row.get(0)?,
            at: Timestamp(row.get(1)?),
        })
    })?;
    Ok(past.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn forget(view: &View<'_>, seen: &[PastDuty]) -> Result<u64> {
    let sql = view.sql(&format!(
        "DELETE FROM {{outbox_duty}} WHERE name = ?1 AND {ENDED} = ?2"
    ));
    let mut remove = view.tx.prepare_cached(&sql)?;
    let mut forgotten = 0;
    for duty in seen {
        forgotten += remove.execute(params![duty.name, duty.at.0])? as u64;
    }
    Ok(forgotten)
}
