//! What a request says, read with bounds: ids of the path, the query, a body.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use postrider_core::json::is_json;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::occasion::unfit_name;

/// The largest body: an event with a generous payload, or a thousand subscribers.
pub(super) const BODY: usize = 64 * 1024;
/// How long a body may take. Who is slower than 6 KiB a second on average is not sending a notification.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Reads an id or a topic, which may hold anything that a text may but control characters.
pub(super) fn id(text: String, what: &str) -> Result<String, Problem> {
    match unfit_name(&text) {
        None => Ok(text),
        Some(why) => Err(Problem::invalid(format!("the {what} {why}; use another one"))),
    }
}

/// Reads a body that must be JSON and says so. Asking for the content type is what keeps pages of other sites from
/// posting here: a browser sends JSON to another origin only after asking, and nobody answers that question.
pub(super) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, Problem> {
    let says_json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if !says_json.is_some_and(is_json) {
        let detail = "send the body as JSON, with `Content-Type: application/json`";
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_type",
            detail,
        ));
    }
    let bytes = bytes(headers, body).await?;
    // It may quote a value, which goes back to whom it came from and nowhere else.
    serde_json::from_slice(&bytes).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        let what = match error.is_data() {
            true => postrider_core::inert(&error.to_string(), 200).to_string(),
            false => format!("it is not JSON ({place})"),
        };
        Problem::invalid(format!(
            "the body cannot be read: {what}; correct it and send it again"
        ))
    })
}

async fn bytes(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let large = || {
        let detail = format!("the body has more than {} KiB; send less at a time", BODY / 1024);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if length.is_some_and(|length| length.parse::<usize>().map_or(true, |length| length > BODY)) {
        return Err(large());
    }
    match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // Either it is too large or the client broke off, and then nobody reads this answer.
        Ok(Err(_)) => Err(large()),
        Err(_) => {
            let detail = "the body did not arrive in time; send it again";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow", detail))
        }
    }
}

/// The query of a url, with a problem document where it cannot be read.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let why = postrider_core::inert(&error.body_text(), 200);
                Err(Problem::invalid(format!(
                    "the query of the url cannot be read: {why}"
                )))
            }
        }
    }
}

/// Ids of the path, in their order, with a problem document where one cannot be read.
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync> FromRequestParts<S> for Named<String> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        id(path::<String, S>(parts, state).await?, "id in the path").map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named<(String, String)> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (first, second) = path::<(String, String), S>(parts, state).await?;
        Ok(Self((
            id(first, "topic in the path")?,
            id(second, "id in the path")?,
        )))
    }
}

async fn path<T, S>(parts: &mut Parts, state: &S) -> Result<T, Problem>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
    let unreadable = "the path cannot be read; encode ids as UTF-8 with percent signs, a slash as %2F";
    found.map(|path| path.0).map_err(|_| Problem::invalid(unreadable))
}
