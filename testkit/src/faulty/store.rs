//! Faults in front of a store.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::{
    BoxFuture, Doorbell, Heartbeat, Page, Read, Settle, Settled, Standing, Store, StoreError, StoreErrorKind,
};

use super::Script;

/// A settle with what the store behind said to it.
pub type AnsweredSettle = (Arc<Settle>, Vec<Settled>);

/// A store with scripted faults, one script for each call of the trait. Clones are handles to the same store and
/// scripts.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    scripts: Arc<Scripts>,
    answered: Arc<Mutex<Vec<AnsweredSettle>>>,
}

struct Scripts {
    heartbeats: Script<StoreErrorKind>,
    reads: Script<StoreErrorKind>,
    settles: Script<StoreErrorKind>,
}

impl FaultyStore {
    /// Puts scripts in front of a store. Without faults they change nothing.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            scripts: Arc::new(Scripts {
                heartbeats: Script::new(),
                reads: Script::new(),
                settles: Script::new(),
            }),
            answered: Arc::default(),
        }
    }

    /// What goes wrong with heartbeats.
    pub fn heartbeats(&self) -> &Script<StoreErrorKind> {
        &self.scripts.heartbeats
    }

    /// What goes wrong with reads.
    pub fn reads(&self) -> &Script<StoreErrorKind> {
        &self.scripts.reads
    }

    /// What goes wrong with settles.
    pub fn settles(&self) -> &Script<StoreErrorKind> {
        &self.scripts.settles
    }

    /// Every settle that the store behind has answered, whether the caller was told or not.
    pub fn settled(&self) -> Vec<AnsweredSettle> {
        self.answered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Store for FaultyStore {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        let call = async move { self.inner.heartbeat(beat).await };
        Box::pin(scripted(&self.scripts.heartbeats, "heartbeat", call))
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        let call = async move { self.inner.read(read).await };
        Box::pin(scripted(&self.scripts.reads, "read", call))
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        let call = async move {
            let answers = self.inner.settle(settle.clone()).await?;
            let mut settles = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            settles.push((settle, answers.clone()));
            Ok(answers)
        };
        Box::pin(scripted(&self.scripts.settles, "settle", call))
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.inner.doorbell()
    }
}

/// Makes a call as the script wants it. The call is counted when it is first polled, as a database would see it.
async fn scripted<T>(
    script: &Script<StoreErrorKind>,
    name: &str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let (_, Some(fault)) = script.take() else {
        return call.await;
    };
    if let Some(kind) = fault.before().await {
        return Err(StoreError::new(kind, format!("{name} was refused by the script")));
    }
    let answer = call.await;
    match fault.after().await {
        Some(kind) => Err(StoreError::new(
            kind,
            format!("the script lost the answer of a {name}"),
        )),
        None => answer,
    }
}
