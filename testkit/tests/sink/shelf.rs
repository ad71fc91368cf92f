//! A sink that puts messages on a shelf, with a place to break it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use postrider_core::{Address, Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Receipt, Sink};
use postrider_testkit::sink::{Arrived, SinkCapabilities, SinkHarness, TestBroker};

/// What may be wrong with a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    #[default]
    None,
    AnswersTooFew,
    ConfirmsBeforeStoring,
    ConfirmsTheMissing,
    TurnsBatchesRound,
    TrimsBodies,
    DropsHeaders,
    PublishesAfterClose,
    CallsOutagesRejections,
    ForgetsAtRestart,
    BlamesNeighbours,
    PassesFailedMessages,
    TriesDroppedCallsAgain,
}

pub(crate) struct Shelves(Flaw);

impl Shelves {
    pub(crate) fn sound() -> Self {
        Self(Flaw::None)
    }

    pub(crate) fn with(flaw: Flaw) -> Self {
        Self(flaw)
    }
}

impl SinkHarness for Shelves {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestBroker>> {
        let shelf = Shelf {
            flaw: self.0,
            ..Shelf::default()
        };
        Box::pin(async { Box::new(Broker(Arc::new(shelf))) as Box<dyn TestBroker> })
    }
}

#[derive(Default)]
struct Shelf {
    flaw: Flaw,
    stored: Mutex<Vec<Arrived>>,
    stopped: AtomicBool,
}

struct Broker(Arc<Shelf>);

fn address(name: &str) -> Address {
    Address(vec![("shelf".to_owned(), name.to_owned())])
}

impl TestBroker for Broker {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Sink>> {
        let sink = ShelfSink {
            shelf: self.0.clone(),
            closed: AtomicBool::new(false),
        };
        Box::pin(async { Arc::new(sink) as Arc<dyn Sink> })
    }

    fn address(&self) -> Address {
        address("top")
    }

    fn missing_address(&self) -> Option<Address> {
        Some(address("none"))
    }

    fn arrived(&self) -> BoxFuture<'_, Vec<Arrived>> {
        Box::pin(async { self.0.stored.lock().unwrap().clone() })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.stopped.store(true, Ordering::SeqCst);
            // Time for a batch to run into it.
            tokio::task::yield_now().await;
        })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        if self.0.flaw == Flaw::ForgetsAtRestart {
            self.0.stored.lock().unwrap().clear();
        }
        self.0.stopped.store(false, Ordering::SeqCst);
        Box::pin(async {})
    }
}

struct ShelfSink {
    shelf: Arc<Shelf>,
    closed: AtomicBool,
}

impl ShelfSink {
    fn put(&self, message: &Message, failed: &mut Vec<Message>) -> Answer {
        let flaw = self.shelf.flaw;
        if failed
            .iter()
            .any(|earlier| earlier.order_key == message.order_key)
            && flaw != Flaw::PassesFailedMessages
        {
            return Answer::failed(ErrorKind::Behind, "an earlier message of its key failed");
        }
        if self.closed.load(Ordering::SeqCst) && flaw != Flaw::PublishesAfterClose {
            return Answer::failed(ErrorKind::Unreachable, "closed");
        }
        if self.shelf.stopped.load(Ordering::SeqCst) {
            let outage = if flaw == Flaw::CallsOutagesRejections {
                ErrorKind::Rejected
            } else {
                ErrorKind::Unreachable
            };
            return Answer::failed(outage, "stopped");
        }
        if message.address == address("none") && flaw != Flaw::ConfirmsTheMissing {
            failed.push(message.clone());
            return Answer::failed(ErrorKind::AddressNotFound, "no such shelf");
        }
        if !failed.is_empty() && flaw == Flaw::BlamesNeighbours {
            return Answer::Failed(Failure::new(ErrorKind::Rejected, "the channel was closed"));
        }
        if flaw == Flaw::ConfirmsBeforeStoring || message.address == address("none") {
            return Answer::Confirmed(Receipt::default());
        }
        let mut stored = self.shelf.stored.lock().unwrap();
        let trimmed = || String::from_utf8_lossy(&message.body).trim().to_owned().into();
        stored.push(Arrived {
            event_id: message.event_id.to_string(),
            body: if flaw == Flaw::TrimsBodies {
                trimmed()
            } else {
                message.body.clone()
            },
            headers: if flaw == Flaw::DropsHeaders {
                Vec::new()
            } else {
                message.headers.clone()
            },
        });
        Answer::Confirmed(Receipt(Some(stored.len().to_string().into())))
    }
}

impl Sink for ShelfSink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ordered_batches: true,
            ..Capabilities::default()
        }
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        if self.shelf.flaw == Flaw::TriesDroppedCallsAgain {
            let mut failed = Vec::new();
            batch
                .iter()
                .for_each(|message| drop(self.put(message, &mut failed)));
        }
        Box::pin(async move {
            let mut failed = Vec::new();
            let mut answers = Vec::new();
            let mut order: Vec<&Message> = batch.iter().collect();
            if self.shelf.flaw == Flaw::TurnsBatchesRound {
                order.reverse();
            }
            for message in order {
                // Something to be dropped at.
                tokio::task::yield_now().await;
                answers.push(self.put(message, &mut failed));
            }
            if self.shelf.flaw == Flaw::AnswersTooFew {
                answers.pop();
            }
            answers
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.closed.store(true, Ordering::SeqCst);
        Box::pin(async {})
    }
}
