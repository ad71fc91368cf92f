//! Waking a sleeping relay: asleep is an exclusive advisory lock a shard, and a producer that meets one rings.
//!
//! A producer holds its shards shared until it commits. A relay that cannot have a shard therefore knows that
//! something is on its way there: it goes on trying, and that it gets the shard is the ring. All locks belong to the
//! session, so a relay that dies asleep leaves nothing behind that would make producers ring.

use std::collections::BTreeSet;
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
    state: tokio::sync::Mutex<Held>,
}

/// The locks that a session holds.
#[derive(Debug, Default)]
struct Held {
    session: Option<u64>,
    shards: BTreeSet<i16>,
    /// Set while a statement about locks is under way: interrupted there, nobody knows what the session holds.
    unsure: bool,
    /// How often the doorbell was armed; what is done for an earlier time is done no more.
    armed: u64,
}

impl Bell {
    pub(crate) fn new(link: Arc<Link>, tables: Arc<Tables>) -> Self {
        Self {
            link,
            tables,
            state: tokio::sync::Mutex::default(),
        }
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
        let mut state = self.state.lock().await;
        state.armed += 1;
        // Before the first lock, so that an arming that is interrupted leaves none behind.
        let guard = Armed {
            bell: Arc::clone(self),
            session: Arc::clone(&session),
            number: state.armed,
        };
        self.lock_all(&session, &mut state, wanted)
            .await
            .map_err(|error| error.while_doing(doing))?;
        let missing: BTreeSet<i16> = wanted.difference(&state.shards).copied().collect();
        Ok(Box::pin(wait(guard, rings, missing)))
    }

    /// Brings the locks of the session to what is wanted, as far as they are free.
    async fn lock_all(&self, session: &Session, state: &mut Held, wanted: &BTreeSet<i16>) -> Result<()> {
        if state.session != Some(session.id) {
            *state = Held {
                armed: state.armed,
                ..Held::default()
            };
            self.listen(session).await?;
            state.session = Some(session.id);
        }
        if state.unsure || !state.shards.is_subset(wanted) {
            self.unlock(session, state).await?;
        }
        let missing: Vec<i16> = wanted.difference(&state.shards).copied().collect();
        if !missing.is_empty() {
            self.try_lock(session, state, &missing).await?;
        }
        Ok(())
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

    /// Takes what is free of these shards; true when something was.
    async fn try_lock(&self, session: &Session, state: &mut Held, shards: &[i16]) -> Result<bool> {
        let sql = self.tables.sql(
            "SELECT s.shard FROM unnest($1::smallint[]) s(shard) WHERE pg_try_advisory_lock({namespace}, s.shard)",
        );
        let statement = session.prepare("lock", &sql).await?;
        state.unsure = true;
        let rows = session.client.query(&statement, &[&shards]).await?;
        for row in &rows {
            state.shards.insert(row.try_get(0)?);
        }
        state.unsure = false;
        Ok(!rows.is_empty())
    }

    async fn unlock(&self, session: &Session, state: &mut Held) -> Result<()> {
        let statement = session
            .prepare("unlock", "SELECT pg_advisory_unlock_all()")
            .await?;
        // The session has no other locks of this kind.
        state.shards.clear();
        state.unsure = true;
        session.client.execute(&statement, &[]).await?;
        state.unsure = false;
        Ok(())
    }

    /// Tries again for shards that were busy; true when one was had, and so something was committed there.
    async fn try_again(&self, session: &Session, number: u64, missing: &BTreeSet<i16>) -> Result<bool> {
        // An operator may be at work for long, and a ring must be heard meanwhile.
        let Ok(_turn) = self.link.turn.try_lock() else {
            return Ok(false);
        };
        let mut state = self.state.lock().await;
        if state.armed != number || state.session != Some(session.id) {
            return Ok(true);
        }
        let missing: Vec<i16> = missing.iter().copied().collect();
        self.try_lock(session, &mut state, &missing).await
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
                if armed.bell.try_again(&armed.session, armed.number, &missing).await.unwrap_or(true) {
                    return;
                }
            }
        }
    }
}

/// While it lives, the relay sleeps. Dropped, the locks go, so that producers ring no more.
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
            let mut state = bell.state.lock().await;
            // Armed again meanwhile: the locks are in use.
            if state.armed == number && state.session == Some(session.id) {
                let _ = bell.unlock(&session, &mut state).await;
            }
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
