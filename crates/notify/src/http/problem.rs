//! What is answered: JSON, and problem documents (RFC 9457) where something is refused.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use postrider_core::{StoreError, StoreErrorKind, causes};
use serde_json::{Value, json};

use crate::BoardError;

/// An answer.
pub(super) type Answer = Response<Body>;

/// What a handler gives back.
pub(super) type Outcome = Result<Answer, Problem>;

/// How long a client waits before it asks a database again that could not be used, or for a place among the streams.
const RETRY_AFTER: &str = "2";

/// Why something is refused, for a program (`code`) and for a person (`detail`, which says what to do).
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
        }
    }

    /// Something in the request cannot be meant.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// What is named is not there.
    pub(super) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }
}

/// What the database said stays in the log: it may name tables and hosts, which are nobody's business out there.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (kind, cause) = (error.kind().as_str(), causes(&error));
        tracing::warn!(kind, error = %cause, "a call over HTTP met a database that failed");
        match error.kind() {
            StoreErrorKind::Invalid => Self::invalid("the database cannot keep this; nothing was changed"),
            _ => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "database",
                "the database cannot be used at the moment; send the same request again, nothing happens twice",
            ),
        }
    }
}

impl From<BoardError> for Problem {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Occasion(text) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "occasion", text),
            BoardError::Store(error) => error.into(),
            BoardError::Directory(_) => {
                tracing::warn!(error = %causes(&error), "a call over HTTP met a directory of people that failed");
                let detail = "the directory of people cannot be used at the moment; send the same request again, \
                    nothing happens twice";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "directory", detail)
            }
            BoardError::Reused => {
                let detail = "this key was used for another notification; use a new key for what is new, and send the \
                    same body with the same key";
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", detail)
            }
            BoardError::Duplicates { .. } => {
                tracing::warn!(%error, "the tables of notifications are not ready");
                let detail = "the tables of notifications are not ready; the log says what to do";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database", detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Answer {
        let document = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut answer = json_answer(self.status, &document);
        let headers = answer.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            _ => {}
        }
        answer
    }
}

/// A document.
pub(super) fn json_answer(status: StatusCode, document: &Value) -> Answer {
    text_answer(status, "application/json", format!("{document}\n"))
}

/// Any text.
pub(super) fn text_answer(status: StatusCode, content_type: &'static str, text: impl Into<Body>) -> Answer {
    let mut answer = Response::new(text.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Nothing to say.
pub(super) fn no_content() -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// What is stored, as a document. A value that cannot be written would be our own mistake.
pub(super) fn document(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        let detail = "the answer could not be written; the log says why";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })
}
