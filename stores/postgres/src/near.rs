//! The short way of a read: when all floors are near the end, one look at the few rows above the lowest of them.
//!
//! Range by range a read costs as much when there is one new row as when there are a hundred, and a relay that keeps
//! up reads all the time. Whatever is not simple is left to the long way, so that there is one place that knows it
//! all.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::decode;
use crate::error::Result;
use crate::ident::Tables;
use crate::session::Session;

/// How far behind the last place given all floors may lie, and one more than the rows that a look may find. A relay
/// that keeps up has fewer above its floors; one that does not reads range by range, because the rows of one must not
/// stand in the way of another.
const NEAR: i64 = 1_000;

const NAME: &str = "read near";

/// The statement, and whether the last reads found that it may do.
#[derive(Debug)]
pub(crate) struct Near {
    sql: String,
    /// Parked rows move: every short look would be in vain.
    parked: AtomicBool,
}

impl Near {
    /// Without a duplicate window the history is not looked at, not even for planning.
    pub(crate) fn new(tables: &Tables, dedup: bool) -> Self {
        let known = match dedup {
            true => format!("EXISTS (SELECT 1 {})", decode::sent("o", "$7")),
            false => "$7::double precision IS NOT NULL".to_owned(),
        };
        let template = decode::answers(include_str!("sql/read_near.sql"))
            .replace("{near}", &NEAR.to_string())
            .replace("{known o}", &known);
        Self {
            sql: tables.sql(&template),
            parked: AtomicBool::new(true),
        }
    }

    #[cfg(test)]
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// Whether all floors are near the last place that was given.
    pub(crate) fn will_do(&self, floors: &[i64], given: i64) -> bool {
        let lowest = floors.iter().min().copied().unwrap_or_default();
        !self.parked.load(Ordering::Relaxed) && (0..NEAR).contains(&(given - lowest))
    }

    /// Takes what a read range by range saw of parked rows that move.
    pub(crate) fn saw_parked(&self, any: bool) {
        self.parked.store(any, Ordering::Relaxed);
    }

    /// The statement, so that asking is one message.
    pub(crate) async fn prepare(&self, session: &Session) -> Result<()> {
        session.prepare(NAME, &self.sql).await.map(drop)
    }

    /// The rows of the answer; none when it takes the long way.
    pub(crate) async fn ask(
        &self,
        session: &Session,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Vec<Row>>> {
        let rows = session.ask(NAME, &self.sql, parameters).await?;
        Ok((!decode::takes_the_long_way(&rows)?).then_some(rows))
    }
}
