//! `/feed/{id}`: what a person has, and what they do with it.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::{Door, Person};
use super::problem::{Outcome, Problem, document, json_answer};
use super::read::{self, Asked};
use crate::{Mark, Which};

/// A page where nobody says how large.
const PAGE: usize = 20;
/// The largest page.
const LARGEST: usize = 100;

#[derive(Deserialize)]
pub(super) struct Page {
    before: Option<i64>,
    limit: Option<usize>,
    #[serde(default)]
    archived: bool,
}

pub(super) async fn list(
    State(door): State<Door>,
    Person(user): Person,
    Asked(page): Asked<Page>,
) -> Outcome {
    let limit = limit(page.limit)?;
    let board = &door.api.board;
    let entries = board.list(&user, page.before, limit, page.archived).await?;
    let next = match entries.len() < limit {
        true => None,
        false => entries.last().map(|entry| entry.id),
    };
    let answer = json!({ "entries": document(&entries)?, "next": next });
    Ok(json_answer(StatusCode::OK, &answer))
}

pub(super) async fn unread(State(door): State<Door>, Person(user): Person) -> Outcome {
    let unread = door.api.board.unread(&user).await?;
    Ok(json_answer(StatusCode::OK, &json!({ "unread": unread })))
}

/// One by its `id`, or all up to one by `up_to`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    mark: Mark,
    id: Option<i64>,
    up_to: Option<i64>,
}

pub(super) async fn mark(
    State(door): State<Door>,
    Person(user): Person,
    headers: HeaderMap,
    body: Body,
) -> Outcome {
    let marks: Marks = read::json(&headers, body).await?;
    let which = match (marks.id, marks.up_to) {
        (Some(id), None) => Which::One(id),
        (None, Some(id)) => Which::UpTo(id),
        _ => {
            return Err(Problem::invalid(
                "say which: `id` for one notification, or `up_to` for all up to one",
            ));
        }
    };
    let board = &door.api.board;
    let changed = board.mark(&user, which, marks.mark).await?;
    let unread = board.unread(&user).await?;
    door.api.hub.nudge(&user);
    let answer = json!({ "changed": changed, "unread": unread });
    Ok(json_answer(StatusCode::OK, &answer))
}

/// How many are asked for.
pub(super) fn limit(wanted: Option<usize>) -> Result<usize, Problem> {
    match wanted.unwrap_or(PAGE) {
        limit @ 1..=LARGEST => Ok(limit),
        _ => Err(Problem::invalid(format!("`limit` must be from 1 to {LARGEST}"))),
    }
}
