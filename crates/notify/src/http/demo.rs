//! The page at `/demo`: the feed of somebody, live. Nothing of it is loaded from elsewhere.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::routing::{get, post};
use postrider_core::{BoxFuture, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::guard::Door;
use super::problem::{Answer, Outcome, Problem, json_answer, text_answer};
use super::read;
use super::signature::sign;
use crate::{BoardError, Channel, Occasion, To};

/// What the page may do: run its own script, look as it likes, and ask where it came from.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How a sample event is sent.
pub type Send =
    Arc<dyn Fn(Occasion) -> BoxFuture<'static, Result<(), BoardError>> + std::marker::Send + Sync>;

/// Who is in the demo, and what may happen to them.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Demo {
    /// Whose feeds can be chosen.
    pub users: Vec<DemoUser>,
    /// What can be muted.
    pub categories: Vec<String>,
    /// What the button sends, in turn.
    pub samples: Vec<Sample>,
    /// How it is sent; None: straight to the board. A demo that has an outbox sends through it.
    pub send: Option<Send>,
}

postrider_core::setters! {
    Demo {
        users: Vec<DemoUser>,
        categories: Vec<String>,
        samples: Vec<Sample>,
        send: Send => Some(send),
    }
}

/// Somebody in the demo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemoUser {
    /// The id of the recipient.
    pub id: String,
    /// As it is in the list.
    pub name: String,
}

/// Something that can happen in the demo.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// On the button.
    pub label: String,
    /// What happens.
    pub event_type: String,
    /// In which audience.
    pub audience: String,
    /// With which fields.
    pub payload: Map<String, Value>,
}

impl fmt::Debug for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let people = self.users.iter().map(|user| user.id.as_str());
        f.debug_list().entries(people).finish()
    }
}

pub(super) fn routes() -> Router<Door> {
    Router::new()
        .route("/demo", get(page))
        .route("/demo/app.js", get(script))
        .route("/demo/style.css", get(style))
        .route("/demo/state", get(state))
        .route("/demo/events", post(send))
}

async fn page() -> Answer {
    asset("text/html; charset=utf-8", include_str!("page/index.html"))
}

async fn script() -> Answer {
    asset("text/javascript; charset=utf-8", include_str!("page/app.js"))
}

async fn style() -> Answer {
    asset("text/css; charset=utf-8", include_str!("page/style.css"))
}

fn asset(content_type: &'static str, text: &'static str) -> Answer {
    let mut answer = text_answer(StatusCode::OK, content_type, text);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

/// Who can be chosen, with the signature that a service would hand to their page after they logged in.
async fn state(State(door): State<Door>) -> Outcome {
    let options = &door.api.options;
    let demo = options.demo.clone().unwrap_or_default();
    let users = demo.users.iter().map(|user| {
        let signature = options.secret.as_ref().map(|secret| sign(secret, &user.id));
        json!({ "id": user.id, "name": user.name, "signature": signature })
    });
    let labels = demo.samples.iter().map(|sample| sample.label.as_str());
    let answer = json!({
        "users": users.collect::<Vec<_>>(),
        "categories": demo.categories,
        "channels": Channel::ALL,
        "samples": labels.collect::<Vec<_>>(),
    });
    Ok(json_answer(StatusCode::OK, &answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    user: String,
    sample: usize,
}

/// Something happens to somebody in the demo, and to nobody else.
async fn send(State(door): State<Door>, headers: HeaderMap, body: Body) -> Outcome {
    let wish: Wish = read::json(&headers, body).await?;
    let demo = door.api.options.demo.clone().unwrap_or_default();
    let known = demo.users.iter().any(|user| user.id == wish.user);
    let Some(sample) = demo.samples.get(wish.sample).filter(|_| known) else {
        return Err(Problem::unknown("there is no such user or sample in this demo"));
    };
    let occasion = Occasion {
        event_id: Uuid::now_v7().to_string(),
        event_type: sample.event_type.clone(),
        audience: sample.audience.clone(),
        aggregate_id: wish.user.clone(),
        to: To::User(wish.user.clone()),
        at: Timestamp::now(),
        payload: sample.payload.clone(),
    };
    let event_id = occasion.event_id.clone();
    match &demo.send {
        Some(send) => send(occasion).await?,
        None => drop(door.api.board.accept(occasion).await?),
    }
    door.api.hub.nudge(&wish.user);
    Ok(json_answer(
        StatusCode::ACCEPTED,
        &json!({ "event_id": event_id }),
    ))
}
