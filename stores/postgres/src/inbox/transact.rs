//! A transaction of the caller's on the connections of the effects: begin, run, commit, and again where that may help.

use std::error::Error;

use postrider_core::{BoxFuture, StoreError, StoreErrorKind, Turns};
use tokio_postgres::{Client, Transaction};

use super::{PgEffects, once};
use crate::error::store_error;

impl PgEffects {
    /// Runs work in a transaction of its own, without a record in the inbox: for what a service does beside its
    /// listener, on the same connections and with the same care. It is committed when the work succeeds and undone when
    /// it fails, panics or is dropped. What the work needs is handed to it by reference, for it may be run again.
    ///
    /// After a serialisation failure, a deadlock or a lock that could not be had it is run again, so it must leave
    /// nothing behind but what it does in its transaction, and it must not end that. A commit whose answer was lost is
    /// an error, and whether it took effect is not known then.
    ///
    /// ```no_run
    /// use postrider_postgres::{Inbox, PgEffects, PgOptions};
    ///
    /// # #[derive(Debug)]
    /// # struct Failed(Box<dyn std::error::Error + Send + Sync>);
    /// # impl std::fmt::Display for Failed {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{}", self.0) }
    /// # }
    /// # impl std::error::Error for Failed {
    /// #     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> { Some(&*self.0) }
    /// # }
    /// # impl From<postrider_core::StoreError> for Failed {
    /// #     fn from(error: postrider_core::StoreError) -> Self { Failed(error.into()) }
    /// # }
    /// # impl From<tokio_postgres::Error> for Failed {
    /// #     fn from(error: tokio_postgres::Error) -> Self { Failed(error.into()) }
    /// # }
    /// # async fn f() -> Result<(), Failed> {
    /// let effects = PgEffects::new("postgres://shop@127.0.0.1/shop", PgOptions::default(), Inbox::default(), 8)?;
    /// // `Failed` is the service's own error; the one of the driver is found behind it.
    /// let closed = effects
    ///     .transaction(&"Main Street", |tx, street| {
    ///         Box::pin(async move {
    ///             Ok::<_, Failed>(tx.execute("UPDATE shops SET open = false WHERE street = $1", &[street]).await?)
    ///         })
    ///     })
    ///     .await?;
    /// # let _ = closed;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transaction<C, T, E>(
        &self,
        given: &C,
        mut work: impl for<'a> FnMut(&'a Transaction<'a>, &'a C) -> BoxFuture<'a, Result<T, E>> + Send,
    ) -> Result<T, E>
    where
        C: Sync,
        T: Send,
        E: Error + From<StoreError> + Send + 'static,
    {
        let mut turns = Turns::default();
        loop {
            let mut lent = self.pool().lend().await?;
            let ended = transact(&mut lent.session.client, given, &mut work).await;
            if ended.keeps {
                lent.keep(self.pool());
            } else {
                drop(lent);
            }
            match ended.result {
                Err(error) if once::is_passing(&error) && once::may_take(&mut turns).await => {}
                result => return result,
            }
        }
    }
}

/// How a transaction ended.
struct Ended<T, E> {
    result: Result<T, E>,
    /// Whether the connection is as good as before.
    keeps: bool,
}

impl<T, E: From<StoreError>> Ended<T, E> {
    fn failed(error: StoreError) -> Self {
        Self {
            keeps: error.kind() == StoreErrorKind::Busy,
            result: Err(error.into()),
        }
    }
}

async fn transact<C, T, E>(
    client: &mut Client,
    given: &C,
    work: &mut (impl for<'a> FnMut(&'a Transaction<'a>, &'a C) -> BoxFuture<'a, Result<T, E>> + Send),
) -> Ended<T, E>
where
    C: Sync,
    T: Send,
    E: Error + From<StoreError> + Send + 'static,
{
    let tx = match client.transaction().await {
        Ok(tx) => tx,
        Err(error) => return Ended::failed(store_error(error, "beginning a transaction")),
    };
    let done = match work(&tx, given).await {
        Ok(done) => done,
        Err(error) => {
            let sound = !once::trouble(&error).is_some_and(may_be_the_server);
            return Ended {
                keeps: tx.rollback().await.is_ok() && sound,
                result: Err(error),
            };
        }
    };
    match once::commit(tx).await {
        Ok(()) => Ended {
            result: Ok(done),
            keeps: true,
        },
        Err(error) => Ended::failed(match once::undone(error.code()) {
            Some(undone) => undone.with_source(error),
            None => store_error(error, "committing a transaction"),
        }),
    }
}

/// Where the server may be in trouble, whoever comes next connects anew.
fn may_be_the_server(kind: StoreErrorKind) -> bool {
    use StoreErrorKind::{Corrupt, Full, ReadOnly, Unreachable};
    matches!(kind, Unreachable | Full | ReadOnly | Corrupt)
}
