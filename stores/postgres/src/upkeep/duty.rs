//! What one relay does for all, once a slot. The database's clock decides whether a slot has come.

use postrider_core::{Claim, Duty, PastDuty};
use tokio_postgres::Row;

use crate::clock::{self, Micros};
use crate::console::View;
use crate::error::Result;
use crate::row::storable;

/// Claims a duty, or renews the claim.
pub(super) async fn claim(view: &View, duty: &Duty) -> Result<Claim> {
    let early = clock::until(view.now, duty.slot.0);
    if !early.is_zero() {
        return Ok(Claim::Early(early));
    }
    let sql = view.sql(
        "INSERT INTO {outbox_duty} AS d (name, slot, owner, expires_at)
         VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
         ON CONFLICT (name) DO UPDATE
         SET slot = excluded.slot, owner = excluded.owner, expires_at = excluded.expires_at, finished_at = NULL,
             note = NULL
         WHERE (d.slot < excluded.slot OR (d.slot = excluded.slot AND d.finished_at IS NULL))
           AND (d.finished_at IS NOT NULL OR d.owner = excluded.owner OR d.expires_at <= clock_timestamp())",
    );
    let (name, slot) = (storable(&duty.name), Micros::from(duty.slot));
    let holder = storable(&duty.holder.0);
    let claimed = view
        .client()
        .execute(&sql, &[&name, &slot, &holder, &clock::seconds(duty.term)])
        .await?;
    if claimed > 0 {
        return Ok(Claim::Yours);
    }
    let sql = view.sql(
        "SELECT EXISTS (SELECT 1 FROM {outbox_duty} WHERE name = $1 AND (slot > $2 OR finished_at IS NOT NULL))",
    );
    let done: bool = view.client().query_one(&sql, &[&name, &slot]).await?.try_get(0)?;
    Ok(if done { Claim::Done } else { Claim::Held })
}

/// The slot is done. One who lost the claim meanwhile says nothing of it.
pub(super) async fn finish(view: &View, duty: &Duty, note: &str) -> Result<()> {
    let sql = view.sql(
        "UPDATE {outbox_duty} SET finished_at = clock_timestamp(), note = $4
         WHERE name = $1 AND slot = $2 AND owner = $3",
    );
    let (name, slot) = (storable(&duty.name), Micros::from(duty.slot));
    let holder = storable(&duty.holder.0);
    view.client()
        .execute(&sql, &[&name, &slot, &holder, &storable(note)])
        .await?;
    Ok(())
}

/// When a duty was done, or its last claim ended.
const ENDED: &str = "coalesce(finished_at, expires_at, 'epoch')";

/// Duties that nobody is at.
pub(super) async fn past(view: &View, prefix: &str) -> Result<Vec<PastDuty>> {
    let sql = view.sql(&format!(
        "SELECT name, {ENDED} FROM {{outbox_duty}} WHERE starts_with(name, $1) AND {ENDED} <= clock_timestamp()"
    ));
    let rows = view.client().query(&sql, &[&storable(prefix)]).await?;
    let past = |row: &Row| {
        Ok(PastDuty {
            name: row.try_get(0)?,
            at: row.try_get::<_, Micros>(1)?.into(),
        })
    };
    rows.iter().map(past).collect()
}

/// Forgets duties that are as they were seen; answers how many.
pub(super) async fn forget(view: &View, seen: &[PastDuty]) -> Result<u64> {
    let sql = view.sql(&format!(
        "DELETE FROM {{outbox_duty}} WHERE (name, {ENDED}) IN (SELECT x.* FROM unnest($1::text[], $2::timestamptz[]) x)"
    ));
    let seen = seen
        .iter()
        .map(|duty| (duty.name.as_str(), Micros::from(duty.at)));
    let (names, times): (Vec<&str>, Vec<Micros>) = seen.unzip();
    Ok(view.client().execute(&sql, &[&names, &times]).await?)
}
