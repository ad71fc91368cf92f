//! `/unsubscribe/{id}`: the link in a mail, by which a reader, or their mail program (RFC 8058), turns mail off.

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;

use super::guard::{Door, given};
use super::preferences::say;
use super::problem::{Outcome, Problem, text_answer};
use super::read::{self, Asked, Named};
use super::signature::is_signed_unsubscribe;
use crate::{Channel, Preference};

/// Somebody who has a mail of ours: the id in the path. On loopback too, because any page that a browser there shows
/// could post here.
pub(super) struct Reader(String);

impl FromRequestParts<Door> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let Named(id) = Named::<String>::from_request_parts(parts, door).await?;
        let signed = match (&door.api.options.secret, given(parts)) {
            (Some(secret), Some(given)) => is_signed_unsubscribe(secret, &id, &given),
            _ => false,
        };
        match signed {
            true => Ok(Self(id)),
            false => {
                let detail = "this link is not complete, or the secret was changed since; take one of a newer mail, or \
                    turn mail off in your preferences";
                Err(Problem::new(StatusCode::FORBIDDEN, "signature", detail))
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Of {
    category: Option<String>,
}

/// Asks first: programs that look what is behind a link open it, and nobody has decided anything by that.
pub(super) async fn ask(_: Reader) -> Outcome {
    Ok(page(
        "<p>No more mail of this kind?</p><form method=\"post\"><button>Unsubscribe</button></form>",
    ))
}

/// Turns mail of this category off, or all mail where none is named. The body says `List-Unsubscribe=One-Click` or
/// nothing; the signature is the proof, so it is not looked at.
pub(super) async fn off(State(door): State<Door>, Reader(user): Reader, Asked(of): Asked<Of>) -> Outcome {
    let category = of.category.filter(|category| !category.is_empty());
    let category = category
        .map(|category| read::id(category, "category"))
        .transpose()?;
    let off = Preference {
        channel: Some(Channel::Email),
        category,
        on: false,
    };
    say(&door, &user, &[off]).await?;
    Ok(page("<p>You will get no more mail of this kind.</p>"))
}

fn page(body: &str) -> super::problem::Answer {
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Unsubscribe</title>{body}</html>\n"
    );
    text_answer(StatusCode::OK, "text/html; charset=utf-8", page)
}
