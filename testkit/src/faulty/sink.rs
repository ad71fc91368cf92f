//! Faults in front of a sink.

use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::{Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink};

use super::Script;

/// One publish that came by.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its number, from 1.
    pub call: u64,
    /// What was to be published.
    pub batch: Arc<[Message]>,
    /// What the sink behind answered; none if it was not asked, or has not answered yet.
    pub answered: Option<Vec<Answer>>,
    /// What the caller was told; none if it has not been told yet, or has gone.
    pub told: Option<Vec<Answer>>,
}

/// A sink with scripted faults. Clones are handles to the same sink and script.
#[derive(Clone)]
pub struct FaultySink {
    inner: Arc<dyn Sink>,
    script: Arc<Script<ErrorKind>>,
    passed: Arc<Mutex<Vec<Published>>>,
}

impl FaultySink {
    /// Puts a script in front of a sink. Without faults it changes nothing.
    pub fn new(inner: Arc<dyn Sink>) -> Self {
        Self {
            inner,
            script: Arc::new(Script::new()),
            passed: Arc::default(),
        }
    }

    /// What goes wrong with publishing. An empty batch is not counted: a sink must not touch anything for it.
    pub fn publishes(&self) -> &Script<ErrorKind> {
        &self.script
    }

    /// Every publish so far.
    pub fn passed(&self) -> Vec<Published> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, call: u64, change: impl FnOnce(&mut Published)) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(published) = passed.iter_mut().find(|published| published.call == call) {
            change(published);
        }
    }
}

impl Sink for FaultySink {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn connect(&self) -> BoxFuture<'_, ()> {
        self.inner.connect()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        if batch.is_empty() {
            return self.inner.publish(batch);
        }
        let (call, fault) = self.script.take();
        self.passed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Published {
                call,
                batch: batch.clone(),
                answered: None,
                told: None,
            });
        Box::pin(async move {
            let told = match fault {
                None => {
                    let answers = self.inner.publish(batch).await;
                    self.note(call, |published| published.answered = Some(answers.clone()));
                    answers
                }
                Some(fault) => match fault.before().await {
                    Some(kind) => refuse(&batch, Failure::new(kind, "refused by the script")),
                    None => {
                        let answers = self.inner.publish(batch.clone()).await;
                        self.note(call, |published| published.answered = Some(answers.clone()));
                        match fault.after().await {
                            Some(kind) => {
                                let lost = Failure::new(kind, "the script lost the answer");
                                refuse(&batch, lost.maybe_sent())
                            }
                            None => answers,
                        }
                    }
                },
            };
            self.note(call, |published| published.told = Some(told.clone()));
            told
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

fn refuse(batch: &[Message], failure: Failure) -> Vec<Answer> {
    batch.iter().map(|_| Answer::Failed(failure.clone())).collect()
}
