//! `/notifications`: telling somebody of something, once.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::feed::limit;
use super::guard::Door;
use super::problem::{Answer, Outcome, Problem, document, json_answer};
use super::read::{self, Asked, Named};
use super::recipients::unknown;
use super::request::{Wanted, check_same};
use crate::{Accepted, Notification, Occasion, To};

/// What is said of a request that came before.
const BEFORE: &str = "already exists (idempotent)";

/// The same request twice gives the same notification: 201 at first, 200 then, also where both come at once. The board
/// remembers what a key was used for; an event that came another way is looked at before and after.
pub(super) async fn send(State(door): State<Door>, headers: HeaderMap, body: Body) -> Outcome {
    let wanted: Wanted = read::json(&headers, body).await?;
    let occasion = wanted.occasion(&headers)?;
    let (board, hub) = (&door.api.board, &door.api.hub);
    if let Some(there) = board.of_event(&occasion.event_id, 1).await?.first() {
        check_same(&occasion, there)?;
    }
    let accepted = board.request(occasion.clone()).await?;
    if accepted.stored + accepted.collected > 0 || accepted.goes_on {
        door.api.stored();
    }
    match &occasion.to {
        To::User(user) => {
            hub.nudge(user);
            to_one(&occasion, &accepted)
        }
        To::Topic(_) => {
            hub.nudge_all();
            to_many(&occasion, &accepted)
        }
    }
}

fn to_one(occasion: &Occasion, accepted: &Accepted) -> Outcome {
    let (status, message) = match &accepted.one {
        Some(_) if accepted.stored > 0 => (StatusCode::CREATED, "stored"),
        Some(there) => {
            // Where the workflow names a resource, another event may have told of it, and said what it liked.
            if there.entry.event_id == occasion.event_id {
                check_same(occasion, there)?;
            }
            (StatusCode::OK, BEFORE)
        }
        None if accepted.muted > 0 => (
            StatusCode::OK,
            "the recipient wants none of this; nothing was stored",
        ),
        None if accepted.collected > 0 => (StatusCode::ACCEPTED, "collected for a digest"),
        None if accepted.duplicates > 0 => (StatusCode::OK, BEFORE),
        None => return Err(unknown()),
    };
    let (notification, deliveries) = match &accepted.one {
        Some(one) => parts(one)?,
        None => (Value::Null, json!([])),
    };
    let answer = json!({
        "status": "success",
        "message": message,
        "event_id": occasion.event_id,
        "notification": notification,
        "deliveries": deliveries,
    });
    Ok(json_answer(status, &answer))
}

fn to_many(occasion: &Occasion, accepted: &Accepted) -> Outcome {
    let message = match accepted.goes_on {
        true => "accepted; the rest is being stored",
        false => "accepted; all is stored",
    };
    let answer = json!({
        "status": "success",
        "message": message,
        "event_id": occasion.event_id,
        "stored": accepted.stored,
        "duplicates": accepted.duplicates,
        "muted": accepted.muted,
        "collected": accepted.collected,
        "goes_on": accepted.goes_on,
        "progress": format!("/notifications?event_id={}", escaped(&occasion.event_id)),
    });
    Ok(json_answer(StatusCode::ACCEPTED, &answer))
}

pub(super) async fn one(State(door): State<Door>, Named(id): Named<String>) -> Outcome {
    let nothing = || Problem::unknown("there is no notification of this id; it may have been purged");
    let id: i64 = id.parse().map_err(|_| nothing())?;
    let one = door.api.board.notification(id).await?.ok_or_else(nothing)?;
    shown(&one)
}

#[derive(Deserialize)]
pub(super) struct OfEvent {
    event_id: Option<String>,
    limit: Option<usize>,
}

/// How far an event is: whom it reached so far, the first of them in full, and where the rest is still being stored.
pub(super) async fn of_event(State(door): State<Door>, Asked(asked): Asked<OfEvent>) -> Outcome {
    let Some(event_id) = asked.event_id else {
        return Err(Problem::invalid("say of which event: `/notifications?event_id=`"));
    };
    let (event_id, limit) = (read::id(event_id, "event_id")?, limit(asked.limit)?);
    let board = &door.api.board;
    let found = board.of_event(&event_id, limit).await?;
    let fan_out = board.fan_out(&event_id).await?;
    let answer = json!({
        "event_id": event_id,
        "fan_out": fan_out,
        "notifications": document(&found)?,
        "more": found.len() >= limit,
    });
    Ok(json_answer(StatusCode::OK, &answer))
}

fn shown(one: &Notification) -> Result<Answer, Problem> {
    let (notification, deliveries) = parts(one)?;
    let answer = json!({ "notification": notification, "deliveries": deliveries });
    Ok(json_answer(StatusCode::OK, &answer))
}

/// A notification, and beside it its deliveries.
fn parts(one: &Notification) -> Result<(Value, Value), Problem> {
    let mut notification = document(one)?;
    let deliveries = notification["deliveries"].take();
    if let Some(fields) = notification.as_object_mut() {
        fields.remove("deliveries");
    }
    Ok((notification, deliveries))
}

/// A text in a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
