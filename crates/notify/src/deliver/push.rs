//! Push: a url of the recipient's is told, signed.

mod answer;
mod options;
mod servers;
mod sign;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use postrider_admin::{Dial, Webhook};
use postrider_core::{Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Secret, Sink};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::{ADDRESS, FROZEN, read};
use crate::{Channel, Dispatch};
use answer::{Outcome, resting};
pub use options::{PushError, PushOptions};
use servers::{Rests, Server, Servers};
use sign::Signer;

/// Publish calls at a time. A call lasts as long as its slowest url, while the others of it are long through; so there
/// are many of them, and the calls of urls are bounded by themselves.
const CALLS: usize = 16;

/// Tells urls, each as a signed `POST` ([Standard Webhooks](https://www.standardwebhooks.com)).
///
/// The channel is thousands of servers, and one circuit. So nothing that a single url does is unavailability of the
/// channel: one that is away, slow, broken or flooded is [`ErrorKind::AddressRefused`], one that is gone
/// [`ErrorKind::AddressNotFound`]. Its deliveries are parked, each with its own back-off, and never charged, while
/// those of the others flow. Only if twenty fail in a row and nobody's was taken for half a minute does the relay take
/// it for the channel's own trouble, such as a machine that is cut off, and hold the rest back. A url that answers and
/// does not want the content is [`ErrorKind::Rejected`], and in the end a dead letter.
///
/// A url that gave no answer, or asked to be left alone (`Retry-After`), is not called for a while: what comes for it
/// meanwhile is answered at once. So a dead url holds no connection that others could use.
pub struct PushSink {
    options: PushOptions,
    dial: Dial,
    signer: Signer,
    servers: Servers,
    rests: Rests,
    calls: Semaphore,
    closed: AtomicBool,
}

/// What is posted.
#[derive(Serialize)]
struct Document<'a> {
    id: i64,
    user_id: &'a str,
    title: &'a str,
    body: &'a str,
    category: &'a str,
    event_id: &'a str,
    event_type: &'a str,
}

impl PushSink {
    /// Checks the options. Nothing is connected: which urls there are, only deliveries say.
    pub fn new(options: PushOptions) -> Result<Self, PushError> {
        Ok(Self {
            dial: Dial::default()
                .public_only(!options.allow_private)
                // Half of the time, so that a host that cannot be reached is told from one that says nothing.
                .within(options.timeout / 2),
            signer: Signer::new(&options.secret)?,
            servers: Servers::default(),
            rests: Rests::default(),
            calls: Semaphore::new(options.connections.max(1)),
            closed: AtomicBool::new(false),
            options,
        })
    }

    async fn tell(&self, message: &Message, until: Instant) -> Answer {
        match self.try_to_tell(message, until).await {
            Ok(answer) => answer,
            Err(failure) => Answer::Failed(failure),
        }
    }

    async fn try_to_tell(&self, message: &Message, until: Instant) -> Result<Answer, Failure> {
        let dispatch = read(message, Channel::Push)?;
        let webhook = self.webhook(&dispatch)?;
        let (url, server) = (
            &dispatch.to,
            self.servers.of(&webhook, self.options.connections_per_server),
        );
        let webhook = webhook.sharing(server.webhook());
        self.rested(url, &server)?;
        // First the server's own turn: who waits for a slow one must not take the turns of the others.
        let _of_server = permit(server.turns(), until).await?;
        let _of_all = permit(&self.calls, until).await?;
        // It may have failed for another delivery meanwhile.
        self.rested(url, &server)?;
        let document = document(&dispatch)?;
        let id = sign::id(message.event_id.as_str());
        let (time, signature) = self.signer.sign(&id, &document);
        let headers = [
            ("content-type", "application/json"),
            ("webhook-id", &id),
            ("webhook-timestamp", &time),
            ("webhook-signature", &signature),
        ];
        let call = webhook.call(&headers, document.into());
        let answered = timeout(self.options.timeout, Box::pin(call)).await;
        let outcome = Outcome::of(answered, webhook.host(), self.options.timeout);
        self.remember(url, &server, &outcome);
        Ok(outcome.answer)
    }

    fn webhook(&self, dispatch: &Dispatch) -> Result<Webhook, Failure> {
        let unusable = |text: &str| {
            let text = format!("the recipient's url {text}; {FROZEN}");
            Failure::new(ErrorKind::NotEncodable, text)
        };
        let webhook = Webhook::new(Secret::new(dispatch.to.as_str())).map_err(unusable)?;
        let (tls, ..) = webhook.server();
        match tls || self.options.allow_private {
            true => Ok(webhook.dialled_by(self.dial.clone())),
            false => Err(unusable(PLAIN)),
        }
    }

    /// Fails while a url, or its server, is to be left alone.
    fn rested(&self, url: &str, server: &Server) -> Result<(), Failure> {
        let now = Instant::now();
        let until = self.rests.of(url).max(self.rests.of(server.name()));
        match until.and_then(|until| until.checked_duration_since(now)) {
            Some(left) if !left.is_zero() => Err(resting(server.webhook().host(), left)),
            _ => Ok(()),
        }
    }

    fn remember(&self, url: &str, server: &Server, outcome: &Outcome) {
        match outcome.reached {
            true => self.rests.end(server.name()),
            false => self.rests.lengthen(server.name()),
        }
        match (outcome.silent, outcome.retry_after) {
            (true, _) if outcome.reached => self.rests.lengthen(url),
            (_, Some(wait)) => self.rests.until(url, wait),
            _ => self.rests.end(url),
        }
    }
}

impl Sink for PushSink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ordered_batches: false,
            max_message_bytes: None,
            concurrent_batches: CALLS,
            durable: true,
            address: ADDRESS,
        }
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            if self.closed.load(Ordering::SeqCst) {
                let closed = Answer::failed(ErrorKind::Unreachable, "the channel is closed");
                return vec![closed; batch.len()];
            }
            let until = Instant::now() + self.options.batch_time;
            join_all(batch.iter().map(|message| self.tell(message, until))).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closed.store(true, Ordering::SeqCst);
            self.servers.forget();
        })
    }
}

impl fmt::Debug for PushSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

const PLAIN: &str = "must begin with https: what it is told is a person's";

/// Why a url is refused without being called, as far as that is known without asking for the addresses of its host.
pub(crate) fn refused(url: &str, private: bool) -> Option<&'static str> {
    let webhook = match Webhook::new(Secret::new(url)) {
        Ok(webhook) => webhook,
        Err(text) => return Some(text),
    };
    let (tls, host, _) = webhook.server();
    let dial = Dial::default().public_only(!private);
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let here = host.eq_ignore_ascii_case("localhost") && !private;
    match tls || private {
        false => Some(PLAIN),
        true if here || address.is_some_and(|address| !dial.takes(address)) => {
            Some("is of a private network, and only where `allow_private` is set are those called")
        }
        true => None,
    }
}

/// A turn; none in time means that nothing was tried, so that it just goes again.
async fn permit(turns: &Semaphore, until: Instant) -> Result<SemaphorePermit<'_>, Failure> {
    let late = || {
        Failure::new(
            ErrorKind::Behind,
            "others were before it for as long as the batch may take",
        )
    };
    let turn = timeout_at(until, turns.acquire()).await.map_err(|_| late())?;
    turn.map_err(|_| late())
}

fn document(dispatch: &Dispatch) -> Result<String, Failure> {
    let document = Document {
        id: dispatch.notification_id,
        user_id: &dispatch.user_id,
        title: &dispatch.title,
        body: &dispatch.body,
        category: &dispatch.category,
        event_id: &dispatch.event_id,
        event_type: &dispatch.event_type,
    };
    serde_json::to_string(&document)
        .map_err(|_| Failure::new(ErrorKind::NotEncodable, "the delivery cannot be written as JSON"))
}
