//! Waking a sleeping relay: asleep is an exclusive advisory lock a shard, and a producer that meets one rings.
//!
//! A producer holds its shards shared until it commits. A relay that cannot have a shard therefore knows that
//! something is on its way there: it goes on trying, and that it gets the shard is the ring. All locks belong to the
//! session, so a relay that dies asleep leaves nothing behind that would make producers ring.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, Doorbell, Ring, Shard, StoreError};
use tokio::sync::watch;

use crate::error::Result;
use crate::ident::Tables;
use crate::lease;
use crate::session::Session;
use crate::supervise::Link;

/// How soon a shard that was busy is tried again; doubles up to the second figure.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(250);

/// The doorbell of one store.
#[derive(Debug)]
pub(crate) struct Bell {
    link: Arc<Link>,
    tables: Arc<Tables>,
}

/// Who sleeps on a session, and the locks that it holds for them. Several relays of a process may share a store.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    listens: bool,
    /// The shards that each arming is about.
    wanted: BTreeMap<u64, BTreeSet<i16>>,
    /// The locks that the session has, each once, for however many it is.
    held: BTreeSet<i16>,
    /// What a statement under way takes or gives back: interrupted there, nobody knows whether the session has them.
    unsure: BTreeSet<i16>,
    armed: u64,
}

impl Sleepers {
    fn arm(&mut self, wanted: &BTreeSet<i16>) -> u64 {
        self.armed += 1;
        self.wanted.insert(self.armed, wanted.clone());
        self.armed
    }

    fn missing(&self, wanted: &BTreeSet<i16>) -> BTreeSet<i16> {
        wanted.difference(&self.held).copied().collect()
    }

    /// What the session has, or may have, for nobody.
    fn unwanted(&self) -> BTreeSet<i16> {
        let wanted: BTreeSet<i16> = self.wanted.values().flatten().copied().collect();
        let mut unwanted = self.unsure.clone();
        unwanted.extend(self.held.difference(&wanted));
        unwanted
    }
}

impl Bell {
    pub(crate) fn new(link: Arc<Link>, tables: Arc<Tables>) -> Self {
        Self { link, tables }
    }

    async fn arm(self: Arc<Self>, shards: Vec<Shard>) -> Result<Ring, StoreError> {
        let wanted: BTreeSet<i16> = shards.into_iter().map(lease::shard).collect();
        let doing = "arming the doorbell";
        match tokio::time::timeout(self.link.limit(), self.arm_in_turn(doing, &wanted)).await {
            Ok(armed) => armed,
            Err(_) => Err(StoreError::new(postrider_core::StoreErrorKind::Busy, doing)),
        }
    }

    /// The session may be the operators' too, so the doorbell waits for its turn: what it does must not be part of
    /// somebody's transaction, which may be rolled back.
    async fn arm_in_turn(self: &Arc<Self>, doing: &str, wanted: &BTreeSet<i16>) -> Result<Ring, StoreError> {
        let _turn = self.link.turn.lock().await;
        let session = self.link.session(doing).await?;
        let mut rings = session.rings.clone();
        // A copy knows what the original has seen, which is nothing: without this, whatever rang once would ring for
        // ever.
        rings.mark_unchanged();
        let mut sleepers = session.sleepers.lock().await;
        // Before the first lock, so that an arming that is interrupted leaves none behind.
        let guard = Armed {
            bell: Arc::clone(self),
            session: Arc::clone(&session),
            number: sleepers.arm(wanted),
        };
        self.lock_all(&session, &mut sleepers, wanted)
            .await
            .map_err(|error| error.while_doing(doing))?;
        let missing = sleepers.missing(wanted);
        Ok(Box::pin(wait(guard, rings, missing)))
    }

    /// Takes the locks that are wanted, as far as they are free.
    async fn lock_all(
        &self,
        session: &Session,
        sleepers: &mut Sleepers,
        wanted: &BTreeSet<i16>,
    ) -> Result<()> {
        if !sleepers.listens {
            self.listen(session).await?;
            sleepers.listens = true;
        }
        self.unlock(session, sleepers).await?;
        self.try_lock(session, sleepers, wanted).await
    }

    async fn listen(&self, session: &Session) -> Result<()> {
        let sql = self.tables.sql("SELECT '{outbox}'::regclass::oid");
        let oid: u32 = session.client.query_one(&sql, &[]).await?.try_get(0)?;
        session
            .client
            .batch_execute(&format!("LISTEN postrider_{oid}"))
            .await?;
        Ok(())
    }

    /// Takes what is free of these shards. Never one that the session has: it would have to be given back twice.
    async fn try_lock(
        &self,
        session: &Session,
        sleepers: &mut Sleepers,
        wanted: &BTreeSet<i16>,
    ) -> Result<()> {
        let missing: Vec<i16> = sleepers.missing(wanted).into_iter().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let sql = self.tables.sql(
            "SELECT s.shard FROM unnest($1::smallint[]) s(shard) WHERE pg_try_advisory_lock({namespace}, s.shard)",
        );
        let statement = session.prepare("lock", &sql).await?;
        sleepers.unsure.extend(&missing);
        for row in session.client.query(&statement, &[&missing]).await? {
            sleepers.held.insert(row.try_get(0)?);
        }
        sleepers.unsure.clear();
        Ok(())
    }

    /// Gives back what nobody wants any more.
    async fn unlock(&self, session: &Session, sleepers: &mut Sleepers) -> Result<()> {
        let unwanted = sleepers.unwanted();
        if unwanted.is_empty() {
            return Ok(());
        }
        let sql = self
            .tables
            .sql("SELECT pg_advisory_unlock({namespace}, s.shard) FROM unnest($1::smallint[]) s(shard)");
        let statement = session.prepare("unlock", &sql).await?;
        sleepers.held.retain(|shard| !unwanted.contains(shard));
        let shards: Vec<i16> = unwanted.iter().copied().collect();
        sleepers.unsure = unwanted;
        session.client.execute(&statement, &[&shards]).await?;
        sleepers.unsure.clear();
        Ok(())
    }

    /// Tries again for shards that were busy; true when one was had, and so something was committed there.
    async fn try_again(&self, session: &Session, missing: &BTreeSet<i16>) -> Result<bool> {
        // An operator may be at work for long, and a ring must be heard meanwhile.
        let Ok(_turn) = self.link.turn.try_lock() else {
            return Ok(false);
        };
        let mut sleepers = session.sleepers.lock().await;
        self.unlock(session, &mut sleepers).await?;
        self.try_lock(session, &mut sleepers, missing).await?;
        Ok(sleepers.missing(missing).len() < missing.len())
    }
}

/// Ends when something was committed since the doorbell was armed, or when nobody could tell any more.
async fn wait(armed: Armed, mut rings: watch::Receiver<u64>, missing: BTreeSet<i16>) {
    let mut pause = RETRY_MIN;
    loop {
        let again = async {
            match missing.is_empty() {
                true => std::future::pending::<()>().await,
                false => tokio::time::sleep(pause).await,
            }
        };
        tokio::select! {
            biased;
            // The connection counts every ring; its end is an error of this, and a reason to look.
            _ = rings.changed() => return,
            () = again => {
                pause = (pause * 2).min(RETRY_MAX);
                if armed.bell.try_again(&armed.session, &missing).await.unwrap_or(true) {
                    return;
                }
            }
        }
    }
}

/// While it lives, the relay sleeps. Dropped, its locks go, so that producers ring no more.
struct Armed {
    bell: Arc<Bell>,
    session: Arc<Session>,
    number: u64,
}

impl Drop for Armed {
    fn drop(&mut self) {
        let (bell, session, number) = (Arc::clone(&self.bell), Arc::clone(&self.session), self.number);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let _turn = bell.link.turn.lock().await;
            let mut sleepers = session.sleepers.lock().await;
            sleepers.wanted.remove(&number);
            // On a session that has ended the locks are gone.
            let _ = bell.unlock(&session, &mut sleepers).await;
        });
    }
}

/// The doorbell as the engine has it.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Bell>);

impl Doorbell for Handle {
    fn arm(&self, shards: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        Box::pin(Arc::clone(&self.0).arm(shards))
    }
}
