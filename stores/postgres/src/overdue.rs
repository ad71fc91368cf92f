//! Naming a writer that stays open. Its own events are all it holds back; but no floor passes it, so what was settled
//! since is looked at again by every read, and only a person can end it (fault A6).

use std::time::Duration;

use tokio_postgres::Row;

use crate::error::Result;
use crate::ident::Tables;
use crate::session::Session;

/// The longest of them. Everybody may see these columns of other sessions; a prepared transaction has none.
const WHO: &str = "SELECT l.pid, a.application_name, a.usename::text
     FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'relation' AND l.relation = '{outbox}'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
       AND l.virtualtransaction = ANY($1::text[])
     ORDER BY a.xact_start LIMIT 1";

/// Transactions that every floor has been waiting for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) writers: Vec<String>,
    pub(crate) waited: Duration,
}

/// Says in the log who it is. One that has ended meanwhile is no matter any more.
pub(crate) async fn warn(session: &Session, tables: &Tables, overdue: &Overdue) -> Result<()> {
    let rows = session
        .ask("overdue", &tables.sql(WHO), &[&overdue.writers])
        .await?;
    if let Some(row) = rows.first() {
        say(row, overdue)?;
    }
    Ok(())
}

fn say(row: &Row, overdue: &Overdue) -> Result<()> {
    let pid: Option<i32> = row.try_get(0)?;
    let application: Option<String> = row.try_get(1)?;
    let user: Option<String> = row.try_get(2)?;
    let open = format!("{}s", overdue.waited.as_secs());
    match pid {
        Some(pid) => tracing::warn!(
            pid,
            application = application.as_deref().map(tracing::field::debug),
            user = user.as_deref().map(tracing::field::debug),
            open,
            "a transaction that wrote to the outbox stays open: its events wait for it, \
             and reads grow slower until it ends; if it was forgotten, end it with pg_terminate_backend"
        ),
        None => tracing::warn!(
            open,
            "a prepared transaction that wrote to the outbox stays open: its events wait for it, \
             and reads grow slower until it ends; pg_prepared_xacts lists it"
        ),
    }
    Ok(())
}
