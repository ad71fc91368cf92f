//! What is answered where.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admin::{Admin, Inner};
use crate::document;
use crate::guard::{has_token, names_this_machine};
use crate::health::Level;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

type Answer = Response<Body>;

impl Admin {
    /// The routes, for a service that has a server of its own. With a token, everything but `/health/live` and
    /// `/health/ready` asks for it; without one, whoever reaches the service may ask.
    pub fn router(&self) -> Router {
        let guarded = Router::new()
            .route("/health/outbox", get(outbox))
            .route("/health/listener", get(listener))
            .route("/stats", get(stats))
            .route("/metrics", get(metrics))
            .layer(middleware::from_fn_with_state(self.inner.clone(), ask_for_token));
        Router::new()
            .route("/health/live", get(live))
            .route("/health/ready", get(ready))
            .merge(guarded)
            .with_state(self.inner.clone())
    }

    /// The same, for a listener of our own: also refuses requests that name another machine.
    pub(crate) fn own_router(&self) -> Router {
        self.router()
            .fallback(nothing)
            .layer(middleware::from_fn_with_state(self.inner.clone(), ask_for_host))
    }
}

#[derive(Deserialize)]
struct Which {
    outbox: Option<String>,
}

/// Whether the loops turn. A process that is up and does nothing must be restarted.
async fn live(State(admin): State<Arc<Inner>>) -> Answer {
    let (late, limit) = (admin.late(), admin.options.thresholds.stuck_after);
    let stuck = late > limit;
    let status = if stuck { "stuck" } else { "alive" };
    let code = if stuck {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    json_answer(code, &json!({ "status": status, "lateSeconds": late.as_secs() }))
}

/// Whether it listens. Whoever gets an answer knows that the configuration was valid; what brokers and databases do is
/// not this question, or their outage would take away the very pages that show it.
async fn ready(State(admin): State<Arc<Inner>>) -> Answer {
    match admin.is_stopping() {
        true => json_answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "stopping" })),
        false => json_answer(StatusCode::OK, &json!({ "status": "ready" })),
    }
}

async fn outbox(State(admin): State<Arc<Inner>>, Query(which): Query<Which>) -> Answer {
    let wanted = which.outbox;
    let pictures = admin.pictures(wanted.as_deref()).await;
    let (level, value) = match (&wanted, pictures.as_slice()) {
        (Some(_), []) => return unknown(&admin),
        (Some(_), [picture, ..]) => (picture.health.level, document::outbox(picture)),
        (None, pictures) => document::outboxes(pictures),
    };
    let code = match level {
        Level::Failing => StatusCode::SERVICE_UNAVAILABLE,
        Level::Healthy | Level::Degraded => StatusCode::OK,
    };
    json_answer(code, &value)
}

/// Whether messages can flow to every consumer.
async fn listener(State(admin): State<Arc<Inner>>) -> Answer {
    let (all_well, value) = admin.metrics.listening.document();
    let code = match all_well {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    json_answer(code, &value)
}

async fn stats(State(admin): State<Arc<Inner>>, Query(which): Query<Which>) -> Answer {
    let wanted = which.outbox;
    let pictures = admin.pictures(wanted.as_deref()).await;
    if wanted.is_some() && pictures.is_empty() {
        return unknown(&admin);
    }
    let each: Map<String, Value> = pictures
        .iter()
        .map(|picture| {
            (
                picture.name.clone(),
                document::stats(picture, admin.metrics.rates(&picture.name)),
            )
        })
        .collect();
    let lines = lines_dropped(&admin);
    json_answer(
        StatusCode::OK,
        &json!({ "outboxes": each, "log_lines_dropped": lines }),
    )
}

async fn metrics(State(admin): State<Arc<Inner>>) -> Answer {
    let pictures = admin.pictures(None).await;
    match admin.metrics.text(&pictures, admin.late(), lines_dropped(&admin)) {
        Ok(text) => answer(StatusCode::OK, OPEN_METRICS, text),
        Err(_) => complaint(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
    }
}

fn lines_dropped(admin: &Inner) -> u64 {
    let counter = admin.options.log_lines_dropped.as_ref();
    counter.map_or(0, |count| count.load(Ordering::Relaxed))
}

fn unknown(admin: &Inner) -> Answer {
    let names: Vec<String> = admin.outboxes().iter().map(|one| one.name.clone()).collect();
    let value = json!({ "error": "there is no outbox of that name", "outboxes": names });
    json_answer(StatusCode::NOT_FOUND, &value)
}

async fn nothing() -> Answer {
    let text = "there is nothing here; ask for /health/live, /health/ready, /health/outbox, /health/listener, \
        /stats or /metrics";
    complaint(StatusCode::NOT_FOUND, text)
}

async fn ask_for_token(State(admin): State<Arc<Inner>>, request: Request, next: Next) -> Answer {
    let allowed = admin
        .options
        .token
        .as_ref()
        .is_none_or(|token| has_token(request.headers(), token));
    if allowed {
        return next.run(request).await;
    }
    let mut answer = complaint(
        StatusCode::UNAUTHORIZED,
        "a token is needed: send it as `Authorization: Bearer TOKEN`",
    );
    let scheme = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    answer
}

async fn ask_for_host(State(admin): State<Arc<Inner>>, request: Request, next: Next) -> Answer {
    // A token says more than a name, and a server with one may have any name.
    match admin.options.token.is_some() || names_this_machine(request.headers()) {
        true => next.run(request).await,
        false => complaint(
            StatusCode::FORBIDDEN,
            "without a token this answers only to `localhost` and to addresses in numbers",
        ),
    }
}

fn complaint(code: StatusCode, text: &str) -> Answer {
    json_answer(code, &json!({ "error": text }))
}

fn json_answer(code: StatusCode, value: &Value) -> Answer {
    answer(code, JSON, format!("{value}\n"))
}

fn answer(code: StatusCode, content_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = code;
    let headers: [(HeaderName, &'static str); 3] = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
