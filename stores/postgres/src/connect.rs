//! A new connection: opened within a limit, checked, and set up so that the promises can be kept on it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use postrider_core::StoreErrorKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls};

use crate::config::PgOptions;
use crate::error::{Error, Result};
use crate::horizon;
use crate::identity::Identity;
use crate::session::Session;
use crate::tls::Address;

/// What a connection is for; it decides how the planner may be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and settles: statements whose plans are fixed, whatever the statistics say.
    Relay,
    /// What operators ask: any statement.
    Operator,
    /// The effects of a consumer: statements of its own, under the settings that it has chosen.
    Consumer,
}

/// Where a connection leads, and how.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) options: PgOptions,
    pub(crate) role: Role,
    /// A pooler stands between, which gives every transaction to another session.
    pub(crate) pooled: bool,
    pub(crate) identity: Arc<Identity>,
}

impl Target {
    /// Opens a session.
    pub(crate) async fn open(&self) -> Result<Session> {
        let attempt = async {
            let address = self.address.now(&self.options).await?;
            let mut session = match &address.tls {
                Some(tls) => {
                    let (client, connection) = address.config.connect(tls.clone()).await?;
                    drive(client, connection)
                }
                None => {
                    let (client, connection) = address.config.connect(NoTls).await?;
                    drive(client, connection)
                }
            };
            session.tls.clone_from(&address.tls);
            check(&session).await?;
            session.server = self.identity.look(&session).await;
            session.tells_log = horizon::tells_log(&session).await;
            let settings = settings(self.role, self.options.statement_timeout);
            match self.pooled {
                true => session.local = Some(settings.replace("SET ", "SET LOCAL ")),
                false => session.client.batch_execute(&settings).await?,
            }
            Ok(session)
        };
        // The driver's own limit is for the handshake of TCP only; a server that accepts and then says nothing, or
        // says no more after the handshake, needs this one.
        timeout(self.options.connect_timeout * 2, attempt)
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(
                    StoreErrorKind::Unreachable,
                    "connecting to the database: it accepts connections and does not answer",
                ))
            })
    }
}

/// Polls the connection until it ends, and counts what rings.
fn drive<S, T>(client: Client, mut connection: Connection<S, T>) -> Session
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (ring, rings) = watch::channel(0);
    let task = tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(_) = message {
                ring.send_modify(|count| *count += 1);
            }
        }
    });
    Session::new(client, rings, task.abort_handle())
}

/// Refuses what the promises cannot be kept on. Asked on every new connection: after a failover the same address may
/// lead to a standby.
async fn check(session: &Session) -> Result<()> {
    let sql = "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_encoding'),
                      pg_catalog.current_setting('server_version_num')::integer";
    // Without a name, which behind a pooler would be looked for on another session.
    let row = session.client.query_typed_one(sql, &[]).await?;
    if row.try_get::<_, bool>(0)? {
        let text = "the database is a standby: an outbox is emptied and effects happen on the primary, \
            because what was done must be written down";
        return Err(Error::new(StoreErrorKind::ReadOnly, text));
    }
    let encoding: &str = row.try_get(1)?;
    if encoding != "UTF8" {
        let text = format!(
            "the database is encoded in {encoding}; UTF8 is needed, or texts would be changed on the way"
        );
        return Err(Error::new(StoreErrorKind::Other, text));
    }
    if row.try_get::<_, i32>(2)? < 140_000 {
        return Err(Error::new(
            StoreErrorKind::Other,
            "PostgreSQL 14 or newer is needed",
        ));
    }
    Ok(())
}

/// A commit that a crash of the server can undo is worth nothing to a consumer whose message is acknowledged then.
const DURABLE: &str = "SELECT pg_catalog.set_config('synchronous_commit', 'on', false)
    WHERE pg_catalog.current_setting('synchronous_commit') = 'off'";

/// The settings that the promises rest on. The relay's statements have one right plan each, which statistics of an
/// empty or a fresh table would turn away from.
fn settings(role: Role, limit: Duration) -> String {
    if role == Role::Consumer {
        return DURABLE.to_owned();
    }
    let limit = limit.as_millis().max(1);
    let mut sql = format!(
        "SET search_path = pg_catalog; SET statement_timeout = {limit};
         SET idle_in_transaction_session_timeout = {limit};
         SET lock_timeout = 0; SET default_transaction_isolation = 'read committed';
         SET default_transaction_read_only = off; SET jit = off;
         SET synchronous_commit = on; SET timezone = 'UTC';"
    );
    if role == Role::Relay {
        sql.push_str(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
             SET enable_mergejoin = off;
             SET plan_cache_mode = force_generic_plan; SET max_parallel_workers_per_gather = 0;",
        );
    }
    sql
}
