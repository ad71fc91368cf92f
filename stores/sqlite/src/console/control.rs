//! Pauses and limits. Relays hear of them with their next heartbeat; a paused key is seen by the very next read.

use postrider_core::{Control, DestinationName, InForce, Limits, OrderKey, Scope, Timestamp};
use rusqlite::params;

use super::View;
use super::audit::{Entry, write_down};
use crate::error::Result;
use crate::lease;
use crate::row::{destination_text, lossy, lossy_or_none};

/// Takes in what a person decided.
pub(super) fn decide(view: &View<'_>, control: &Control, actor: &str) -> Result<()> {
    match control {
        Control::Pause(Scope::Key(key)) => pause_key(view, key, actor)?,
        Control::Resume(Scope::Key(key)) => resume_key(view, key)?,
        Control::Pause(scope) => pause(view, scope, true, actor)?,
        Control::Resume(scope) => pause(view, scope, false, actor)?,
        Control::Limit(name, limits) => limit(view, name, *limits, actor)?,
        Control::Unlimit(name) => unlimit(view, name)?,
    }
    // What says nothing is not in force.
    let sql = view
        .sql("DELETE FROM {outbox_control} WHERE paused = 0 AND max_in_flight IS NULL AND max_rate IS NULL");
    view.tx.execute(&sql, [])?;
    write_down(view, &Entry::new(actor, control.as_str(), &control.detail()))
}

/// Who pauses it once more, or resumes what goes on, decides nothing.
fn pause(view: &View<'_>, scope: &Scope, paused: bool, actor: &str) -> Result<()> {
    let name = match scope {
        Scope::Destination(name) => Some(name),
        Scope::Outbox | Scope::Key(_) => None,
    };
    let sql = view.sql(
        "INSERT INTO {outbox_control} (destination, paused, actor, changed_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (destination) DO UPDATE SET paused = ?2, actor = ?3, changed_at = ?4 WHERE paused <> ?2",
    );
    let values = params![destination_text(name), paused, actor, view.standing.now];
    view.tx.execute(&sql, values)?;
    Ok(())
}

/// What is not given stays: somebody else may have changed it a moment ago.
fn limit(view: &View<'_>, name: &DestinationName, limits: Limits, actor: &str) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_control} (destination, max_in_flight, max_rate, limited_by, limited_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (destination) DO UPDATE SET max_in_flight = coalesce(?2, max_in_flight),
                max_rate = coalesce(?3, max_rate), limited_by = ?4, limited_at = ?5
         WHERE max_in_flight IS NOT coalesce(?2, max_in_flight) OR max_rate IS NOT coalesce(?3, max_rate)",
    );
    view.tx.execute(
        &sql,
        params![
            name.as_str(),
            limits.max_in_flight,
            limits.max_rate,
            actor,
            view.standing.now
        ],
    )?;
    Ok(())
}

fn unlimit(view: &View<'_>, name: &DestinationName) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_control} SET max_in_flight = NULL, max_rate = NULL, limited_by = NULL, limited_at = NULL
         WHERE destination = ?1",
    );
    view.tx.execute(&sql, [name.as_str()])?;
    Ok(())
}

/// A paused key is a dead row without a destination before all others, one a lane: reads need no other rule to hold the
/// key everywhere. It is no event, so its place is below zero, where people do not look. What it holds is said in the
/// column of the key, and who paused it in that of the error. Who pauses it once more changes nothing.
fn pause_key(view: &View<'_>, key: &str, actor: &str) -> Result<()> {
    let sql = view.sql("SELECT 1 FROM {outbox_parked} WHERE seq < 0 AND event_key = ?1");
    if view.tx.prepare_cached(&sql)?.exists([key])? {
        return Ok(());
    }
    let sql = view.sql(
        "INSERT INTO {outbox_parked} (seq, destination, lane, order_key, event_type, aggregate_type, aggregate_id,
                event_key, version, dead, next_attempt_at, attempts, failures, maybe_sent, error_kind, error_text,
                enqueued_at, updated_at)
         VALUES ((SELECT min(0, coalesce(min(seq), 0)) - 1 FROM {outbox_parked}), '', ?1, ?2, '', '', '', ?3, 1, 1, ?5,
                 0, 0, 0, 'key_paused', ?4, ?5, ?5)",
    );
    let mut insert = view.tx.prepare_cached(&sql)?;
    for order_key in OrderKey::seen_as(key) {
        for lane in [-1, 0, 1] {
            insert.execute(params![lane, order_key.as_str(), key, actor, view.standing.now])?;
        }
    }
    Ok(())
}

fn resume_key(view: &View<'_>, key: &str) -> Result<()> {
    let sql = view.sql(
        "DELETE FROM {outbox_parked}
         WHERE seq < 0 AND coalesce(event_key, aggregate_type || '/' || aggregate_id) = ?1",
    );
    view.tx.execute(&sql, [key])?;
    Ok(())
}

/// What is in force now.
pub(super) fn in_force(view: &View<'_>) -> Result<Vec<InForce>> {
    let mut found = Vec::new();
    let sql = view.sql(
        "SELECT destination, paused, max_in_flight, max_rate, iif(paused, actor, limited_by),
                iif(paused, changed_at, limited_at), limited_by, limited_at FROM {outbox_control}
         WHERE paused <> 0 OR max_in_flight IS NOT NULL OR max_rate IS NOT NULL ORDER BY destination",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name = lossy(row.get_ref(0)?);
        let limited_by = lossy_or_none(row.get_ref(6)?);
        found.push(InForce {
            scope: match name.as_str() {
                "" => Scope::Outbox,
                name => Scope::Destination(name.into()),
            },
            paused: row.get(1)?,
            limits: lease::limits(row, 2)?,
            actor: lossy(row.get_ref(4)?),
            since: Timestamp(row.get::<_, Option<i64>>(5)?.unwrap_or(0)),
            limited: Option::zip(limited_by, row.get::<_, Option<i64>>(7)?.map(Timestamp)),
        });
    }
    found.extend(paused_keys(view)?);
    Ok(found)
}

fn paused_keys(view: &View<'_>) -> Result<Vec<InForce>> {
    let sql = view.sql(
        "SELECT event_key, max(error_text), max(enqueued_at) FROM {outbox_parked} INDEXED BY {outbox_parked_place}
         WHERE seq < 0 GROUP BY event_key ORDER BY event_key",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let keys = statement.query_map([], |row| {
        Ok(InForce {
            scope: Scope::Key(lossy(row.get_ref(0)?)),
            paused: true,
            limits: Limits::default(),
            actor: lossy(row.get_ref(1)?),
            since: Timestamp(row.get(2)?),
            limited: None,
        })
    })?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}
