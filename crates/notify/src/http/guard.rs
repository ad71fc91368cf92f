//! Who may ask what.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use postrider_admin::{has_token, names_this_machine};
use serde::Deserialize;

use super::api::Inner;
use super::problem::{Answer, Problem};
use super::read::Named;
use super::signature::is_signed;

/// The header that carries a person's signature.
pub(super) const SIGNATURE: &str = "x-postrider-signature";
/// The longest path with its query: two ids of 255 characters, each of four bytes written as `%F0`, and some more.
const PATH: usize = 8 * 1024;
/// What a document may do in a browser: nothing.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The api as it is reached: from this machine only, or from anywhere.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) api: Arc<Inner>,
    /// Only this machine can reach it.
    pub(super) near: bool,
}

impl Door {
    /// Where anything is open without a proof, a page of another site that made its own name point here (DNS
    /// rebinding) must be told from a person on this machine.
    fn asks_for_host(&self) -> bool {
        let options = &self.api.options;
        self.near && (options.token.is_none() || options.secret.is_none() || options.demo.is_some())
    }
}

/// What every request must keep to, and what every answer says.
pub(super) async fn at_the_door(State(door): State<Door>, request: Request, next: Next) -> Answer {
    let length = request
        .uri()
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let mut answer = if length > PATH {
        let detail = format!("the path has more than {PATH} bytes; ids have at most 255 characters");
        Problem::new(StatusCode::URI_TOO_LONG, "too_long", detail).into_response()
    } else if door.asks_for_host() && !names_this_machine(request.headers()) {
        let detail = "without a token this answers only to `localhost` and to addresses in numbers";
        Problem::new(StatusCode::FORBIDDEN, "host", detail).into_response()
    } else {
        next.run(request).await
    };
    let headers = answer.headers_mut();
    let always = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The demo page says itself what it may do.
    let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(NOTHING));
    answer
}

/// Lets services in.
pub(super) async fn services(State(door): State<Door>, request: Request, next: Next) -> Answer {
    let refused = match &door.api.options.token {
        None if door.near => return next.run(request).await,
        Some(token) if has_token(request.headers(), token) => return next.run(request).await,
        Some(_) => {
            let detail = "a token is needed: send it as `Authorization: Bearer TOKEN`";
            Problem::new(StatusCode::UNAUTHORIZED, "token", detail)
        }
        None => {
            let detail = "no token is set, so only a server on loopback answers this; start it with a token";
            Problem::new(StatusCode::FORBIDDEN, "token", detail)
        }
    };
    refused.into_response()
}

/// A person who proved who they are: the id in the path. It can be had in no other way, so a handler that takes it
/// cannot forget to ask.
pub(super) struct Person(pub(super) String);

impl FromRequestParts<Door> for Person {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let Named(id) = Named::<String>::from_request_parts(parts, door).await?;
        let (given, secret) = (given(parts), door.api.options.secret.as_ref());
        match (given, secret) {
            (Some(given), Some(secret)) if is_signed(secret, &id, &given) => Ok(Self(id)),
            (None, None) if door.near => Ok(Self(id)),
            (None, Some(_)) => {
                let detail = "a signature is needed: send hex(HMAC-SHA256(secret, recipient id)) as \
                    `X-Postrider-Signature`, or as `signature` in the query";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "signature", detail))
            }
            (_, None) => {
                let detail = "no secret is set, so no signature can be checked; start the server with one";
                Err(Problem::new(StatusCode::FORBIDDEN, "signature", detail))
            }
            // The same words whether or not there is such a recipient: nothing is asked of the database before this.
            (Some(_), Some(_)) => {
                let detail = "the signature is not that of this recipient; sign the id that is in the path";
                Err(Problem::new(StatusCode::FORBIDDEN, "signature", detail))
            }
        }
    }
}

#[derive(Deserialize)]
struct InQuery {
    signature: Option<String>,
}

/// The signature that a request carries: of the header, else of the query. What cannot be read is a wrong one.
pub(super) fn given(parts: &Parts) -> Option<String> {
    if let Some(header) = parts.headers.get(SIGNATURE) {
        return Some(header.to_str().unwrap_or_default().to_owned());
    }
    match Query::<InQuery>::try_from_uri(&parts.uri) {
        Ok(Query(found)) => found.signature,
        Err(_) => Some(String::new()),
    }
}
