//! One POST for one event; the status decides.

use std::borrow::Cow;
use std::time::Duration;

use jiff::fmt::rfc2822;
use postrider_admin::{Answered, Unanswered, Webhook};
use postrider_core::{Blame, BoxFuture, HandlerError, Received, header};
use postrider_listener::{Call, CallError};

/// Headers of the message that keep their names: our own, and those that every service knows.
const KEPT: [&str; 13] = [
    header::EVENT_TYPE,
    header::AGGREGATE_TYPE,
    header::AGGREGATE_ID,
    header::EVENT_KEY,
    header::PAYLOAD_HASH,
    header::CREATED_AT,
    header::TOMBSTONE,
    header::MAYBE_DUPLICATE,
    header::REPLAY,
    "traceparent",
    "tracestate",
    "baggage",
    "correlation-id",
];
/// What the names of all other headers begin with: a producer must not be able to set `host` or `authorization`.
const OTHERS: &str = "event-header-";

type Header<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Posts events to a url.
pub struct Post {
    url: Webhook,
    timeout: Duration,
    consumer: String,
}

impl Post {
    pub fn new(url: Webhook, timeout: Duration, consumer: &str) -> Self {
        Self {
            url,
            timeout,
            consumer: consumer.to_owned(),
        }
    }

    fn headers<'a>(&'a self, event: &'a Received) -> Vec<Header<'a>> {
        // Of a replay that is to take effect again the record has another id than its event, and so has the call.
        let key = event.record_id.replace('\u{1f}', "/");
        let mut headers: Vec<Header<'a>> = vec![
            ("content-type".into(), event.content_type.as_str().into()),
            ("idempotency-key".into(), key.into()),
            (header::EVENT_ID.into(), event.event_id().into()),
            ("postrider-consumer".into(), self.consumer.as_str().into()),
            ("postrider-attempt".into(), event.attempt.to_string().into()),
            (
                "postrider-redelivered".into(),
                event.redelivered.to_string().into(),
            ),
        ];
        for (name, value) in &event.message.headers {
            let sent = match KEPT.iter().find(|kept| kept.eq_ignore_ascii_case(name)) {
                Some(kept) => Cow::Borrowed(*kept),
                None => format!("{OTHERS}{name}").into(),
            };
            headers.push((sent, value.as_str().into()));
        }
        headers
    }

    /// What a status means for the event.
    fn judge(&self, answered: &Answered) -> Result<(), CallError> {
        let (host, status) = (self.url.host(), answered.status);
        let said = format!("{host} answered {status}");
        let blame = match status {
            200..=299 => return Ok(()),
            429 => Blame::Nobody,
            300..=399 => {
                let text = format!("{said}; redirects are not followed: give the url that it leads to");
                let error = HandlerError::retry(text).blame(Blame::Unclear);
                return Err(CallError::Handler(error));
            }
            // A token that expired or a path that is not there refuses every event: while nothing gets through, no
            // event is to blame.
            401 | 403 | 404 | 405 | 408 | 425 | 500..=599 => Blame::Unclear,
            400..=499 => return Err(CallError::Handler(HandlerError::reject(said))),
            // Something between the two speaks, not the service: that says nothing of the event.
            _ => Blame::Unclear,
        };
        let error = HandlerError::retry(said).blame(blame);
        Err(CallError::Handler(match retry_after(answered) {
            Some(pause) => error.not_before(pause),
            None => error,
        }))
    }
}

impl Call for Post {
    fn call<'a>(&'a self, event: &'a Received) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(async move {
            let headers = self.headers(event);
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            let body = event.payload.clone().unwrap_or_default();
            let called = tokio::time::timeout(self.timeout, self.url.call(&headers, body)).await;
            match called {
                Ok(Ok(answered)) => self.judge(&answered),
                Ok(Err(Unanswered { reached: false, text })) => {
                    let advice = "check that what is called runs, its address and its certificate";
                    Err(CallError::Away { text, advice })
                }
                Ok(Err(Unanswered { text, .. })) => unclear(text),
                Err(_) => unclear(format!("{} did not answer in time", self.url.host())),
            }
        })
    }
}

/// It may have been the event that brought it down.
fn unclear(text: String) -> Result<(), CallError> {
    let error = HandlerError::retry(text).blame(Blame::Unclear);
    Err(CallError::Handler(error))
}

/// How long it wants to be left alone; it says that in seconds or as a time. The longest pause of the retry policy
/// bounds it.
fn retry_after(answered: &Answered) -> Option<Duration> {
    let text = answered.retry_after.as_deref()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(text).ok()?.timestamp();
    Duration::try_from(at.duration_since(jiff::Timestamp::now())).ok()
}

#[cfg(test)]
mod tests;
