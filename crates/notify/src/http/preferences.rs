//! `/recipients/{id}/preferences`: what a person wants to hear of.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::{Door, Person};
use super::problem::{Outcome, Problem, document, json_answer};
use super::read;
use crate::Preference;

/// How much may be said at once: more than all channels of any team's categories.
const MOST: usize = 100;
/// How much a person may have said in all: it is read with every event that concerns them.
const ALL: usize = 200;

pub(super) async fn get(State(door): State<Door>, Person(user): Person) -> Outcome {
    told(&door, &user).await
}

/// What is said here replaces what was said of the same channel and category. What is not named stays as it is: two
/// windows that each change one thing do not undo each other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    preferences: Vec<Preference>,
}

pub(super) async fn put(
    State(door): State<Door>,
    Person(user): Person,
    headers: HeaderMap,
    body: Body,
) -> Outcome {
    let said: Said = read::json(&headers, body).await?;
    if said.preferences.len() > MOST {
        let detail = format!("more than {MOST} preferences at once; send fewer at a time");
        return Err(Problem::invalid(detail));
    }
    for one in &said.preferences {
        if let Some(category) = &one.category {
            read::id(category.clone(), "category")?;
        }
    }
    say(&door, &user, &said.preferences).await?;
    told(&door, &user).await
}

/// Says these things of a person, if that is not too much.
pub(super) async fn say(door: &Door, user: &str, said: &[Preference]) -> Result<(), Problem> {
    let member = door.api.board.recipient(user).await?.ok_or_else(unknown)?;
    let known = |new: &&Preference| {
        let same = |old: &Preference| (old.channel, &old.category) == (new.channel, &new.category);
        member.preferences.0.iter().any(same)
    };
    let new = said.iter().filter(|one| !known(one)).count();
    if new > 0 && member.preferences.0.len() + new > ALL {
        let detail = format!("a person says at most {ALL} things about what they want");
        return Err(Problem::invalid(detail));
    }
    for one in said {
        if !door.api.board.prefer(user, one).await? {
            return Err(unknown());
        }
    }
    Ok(())
}

async fn told(door: &Door, user: &str) -> Outcome {
    let member = door.api.board.recipient(user).await?.ok_or_else(unknown)?;
    let answer = json!({ "preferences": document(&member.preferences)? });
    Ok(json_answer(StatusCode::OK, &answer))
}

fn unknown() -> Problem {
    Problem::unknown("there is no such recipient; a service must `PUT /recipients/{id}` first")
}
