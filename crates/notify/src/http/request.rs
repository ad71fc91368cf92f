//! What a service asks for with `POST /notifications`, and how it is known again.

use axum::http::{HeaderMap, StatusCode};
use postrider_core::{Timestamp, limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use super::read;
use crate::{Notification, Occasion, To};

/// The header that says which requests are one.
const KEY: &str = "idempotency-key";

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// The id of the event, for who has one; it then counts, and the key need not be sent.
    event_id: Option<String>,
    event_type: String,
    audience: String,
    aggregate_id: Option<String>,
    to: Whom,
    #[serde(default)]
    payload: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Whom {
    User(String),
    Topic(String),
    Broadcast(bool),
}

impl Wanted {
    /// What happened, as a board takes it.
    pub(super) fn occasion(self, headers: &HeaderMap) -> Result<Occasion, Problem> {
        let event_id = match self.event_id {
            Some(id) => read::id(id, "event_id")?,
            None => of_key(headers)?,
        };
        let audience = read::id(self.audience, "audience")?;
        let to = match self.to {
            Whom::User(id) => To::User(read::id(id, "user")?),
            Whom::Topic(topic) => To::Topic(read::id(topic, "topic")?),
            Whom::Broadcast(true) => To::audience(&audience),
            Whom::Broadcast(false) => {
                let detail = "`to` is {\"user\": id}, {\"topic\": name} or {\"broadcast\": true}";
                return Err(Problem::invalid(detail));
            }
        };
        let about = match &to {
            To::User(name) | To::Topic(name) => name.clone(),
        };
        Ok(Occasion {
            event_id,
            event_type: read::id(self.event_type, "event_type")?,
            audience,
            aggregate_id: read::id(self.aggregate_id.unwrap_or(about), "aggregate_id")?,
            to,
            at: Timestamp::now(),
            payload: self.payload,
        })
    }
}

/// The id of the event of a key. A hash, because a key may be anything, and ids of events travel far.
fn of_key(headers: &HeaderMap) -> Result<String, Problem> {
    let Some(key) = headers.get(KEY) else {
        let detail = "send `Idempotency-Key` with a value of your own for each notification (a UUID will do), or \
            `event_id` in the body: a request that is sent twice then notifies once";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "idempotency_key", detail));
    };
    if key.is_empty() || key.len() > limits::ID {
        let detail = format!("`Idempotency-Key` must have from 1 to {} bytes", limits::ID);
        return Err(Problem::new(StatusCode::BAD_REQUEST, "idempotency_key", detail));
    }
    let digits = Sha256::digest(key.as_bytes());
    let digits: String = digits[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("api-{digits}"))
}

/// Refuses what has the id of a notification that is there and says something else.
pub(super) fn check_same(occasion: &Occasion, there: &Notification) -> Result<(), Problem> {
    let other = there.metadata.get("fingerprint").and_then(Value::as_str);
    let differs = match (occasion.event_type == there.entry.event_type, &occasion.to) {
        (false, _) => Some("event_type"),
        _ if occasion.audience != there.audience => Some("audience"),
        (_, To::User(user)) if *user != there.user_id => Some("to"),
        _ if other.is_some_and(|other| other != occasion.fingerprint()) => Some("to or payload"),
        _ => None,
    };
    match differs {
        None => Ok(()),
        Some(what) => {
            let detail = format!(
                "this key was used for another notification: its {what} is not the same; use a new key for what is \
                 new, and send the same body with the same key"
            );
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Err(Problem::new(status, "idempotency_key_reused", detail))
        }
    }
}
