//! The consuming side.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use postrider_core::{
    BoxFuture, ErrorKind, Failure, Incoming, Source, SourceError, SourceErrorKind, Verdict,
};

use crate::connect::{Dialer, Live};
use crate::error::{self, RabbitError};
use crate::supervise::Link;
use crate::{RabbitOptions, decode};

/// How long a close waits for the broker's goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

/// A consumer of one queue, on a connection of its own: a broker that blocks publishers must not keep consumers from
/// emptying its queues.
///
/// It connects at the first receive, and again at the next one after the connection was lost. The broker then gives
/// what was unsettled to another consumer, or to this one again; verdicts on the old deliveries are ignored.
pub struct RabbitSource {
    link: Link,
    queue: ShortString,
    prefetch: u16,
    connect_timeout: Duration,
    /// Held while waiting for messages, so that there is one consumer at a time.
    session: tokio::sync::Mutex<Option<Session>>,
    /// Deliveries without a verdict. Emptied with every new connection, so that an old tag names nothing.
    unsettled: Mutex<HashMap<u64, Acker>>,
    /// Tags are ours and never used twice: the broker's begin at one again on every channel.
    next_tag: AtomicU64,
}

struct Session {
    _live: Arc<Live>,
    _channel: Channel,
    consumer: Consumer,
}

impl RabbitSource {
    /// Checks the options. Nothing is connected to yet.
    pub fn new(options: RabbitOptions, queue: &str) -> Result<RabbitSource, RabbitError> {
        let dialer = Dialer::new(&options, "consumer")?;
        let queue = ShortString::try_new(queue).map_err(|_| RabbitError::Queue(queue.len()))?;
        Ok(RabbitSource {
            link: Link::new(dialer, options.declare),
            queue,
            prefetch: options.prefetch.max(1),
            connect_timeout: options.connect_timeout,
            session: tokio::sync::Mutex::default(),
            unsettled: Mutex::default(),
            next_tag: AtomicU64::new(1),
        })
    }

    fn unsettled(&self) -> MutexGuard<'_, HashMap<u64, Acker>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self) -> Result<Session, SourceError> {
        let live = self.link.live().await.map_err(|failure| self.no_link(&failure))?;
        self.unsettled().clear();
        // On a task of its own: a call that is dropped in the middle would leave a consumer behind that takes messages
        // and that nobody reads. This one comes to its end, and is then dropped, which gives everything back.
        let (opened, queue, prefetch) = (Arc::clone(&live), self.queue.clone(), self.prefetch);
        let consume = tokio::spawn(async move { consume(&opened, queue, prefetch).await });
        match tokio::time::timeout(self.connect_timeout, consume).await {
            Ok(Ok(Ok((channel, consumer)))) => Ok(Session {
                _live: live,
                _channel: channel,
                consumer,
            }),
            Ok(Err(_)) => Err(self.trouble(
                SourceErrorKind::Unreachable,
                "the attempt to consume was abandoned",
            )),
            Ok(Ok(Err(error))) => {
                let kind = match error::code(&error) {
                    Some(403) => SourceErrorKind::Denied,
                    Some(404) => SourceErrorKind::Missing,
                    _ => SourceErrorKind::Unreachable,
                };
                let text = format!("cannot consume {}: {}", self.queue, error::words(&error));
                Err(self.trouble(kind, &text))
            }
            Err(_) => {
                self.link.give_up(&live);
                let text = format!("cannot consume {}: no answer in time", self.queue);
                Err(self.trouble(SourceErrorKind::Unreachable, &text))
            }
        }
    }

    fn no_link(&self, failure: &Failure) -> SourceError {
        let kind = match failure.kind {
            ErrorKind::Credentials => SourceErrorKind::Denied,
            _ => SourceErrorKind::Unreachable,
        };
        self.trouble(kind, &failure.text)
    }

    /// Whatever went wrong, a source that was closed says so: nobody should try again.
    fn trouble(&self, kind: SourceErrorKind, text: &str) -> SourceError {
        SourceError {
            kind: match self.link.is_closed() {
                true => SourceErrorKind::Closed,
                false => kind,
            },
            text: postrider_core::inert(text, postrider_core::MAX_ERROR_TEXT),
        }
    }

    fn incoming(&self, mut delivery: lapin::message::Delivery) -> Incoming {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        self.unsettled().insert(tag, delivery.acker.clone());
        Incoming {
            redelivered: decode::redelivered(&delivery),
            message: decode::message(&mut delivery),
            tag,
        }
    }
}

impl Source for RabbitSource {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            let mut session = self.session.lock().await;
            if session.is_none() {
                *session = Some(self.open().await?);
            }
            let Some(open) = session.as_mut() else {
                return Err(self.trouble(SourceErrorKind::Unreachable, "there is no consumer"));
            };
            let mut received = Vec::new();
            // Nothing is waited for between taking a delivery and returning it: a dropped call has taken none.
            let mut next = open.consumer.next().await;
            loop {
                match next {
                    Some(Ok(delivery)) => received.push(self.incoming(delivery)),
                    // What was received before the end is the broker's again, and comes once more.
                    ended => {
                        let reason = match ended {
                            Some(Err(error)) => error::words(&error),
                            _ => "the broker ended the consumer; was the queue deleted?".to_owned(),
                        };
                        *session = None;
                        self.unsettled().clear();
                        return Err(self.trouble(SourceErrorKind::Unreachable, &reason));
                    }
                }
                if received.len() >= max {
                    return Ok(received);
                }
                next = match open.consumer.next().now_or_never() {
                    Some(next) => next,
                    None => return Ok(received),
                };
            }
        })
    }

    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let known: Vec<(Acker, Verdict)> = {
                let mut unsettled = self.unsettled();
                let known = verdicts
                    .into_iter()
                    .filter_map(|(tag, verdict)| Some((unsettled.remove(&tag)?, verdict)));
                known.collect()
            };
            let told = known.iter().map(|(acker, verdict)| tell(acker, *verdict));
            let told = future::join_all(told).await;
            match told.into_iter().find_map(Result::err) {
                None => Ok(()),
                // They are delivered again; an inbox knows those whose effect is there.
                Some(error) => Err(self.trouble(SourceErrorKind::Unreachable, &error::words(&error))),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let live = self.link.close();
            self.unsettled().clear();
            if let Some(live) = live {
                live.close(GOODBYE).await;
            }
        })
    }
}

impl fmt::Debug for RabbitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitSource")
            .field("queue", &self.queue.as_str())
            .finish_non_exhaustive()
    }
}

async fn consume(live: &Live, queue: ShortString, prefetch: u16) -> lapin::Result<(Channel, Consumer)> {
    let channel = live.connection.create_channel().await?;
    channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let consumer = channel
        .basic_consume(queue, "".into(), options, FieldTable::default())
        .await?;
    Ok((channel, consumer))
}

/// Whether the broker was told; false when the channel of the delivery is gone.
async fn tell(acker: &Acker, verdict: Verdict) -> lapin::Result<bool> {
    let nack = |requeue| BasicNackOptions {
        requeue,
        multiple: false,
    };
    match verdict {
        Verdict::Done => acker.ack(BasicAckOptions::default()).await,
        Verdict::Again => acker.nack(nack(true)).await,
        Verdict::Reject => acker.nack(nack(false)).await,
    }
}
