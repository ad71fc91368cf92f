//! Pauses and limits.
//!
//! A paused key is held by parked rows that are no events: one a lane, dead, without a destination and below every
//! place. To a read they stand before everything of the key, so a pause needs nothing that reads do not do anyway.

use postrider_core::{Control, DestinationName, InForce, Lane, Limits, OrderKey, Scope};
use tokio_postgres::Row;

use super::{View, audit};
use crate::clock::Micros;
use crate::error::Result;
use crate::row::{destination, storable};

/// The word that such a row has for its error.
const PAUSED: &str = "key_paused";

/// Takes in what a person decided. Relays hear of a pause of a destination with their next heartbeat, of a key with
/// their next read.
pub(super) async fn decide(view: &View, control: &Control, actor: &str) -> Result<()> {
    match control {
        Control::Pause(Scope::Key(key)) => hold(view, key, actor).await?,
        Control::Resume(Scope::Key(key)) => {
            release(view, key).await?;
            view.ring().await?;
        }
        Control::Pause(scope) => pause(view, scope, true, actor).await?,
        Control::Resume(scope) => pause(view, scope, false, actor).await?,
        Control::Limit(name, limits) => limit(view, name, limits, actor).await?,
        Control::Unlimit(name) => unlimit(view, name).await?,
    }
    let deed = audit::Deed {
        actor,
        action: control.as_str(),
        detail: &control.detail(),
        touched: 1,
        ..audit::Deed::default()
    };
    audit::note(view, deed).await
}

/// What is in force, the outbox first, then destinations, then keys.
pub(super) async fn controls(view: &View) -> Result<Vec<InForce>> {
    let sql = view.sql(
        "SELECT destination, paused, max_in_flight, max_rate,
             coalesce(CASE WHEN paused THEN actor ELSE limited_by END, '-'),
             coalesce(CASE WHEN paused THEN changed_at ELSE limited_at END, 'epoch'), limited_by, limited_at
         FROM {outbox_control} WHERE paused OR max_in_flight IS NOT NULL OR max_rate IS NOT NULL ORDER BY destination",
    );
    let rows = view.client().query(&sql, &[]).await?;
    let mut all = rows.iter().map(of_destination).collect::<Result<Vec<_>>>()?;
    let sql = view.sql(
        "SELECT event_key, min(error_text), min(updated_at) FROM {outbox_parked} WHERE seq < 0
         GROUP BY event_key ORDER BY event_key",
    );
    for row in view.client().query(&sql, &[]).await? {
        all.push(InForce {
            scope: Scope::Key(row.try_get(0)?),
            paused: true,
            limits: Limits::default(),
            actor: row.try_get(1)?,
            since: row.try_get::<_, Micros>(2)?.into(),
            limited: None,
        });
    }
    Ok(all)
}

fn of_destination(row: &Row) -> Result<InForce> {
    Ok(InForce {
        scope: destination(row.try_get(0)?).map_or(Scope::Outbox, Scope::Destination),
        paused: row.try_get(1)?,
        limits: Limits {
            max_in_flight: Limits::stored(row.try_get(2)?),
            max_rate: Limits::stored(row.try_get(3)?),
        },
        actor: row.try_get(4)?,
        since: row.try_get::<_, Micros>(5)?.into(),
        limited: Option::zip(
            row.try_get(6)?,
            row.try_get::<_, Option<Micros>>(7)?.map(Into::into),
        ),
    })
}

/// Who pauses it once more, or resumes what goes on, decides nothing.
async fn pause(view: &View, scope: &Scope, paused: bool, actor: &str) -> Result<()> {
    let name = match scope {
        Scope::Destination(name) => storable(name.as_str()),
        Scope::Outbox | Scope::Key(_) => "".into(),
    };
    let sql = view.sql(
        "INSERT INTO {outbox_control} AS c (destination, paused, actor, changed_at)
         VALUES ($1, $2, $3, clock_timestamp())
         ON CONFLICT (destination) DO UPDATE
         SET paused = excluded.paused, actor = excluded.actor, changed_at = excluded.changed_at
         WHERE c.paused <> excluded.paused",
    );
    view.client()
        .execute(&sql, &[&name, &paused, &storable(actor)])
        .await?;
    Ok(())
}

/// What is not given stays: somebody else may have changed it a moment ago.
async fn limit(view: &View, name: &DestinationName, limits: &Limits, actor: &str) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_control} AS c (destination, max_in_flight, max_rate, limited_by, limited_at)
         VALUES ($1, $2, $3, $4, clock_timestamp())
         ON CONFLICT (destination) DO UPDATE SET
             max_in_flight = coalesce(excluded.max_in_flight, c.max_in_flight),
             max_rate = coalesce(excluded.max_rate, c.max_rate),
             limited_by = excluded.limited_by, limited_at = excluded.limited_at
         WHERE c.max_in_flight IS DISTINCT FROM coalesce(excluded.max_in_flight, c.max_in_flight)
            OR c.max_rate IS DISTINCT FROM coalesce(excluded.max_rate, c.max_rate)",
    );
    let (in_flight, rate) = (
        limits.max_in_flight.map(i64::from),
        limits.max_rate.map(i64::from),
    );
    view.client()
        .execute(
            &sql,
            &[&storable(name.as_str()), &in_flight, &rate, &storable(actor)],
        )
        .await?;
    Ok(())
}

async fn unlimit(view: &View, name: &DestinationName) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_control} SET max_in_flight = NULL, max_rate = NULL, limited_by = NULL, limited_at = NULL
         WHERE destination = $1",
    );
    view.client().execute(&sql, &[&storable(name.as_str())]).await?;
    Ok(())
}

/// Every key that people see as this text is held, in every lane. Who pauses it once more changes nothing.
async fn hold(view: &View, key: &str, actor: &str) -> Result<()> {
    let sql = view.sql("SELECT 1 FROM {outbox_parked} WHERE seq < 0 AND event_key = $1 LIMIT 1");
    if view.client().query_opt(&sql, &[&storable(key)]).await?.is_some() {
        return Ok(());
    }
    let mut lines = Vec::new();
    for order_key in OrderKey::seen_as(&storable(key)) {
        for lane in Lane::ALL {
            lines.push((order_key.as_str().to_owned(), i16::from(lane.sign())));
        }
    }
    let (keys, lanes): (Vec<String>, Vec<i16>) = lines.into_iter().unzip();
    let sql = view.sql(
        "INSERT INTO {outbox_parked} (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, event_key, version, dead, next_attempt_at, attempts, failures, maybe_sent,
             error_kind, error_text, updated_at)
         SELECT nextval('{outbox_marker}'::regclass), '', 0, k.lane, k.order_key, md5(k.order_key)::uuid, $4, '', '',
             '', $3, 1, true, clock_timestamp(), 0, 0, false, $4, $5, clock_timestamp()
         FROM unnest($1::text[], $2::smallint[]) k(order_key, lane)",
    );
    view.client()
        .execute(&sql, &[&keys, &lanes, &storable(key), &PAUSED, &storable(actor)])
        .await?;
    Ok(())
}

async fn release(view: &View, key: &str) -> Result<()> {
    let sql = view.sql("DELETE FROM {outbox_parked} WHERE seq < 0 AND event_key = $1");
    view.client().execute(&sql, &[&storable(key)]).await?;
    Ok(())
}
