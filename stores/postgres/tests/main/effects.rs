//! The suite that every inbox passes: with prepared statements, behind a pooler, and on a pool of `sqlx`.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Applied, ApplyError, BoxFuture, Effects, InboxConsole, Received, Records};
use postrider_postgres::{Inbox, PgEffects, PgOptions, handler};
use postrider_testkit::inbox::{Applies, COMMITS, EffectsHarness, ROLLS_BACK, Script, TRIPS, TestInbox};
use postrider_testkit::servers::{Postgres, TestDatabase};

use crate::support::connect;

#[derive(Clone, Copy)]
enum How {
    Prepared,
    Pooled,
    #[cfg(feature = "sqlx")]
    Sqlx,
}

impl EffectsHarness for How {
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestInbox>> {
        let how = *self;
        Box::pin(async move {
            let database = Postgres::shared().database();
            let client = connect(&database.url).await;
            Inbox::default()
                .migrate(&client)
                .await
                .expect("the table is made");
            let sql = "CREATE TABLE effects (n bigserial, id text)";
            client.batch_execute(sql).await.expect("a table of effects");
            Box::new(Fresh { database, how }) as Box<dyn TestInbox>
        })
    }
}

struct Fresh {
    database: TestDatabase,
    how: How,
}

impl TestInbox for Fresh {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Applies>> {
        Box::pin(async {
            let pooled = matches!(self.how, How::Pooled);
            let (url, options) = (&self.database.url, PgOptions::default().poll_only(pooled));
            match self.how {
                How::Prepared | How::Pooled => {
                    let effects = PgEffects::new(url, options, Inbox::default(), 2).expect("a url");
                    Arc::new(Prepared(effects)) as Arc<dyn Applies>
                }
                #[cfg(feature = "sqlx")]
                How::Sqlx => {
                    let options = sqlx::postgres::PgPoolOptions::new().max_connections(2);
                    let pool = options.connect_lazy(url).expect("a pool");
                    let effects = postrider_postgres::SqlxPgEffects::new(pool, Inbox::default());
                    Arc::new(Sqlx(effects)) as Arc<dyn Applies>
                }
            }
        })
    }

    fn effects(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let client = connect(&self.database.url).await;
            let rows = client.query("SELECT id FROM effects ORDER BY n", &[]).await;
            rows.expect("effects").iter().map(|row| row.get(0)).collect()
        })
    }

    fn console(&self) -> BoxFuture<'_, Arc<dyn InboxConsole>> {
        let options = PgOptions::default().poll_only(matches!(self.how, How::Pooled));
        let effects = PgEffects::new(&self.database.url, options, Inbox::default(), 2).expect("a url");
        Box::pin(async { Arc::new(effects) as Arc<dyn InboxConsole> })
    }

    fn count(&self, records: Records) -> BoxFuture<'_, u64> {
        Box::pin(async move {
            let client = connect(&self.database.url).await;
            Inbox::default().count(&client, &records).await.expect("a number")
        })
    }

    fn forget(&self, records: Records) -> BoxFuture<'_, u64> {
        Box::pin(async move {
            let client = connect(&self.database.url).await;
            let gone = Inbox::default().forget_all(&client, &records).await;
            gone.expect("forgotten")
        })
    }

    fn age(&self, id: &'static str, by: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let client = connect(&self.database.url).await;
            let sql = "UPDATE inbox SET processed_at = processed_at - make_interval(secs => $2) WHERE event_id = $1";
            let aged = client.execute(sql, &[&id, &by.as_secs_f64()]).await;
            assert!(aged.expect("aged") > 0);
        })
    }
}

struct Prepared(PgEffects);

impl Applies for Prepared {
    fn most(&self) -> usize {
        self.0.most()
    }

    fn apply(
        &self,
        consumer: &str,
        deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        let handler = handler(move |event, tx| {
            let script = Arc::clone(&script);
            Box::pin(async move {
                let id = event.event_id();
                tx.execute("INSERT INTO effects (id) VALUES ($1)", &[&id]).await?;
                match id {
                    TRIPS => assert!(tx.batch_execute("SELECT 1 / 0").await.is_err()),
                    ROLLS_BACK => tx.batch_execute("ROLLBACK").await?,
                    COMMITS => tx.batch_execute("COMMIT").await?,
                    _ => {}
                }
                script(event).await
            })
        });
        self.0.apply(consumer.into(), deliveries.into(), handler)
    }
}

#[cfg(feature = "sqlx")]
struct Sqlx(postrider_postgres::SqlxPgEffects);

#[cfg(feature = "sqlx")]
impl Applies for Sqlx {
    fn most(&self) -> usize {
        self.0.most()
    }

    fn apply(
        &self,
        consumer: &str,
        deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        let handler = postrider_postgres::sqlx_handler(move |event, tx| {
            let script = Arc::clone(&script);
            Box::pin(async move {
                sqlx::query("INSERT INTO effects (id) VALUES ($1)")
                    .bind(event.event_id())
                    .execute(&mut **tx)
                    .await?;
                let also = match event.event_id() {
                    TRIPS => "SELECT 1 / 0",
                    ROLLS_BACK => "ROLLBACK",
                    COMMITS => "COMMIT",
                    _ => "SELECT 1",
                };
                let said = sqlx::query(also).execute(&mut **tx).await;
                assert_eq!(said.is_err(), event.event_id() == TRIPS);
                script(event).await
            })
        });
        self.0.apply(consumer.into(), deliveries.into(), handler)
    }
}

postrider_testkit::inbox_suite!(How::Prepared);

mod behind_a_pooler {
    use super::How;

    postrider_testkit::inbox_suite!(How::Pooled);
}

#[cfg(feature = "sqlx")]
mod with_sqlx {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use postrider_core::Effects;
    use postrider_postgres::{Inbox, SqlxPgEffects, sqlx_handler};
    use postrider_testkit::inbox::received;
    use postrider_testkit::servers::Postgres;

    use super::{How, connect};

    postrider_testkit::inbox_suite!(How::Sqlx);

    /// A listener that is dropped gives the connection back as it was, wherever it was broken off: the pool is the
    /// service's own, whose writes would vanish with a transaction that nobody ends.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_that_is_broken_off_leaves_no_transaction_in_the_pool() {
        let database = Postgres::shared().database();
        let client = connect(&database.url).await;
        Inbox::default().migrate(&client).await.expect("a table");
        client
            .batch_execute("CREATE TABLE other (n integer)")
            .await
            .expect("a table");
        let options = sqlx::postgres::PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false);
        let pool = options.connect(&database.url).await.expect("a pool");
        let effects = SqlxPgEffects::new(pool.clone(), Inbox::default());
        for n in 0..20_i32 {
            {
                let handler = sqlx_handler(|_, _| Box::pin(async { Ok(()) }));
                let mut call = pin!(effects.apply("billing".into(), Arc::new([received("a")]), handler));
                // Once: it has asked for the transaction and not heard of it.
                let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(matches!(polled, Poll::Pending));
            }
            let insert = sqlx::query("INSERT INTO other VALUES ($1)")
                .bind(n)
                .execute(&pool);
            insert.await.expect("inserted");
            let seen = client.query_one("SELECT count(*) FROM other", &[]).await;
            let seen: i64 = seen.expect("a number").get(0);
            assert_eq!(seen, i64::from(n) + 1, "what was written is committed");
        }
    }
}
