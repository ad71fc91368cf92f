//! The publishing side.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::Channel;
use postrider_core::{AddressField, Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use crate::barred::{Barred, Pass};
use crate::batch;
use crate::call::Call;
use crate::connect::{Dialer, Live};
use crate::encode::{Bounds, Prepared, prepare};
use crate::error::{self, RabbitError};
use crate::returns::{exchange, judge, lost};
use crate::supervise::Link;
use crate::{RabbitOptions, Topology};

/// How long a close waits for batches under way and for the broker's goodbye.
const GOODBYE: Duration = Duration::from_secs(3);
/// Barred exchanges that one call may try again. Each try keeps the other messages of the call waiting.
const TRIES: usize = 4;

/// Messages to RabbitMQ: persistent, confirmed, and never lost for want of a queue. Clones share the connection.
///
/// It connects when its relay starts, or at the first publish, and again by itself whenever the connection is lost;
/// while there is none, publish calls fail at once as unavailable.
///
/// Each call takes a channel of its own. The order of a key does not depend on which: the engine gives a sink without
/// ordered batches one message of a key at a time, and the next one only after the broker has the one before.
#[derive(Clone)]
pub struct RabbitSink {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    channels: usize,
    max_message_bytes: usize,
    confirm_timeout: Duration,
    permits: Semaphore,
    /// Channels without a batch, with the connection that each belongs to.
    idle: Mutex<Vec<(Arc<Live>, Channel)>>,
    barred: Barred,
}

impl RabbitSink {
    /// The parts of an address that RabbitMQ takes, for checking routes before anything is opened. Without an exchange
    /// the routing key is the name of a queue.
    pub const ADDRESS: &[AddressField] = &[
        AddressField {
            name: "exchange",
            required: false,
        },
        AddressField {
            name: "routing_key",
            required: true,
        },
    ];

    /// Checks the options. Nothing is connected to yet, so that a relay starts while its broker is away.
    pub fn new(options: RabbitOptions) -> Result<RabbitSink, RabbitError> {
        let dialer = Dialer::new(&options, "publisher")?;
        let declare: Option<Topology> = options.declare;
        let inner = Inner {
            link: Link::new(dialer, declare),
            channels: options.channels.max(1),
            max_message_bytes: options.max_message_bytes,
            confirm_timeout: options.confirm_timeout,
            permits: Semaphore::new(options.channels.max(1)),
            idle: Mutex::default(),
            barred: Barred::default(),
        };
        Ok(RabbitSink {
            inner: Arc::new(inner),
        })
    }
}

impl Sink for RabbitSink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The broker may refuse one message of a batch and take the next.
            ordered_batches: false,
            max_message_bytes: Some(self.inner.max_message_bytes),
            concurrent_batches: self.inner.channels,
            durable: true,
            address: RabbitSink::ADDRESS,
        }
    }

    fn connect(&self) -> BoxFuture<'_, ()> {
        // The supervisor that this starts says in the log why there is no connection, and goes on trying.
        Box::pin(async move { drop(self.inner.link.live().await) })
    }

    fn trouble(&self) -> Option<Failure> {
        self.inner.link.trouble()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Vec::new();
            }
            let count = batch.len();
            let (answer, answered) = oneshot::channel();
            let over = CancellationToken::new();
            let call = Call::new(count, answer, over.clone());
            let _over = over.drop_guard();
            // On a task of its own: a call that is dropped in the middle must not leave a channel whose returned
            // messages would be taken for those of the next batch.
            tokio::spawn(run(Arc::clone(&self.inner), batch, call));
            let abandoned = |_| vec![lost("the batch was abandoned"); count];
            answered.await.unwrap_or_else(abandoned)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let inner = &self.inner;
            let all = u32::try_from(inner.channels).unwrap_or(u32::MAX);
            // Batches under way get a moment to end; nobody else begins one.
            let drained = tokio::time::timeout(GOODBYE, inner.permits.acquire_many(all)).await;
            inner.permits.close();
            drop(drained);
            inner.idle().clear();
            if let Some(live) = inner.link.close() {
                live.close(GOODBYE).await;
            }
        })
    }
}

impl fmt::Debug for RabbitSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitSink").finish_non_exhaustive()
    }
}

/// A message that can be published.
struct Ready<'a> {
    /// Where it stands in its call.
    place: usize,
    message: &'a Message,
    prepared: Prepared,
}

/// Works on one publish call, to its end.
async fn run(inner: Arc<Inner>, batch: Arc<[Message]>, mut call: Call) {
    let began = async {
        let live = inner.link.live().await?;
        if live.is_blocked() {
            return Err(blocked());
        }
        Ok((live, inner.permit().await?))
    };
    let (live, _permit) = match began.await {
        Ok(ready) => ready,
        Err(failure) => return call.end_with(failure),
    };
    let ready = inner.prepare(&live, &batch, &mut call);
    let ready = inner.try_barred(&live, &mut call, ready).await;
    if !ready.is_empty() {
        inner.send(&live, &mut call, ready).await;
    }
    call.answer();
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<Live>, Channel)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to a channel. Whoever does not get it in time has sent nothing, which the relay could not know if its
    /// own limit for a call were the one to end the wait.
    async fn permit(&self) -> Result<SemaphorePermit<'_>, Failure> {
        // With the wait for the confirm still below the relay's limit.
        match tokio::time::timeout(self.confirm_timeout / 4, self.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Failure::new(ErrorKind::Unreachable, "the sink is closed")),
            Err(_) => {
                let text = format!("all {} channels are busy with other calls", self.channels);
                Err(Failure::new(ErrorKind::Throttled, text))
            }
        }
    }

    /// A channel of this connection that nothing else uses.
    async fn channel(&self, live: &Arc<Live>) -> Result<Channel, Failure> {
        let kept = {
            let mut idle = self.idle();
            idle.retain(|(owner, channel)| Arc::ptr_eq(owner, live) && channel.status().connected());
            idle.pop()
        };
        if let Some((_, channel)) = kept {
            return Ok(channel);
        }
        match tokio::time::timeout(self.confirm_timeout, batch::open(live)).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(Failure::new(ErrorKind::ConnectionLost, error::words(&error))),
            Err(_) => {
                self.link.give_up(live);
                Err(Failure::new(ErrorKind::TimedOut, "no channel was opened in time"))
            }
        }
    }

    /// What of a batch can be published; the rest is settled.
    fn prepare<'a>(&self, live: &Live, batch: &'a [Message], call: &mut Call) -> Vec<Ready<'a>> {
        let bounds = Bounds {
            message: self.max_message_bytes,
            frame: live.frame_max(),
        };
        let body_limit = live.body_limit();
        let mut ready = Vec::with_capacity(batch.len());
        for (place, message) in batch.iter().enumerate() {
            match prepare(message, bounds).and_then(|prepared| within(prepared, body_limit)) {
                Ok(prepared) => ready.push(Ready {
                    place,
                    message,
                    prepared,
                }),
                Err(failure) => call.settle(place, Answer::Failed(failure)),
            }
        }
        ready
    }

    /// Keeps messages away from the others that would cost them their channel. Gives those that may go together.
    async fn try_barred<'a>(
        &self,
        live: &Arc<Live>,
        call: &mut Call,
        ready: Vec<Ready<'a>>,
    ) -> Vec<Ready<'a>> {
        let mut together = Vec::with_capacity(ready.len());
        let mut tries = 0;
        for ready in ready {
            let exchange = exchange(ready.message);
            match self.barred.pass(exchange, tries < TRIES) {
                Pass::Free => together.push(ready),
                Pass::Held(failure) => call.settle(ready.place, Answer::Failed(failure)),
                Pass::Try => {
                    tries += 1;
                    if self.send(live, call, vec![ready]).await {
                        self.barred.forget(exchange);
                    }
                }
            }
        }
        together
    }

    /// Publishes messages of a call on a channel that nothing else uses. True if all were handed over and the channel
    /// outlived them.
    async fn send(&self, live: &Arc<Live>, call: &mut Call, ready: Vec<Ready<'_>>) -> bool {
        // Nobody waits for the answer any more: what has not left is abandoned.
        if call.is_over() {
            return false;
        }
        let places: Vec<usize> = ready.iter().map(|ready| ready.place).collect();
        let messages: Vec<&Message> = ready.iter().map(|ready| ready.message).collect();
        let prepared = ready.into_iter().map(|ready| ready.prepared).collect();
        let channel = match self.channel(live).await {
            Ok(channel) => channel,
            Err(failure) => {
                call.fail(&places, &failure);
                return false;
            }
        };
        let over = call.over().clone();
        let mut sending = std::pin::pin!(batch::send(&channel, prepared, &over));
        let verdict = match tokio::time::timeout(self.confirm_timeout, &mut sending).await {
            Ok(outcomes) => judge(&messages, outcomes),
            Err(_) if live.is_blocked() => {
                call.end_with(blocked().maybe_sent());
                // What the broker has not read yet goes when it reads again. The batch is seen through, so that its
                // returns are not found by another.
                judge(&messages, sending.await)
            }
            Err(_) => {
                self.link.give_up(live);
                let text = format!("no confirm within {:?}", self.confirm_timeout);
                call.fail(&places, &Failure::new(ErrorKind::TimedOut, text).maybe_sent());
                return false;
            }
        };
        if let Some(limit) = verdict.limit {
            live.limit_bodies(limit);
        }
        if let Some((exchange, failure)) = verdict.barred {
            self.barred.bar(exchange, failure);
        }
        for (place, answer) in places.into_iter().zip(verdict.answers) {
            call.settle(place, answer);
        }
        if verdict.healthy {
            self.idle().push((Arc::clone(live), channel.clone()));
        }
        verdict.healthy && !call.is_over()
    }
}

/// Checks the limit that the broker named itself.
fn within(prepared: Prepared, limit: usize) -> Result<Prepared, Failure> {
    match prepared.body.len() {
        size if size > limit => {
            let text = format!("the body has {size} bytes, the broker takes {limit}");
            Err(Failure::new(ErrorKind::TooLarge, text))
        }
        _ => Ok(prepared),
    }
}

fn blocked() -> Failure {
    Failure::new(
        ErrorKind::Blocked,
        "the broker takes no messages: it is out of memory or disk",
    )
}
