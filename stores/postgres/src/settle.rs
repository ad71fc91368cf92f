//! The one write that says what became of a batch: one statement, fenced, committed by itself.

use std::collections::HashSet;

use postrider_core::{Settle, Settled, Shard, StoreErrorKind, crash};
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::lease;
use crate::session::Session;
use crate::write::{self, Written};

/// The statement. Without a history nothing of it is mentioned.
pub(crate) fn sql(tables: &Tables, history: bool) -> String {
    let history = if history {
        include_str!("sql/history.sql")
    } else {
        ""
    };
    let template = include_str!("sql/settle.sql")
        .replace("{history}", history)
        .replace("{entry}", write::ENTRY)
        .replace("{park}", write::PARK);
    tables.sql(&template)
}

/// Writes what became of a batch; answers one result an entry, queued entries first.
pub(crate) async fn settle(
    session: &Session,
    tables: &Tables,
    sql: &str,
    settle: &Settle,
) -> Result<Vec<Settled>> {
    if settle.queued.is_empty() && settle.parked.is_empty() {
        return Ok(Vec::new());
    }
    let written = Written::of(settle);
    crash::point("settle.inside");
    let mut answer = session.ask("settle", sql, &written.parameters()).await;
    if answer
        .as_ref()
        .is_err_and(|error| error.is(&SqlState::CHECK_VIOLATION))
    {
        // Nobody was there for a week to make the partition of today.
        session
            .ask("maintain", &tables.sql("SELECT {outbox_maintain}()"), &[])
            .await?;
        answer = session.ask("settle", sql, &written.parameters()).await;
    }
    let rows = answer?;
    let answer = rows.first().ok_or_else(|| {
        Error::new(
            StoreErrorKind::Other,
            "settling a batch: the database said nothing of what it did",
        )
    })?;
    let admitted: HashSet<i16> = answer.try_get::<_, Vec<i16>>(0)?.into_iter().collect();
    let queued = flags(answer.try_get(1)?, settle.queued.len());
    let parked = flags(answer.try_get(2)?, settle.parked.len());
    let verdict = |shard: Shard, done: bool| match admitted.contains(&lease::shard(shard)) {
        false => Settled::Fenced,
        true if done => Settled::Done,
        true => Settled::Gone,
    };
    let of_queued = settle
        .queued
        .iter()
        .zip(queued)
        .map(|(entry, done)| verdict(entry.shard, done));
    let of_parked = settle
        .parked
        .iter()
        .zip(parked)
        .map(|(entry, done)| verdict(entry.shard, done));
    Ok(of_queued.chain(of_parked).collect())
}

/// Which of so many entries are among those that were written, which are counted from one.
fn flags(written: Vec<i64>, entries: usize) -> Vec<bool> {
    let mut flags = vec![false; entries];
    for n in written {
        if let Some(flag) = usize::try_from(n - 1).ok().and_then(|index| flags.get_mut(index)) {
            *flag = true;
        }
    }
    flags
}
