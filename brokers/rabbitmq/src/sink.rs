//! The publishing side.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::Channel;
use postrider_core::{AddressField, Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink};
use tokio::sync::{Semaphore, oneshot};

use crate::batch;
use crate::connect::{Dialer, Live};
use crate::encode::{Bounds, Prepared, prepare};
use crate::error::{self, RabbitError};
use crate::returns::{Verdict, judge, lost};
use crate::supervise::Link;
use crate::{RabbitOptions, Topology};

/// How long a close waits for batches under way and for the broker's goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

/// Messages to RabbitMQ: persistent, confirmed, and never lost for want of a queue. Clones share the connection.
///
/// It connects at the first publish and again by itself whenever the connection is lost; while there is none, publish
/// calls fail at once as unavailable.
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
    /// The limit of the options, or the broker's own as soon as it has named a smaller one.
    max_message_bytes: usize,
    max_body_bytes: AtomicUsize,
    confirm_timeout: Duration,
    permits: Semaphore,
    /// Channels without a batch, with the connection that each belongs to.
    idle: Mutex<Vec<(Arc<Live>, Channel)>>,
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
            max_body_bytes: AtomicUsize::new(usize::MAX),
            confirm_timeout: options.confirm_timeout,
            permits: Semaphore::new(options.channels.max(1)),
            idle: Mutex::default(),
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

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Vec::new();
            }
            let count = batch.len();
            let (answer, answered) = oneshot::channel();
            // On a task of its own: a call that is dropped in the middle must not leave a channel whose returned
            // messages would be taken for those of the next batch.
            tokio::spawn(run(Arc::clone(&self.inner), batch, answer));
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

type Asked = oneshot::Sender<Vec<Answer>>;

/// Works on one publish call, to its end.
async fn run(inner: Arc<Inner>, batch: Arc<[Message]>, asked: Asked) {
    let all = |failure: Failure| vec![Answer::Failed(failure); batch.len()];
    let began = async {
        let live = inner.link.live().await?;
        if live.is_blocked() {
            return Err(blocked());
        }
        let permit = inner.permits.acquire().await;
        let permit = permit.map_err(|_| Failure::new(ErrorKind::Unreachable, "the sink is closed"))?;
        Ok((live, permit))
    };
    let (live, _permit) = match began.await {
        Ok(ready) => ready,
        Err(failure) => return drop(asked.send(all(failure))),
    };
    // Nobody waits for the answer any more: the batch was abandoned before it left.
    if asked.is_closed() {
        return;
    }
    let bounds = Bounds {
        message: inner.max_message_bytes,
        frame: live.frame_max(),
    };
    let body_limit = inner.max_body_bytes.load(Ordering::Relaxed);
    let mut messages = Vec::with_capacity(batch.len());
    let mut prepared = Vec::with_capacity(batch.len());
    let mut answers: Vec<Option<Answer>> = Vec::with_capacity(batch.len());
    for message in batch.iter() {
        match prepare(message, bounds).and_then(|ready| within(ready, body_limit)) {
            Ok(ready) => {
                messages.push(message);
                prepared.push(ready);
                answers.push(None);
            }
            Err(failure) => answers.push(Some(Answer::Failed(failure))),
        }
    }
    let asked = Asking { asked, answers };
    if messages.is_empty() {
        return asked.answer(Vec::new());
    }
    match inner.channel(&live).await {
        Ok(channel) => inner.send(&live, channel, &messages, prepared, asked).await,
        Err(failure) => asked.answer(vec![Answer::Failed(failure); messages.len()]),
    }
}

/// Who waits for an answer, with what is known already.
struct Asking {
    asked: Asked,
    answers: Vec<Option<Answer>>,
}

impl Asking {
    /// Answers, with these for the messages that were handed over. Nobody may be waiting any more, which is fine.
    fn answer(self, sent: Vec<Answer>) {
        let mut sent = sent.into_iter();
        let fill = |known: Option<Answer>| {
            let next = known.or_else(|| sent.next());
            next.unwrap_or_else(|| lost("the client gave no answer"))
        };
        let _ = self.asked.send(self.answers.into_iter().map(fill).collect());
    }
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<Live>, Channel)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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

    async fn send(
        &self,
        live: &Arc<Live>,
        channel: Channel,
        messages: &[&Message],
        prepared: Vec<Prepared>,
        asked: Asking,
    ) {
        let mut sending = std::pin::pin!(batch::send(&channel, prepared));
        let all = |failure: Failure| vec![Answer::Failed(failure.maybe_sent()); messages.len()];
        match tokio::time::timeout(self.confirm_timeout, &mut sending).await {
            Ok(outcomes) => {
                let Verdict {
                    answers,
                    healthy,
                    limit,
                } = judge(messages, outcomes);
                if let Some(limit) = limit {
                    self.max_body_bytes.fetch_min(limit, Ordering::Relaxed);
                }
                if healthy {
                    self.idle().push((Arc::clone(live), channel.clone()));
                }
                asked.answer(answers);
            }
            Err(_) if live.is_blocked() => {
                asked.answer(all(blocked()));
                // What the broker has not read yet goes when it reads again. The batch is seen through, so that its
                // returns are not found by another.
                let outcomes = sending.await;
                if judge(messages, outcomes).healthy {
                    self.idle().push((Arc::clone(live), channel.clone()));
                }
            }
            Err(_) => {
                self.link.give_up(live);
                let text = format!("no confirm within {:?}", self.confirm_timeout);
                asked.answer(all(Failure::new(ErrorKind::TimedOut, text)));
            }
        }
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
