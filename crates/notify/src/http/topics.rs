//! `/topics/{topic}/subscribers`: who hears of what.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::Door;
use super::problem::{Outcome, Problem, json_answer};
use super::read::{self, Named};
use super::recipients::{kept_here, unknown};

/// How many are subscribed by one call: a transaction of some milliseconds.
const MOST: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    ids: Vec<String>,
}

pub(super) async fn subscribe_many(
    State(door): State<Door>,
    Named(topic): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Outcome {
    kept_here(&*door.api.board)?;
    let many: Many = read::json(&headers, body).await?;
    if many.ids.len() > MOST {
        let detail = format!("more than {MOST} ids at once; send fewer at a time");
        return Err(Problem::invalid(detail));
    }
    for id in &many.ids {
        read::id(id.clone(), "id of a subscriber")?;
    }
    let new = door.api.board.subscribe(&topic, &many.ids).await?;
    Ok(json_answer(StatusCode::OK, &json!({ "subscribed": new })))
}

pub(super) async fn subscribe(
    State(door): State<Door>,
    Named((topic, id)): Named<(String, String)>,
) -> Outcome {
    let board = &door.api.board;
    kept_here(&**board)?;
    // Of one it can be said at once that nobody will hear; of many, those who are not known are left for later.
    board.recipient(&id).await?.ok_or_else(unknown)?;
    let new = board.subscribe(&topic, &[id]).await?;
    Ok(json_answer(StatusCode::OK, &json!({ "subscribed": new })))
}

pub(super) async fn unsubscribe(
    State(door): State<Door>,
    Named((topic, id)): Named<(String, String)>,
) -> Outcome {
    kept_here(&*door.api.board)?;
    let gone = door.api.board.unsubscribe(&topic, &[id]).await?;
    Ok(json_answer(StatusCode::OK, &json!({ "unsubscribed": gone })))
}
