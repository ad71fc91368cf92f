//! `/recipients/{id}`: who is there.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::Door;
use super::problem::{Outcome, Problem, document, json_answer, no_content};
use super::read::{self, Named};
use crate::{Board, Channel, Recipient, address};

/// How many topics one person may be subscribed to by one call.
const TOPICS: usize = 1_000;
/// The longest name, language, address or url.
const TEXT: usize = 2_000;

/// A person as a service tells of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    /// Only the one of the path.
    id: Option<String>,
    #[serde(default)]
    name: String,
    locale: Option<String>,
    email: Option<String>,
    push_url: Option<String>,
    /// All that they are subscribed to from now on; left out: as before.
    topics: Option<Vec<String>>,
}

pub(super) async fn put(
    State(door): State<Door>,
    Named(id): Named<String>,
    headers: HeaderMap,
    body: Body,
) -> Outcome {
    let told: Told = read::json(&headers, body).await?;
    told.check(&id)?;
    let board = &*door.api.board;
    kept_here(board)?;
    let recipient = Recipient {
        id: id.clone(),
        name: told.name,
        locale: told.locale,
        email: told.email,
        push_url: told.push_url,
    };
    reachable(&recipient, door.api.options.private_push)?;
    board.put(&recipient).await?;
    if let Some(topics) = told.topics {
        subscribe(board, &id, &topics).await?;
    }
    show(board, &id).await
}

pub(super) async fn get(State(door): State<Door>, Named(id): Named<String>) -> Outcome {
    show(&*door.api.board, &id).await
}

pub(super) async fn delete(State(door): State<Door>, Named(id): Named<String>) -> Outcome {
    match door.api.board.remove(&id).await? {
        true => Ok(no_content()),
        false => Err(unknown()),
    }
}

pub(super) fn unknown() -> Problem {
    Problem::unknown(
        "there is no such recipient; `PUT /recipients/{id}` makes one, unless people are kept in your own directory",
    )
}

/// Refuses to change people who are kept elsewhere.
pub(super) fn kept_here(board: &dyn Board) -> Result<(), Problem> {
    match board.keeps_people() {
        true => Ok(()),
        false => {
            let detail = "people and topics are kept in a directory of your own, which is asked for them; change them \
                there. Only what people want is kept here";
            Err(Problem::new(StatusCode::CONFLICT, "own_directory", detail))
        }
    }
}

impl Told {
    fn check(&self, id: &str) -> Result<(), Problem> {
        if self.id.as_ref().is_some_and(|other| other != id) {
            return Err(Problem::invalid(
                "the id in the body is not the one in the path; leave it out",
            ));
        }
        let texts = [
            ("name", Some(&self.name)),
            ("locale", self.locale.as_ref()),
            ("email", self.email.as_ref()),
            ("push_url", self.push_url.as_ref()),
        ];
        for (field, text) in texts {
            let wrong = text.is_some_and(|text| text.len() > TEXT || text.chars().any(char::is_control));
            if wrong {
                let detail =
                    format!("`{field}` has control characters or more than {TEXT} bytes; correct it");
                return Err(Problem::invalid(detail));
            }
        }
        let topics = self.topics.as_deref().unwrap_or_default();
        if topics.len() > TOPICS {
            let detail =
                format!("more than {TOPICS} topics; subscribe by `POST /topics/{{topic}}/subscribers`");
            return Err(Problem::invalid(detail));
        }
        topics
            .iter()
            .try_for_each(|topic| read::id(topic.clone(), "topic").map(drop))
    }
}

/// Refuses an address that nothing can be sent to, while whoever gives it is there to correct it.
fn reachable(recipient: &Recipient, private: bool) -> Result<(), Problem> {
    let given = [
        (Channel::Email, "email", &recipient.email),
        (Channel::Push, "push_url", &recipient.push_url),
    ];
    for (channel, field, text) in given {
        if text.as_deref().is_none_or(str::is_empty) {
            continue;
        }
        if let Err(problem) = address::of(recipient, channel) {
            return Err(Problem::invalid(format!(
                "{problem}; correct `{field}`, or leave it out"
            )));
        }
    }
    match recipient.push_url.as_deref() {
        Some(url) if !url.is_empty() => {
            let refused = crate::deliver::refused(url, private);
            refused.map_or(Ok(()), |text| Err(Problem::invalid(format!("`push_url` {text}"))))
        }
        _ => Ok(()),
    }
}

/// Makes these the subscriptions of a person. A crash in between leaves some; the same call again does the rest.
async fn subscribe(board: &dyn Board, id: &str, wanted: &[String]) -> Result<(), Problem> {
    let ids = [id.to_owned()];
    let had = board.topics(id).await?;
    for topic in had.iter().filter(|topic| !wanted.contains(topic)) {
        board.unsubscribe(topic, &ids).await?;
    }
    for topic in wanted.iter().filter(|topic| !had.contains(topic)) {
        board.subscribe(topic, &ids).await?;
    }
    Ok(())
}

async fn show(board: &dyn Board, id: &str) -> Outcome {
    let member = board.recipient(id).await?.ok_or_else(unknown)?;
    let mut answer = document(&member.recipient)?;
    // Who is in which topic is known elsewhere then.
    if board.keeps_people() {
        answer["topics"] = json!(board.topics(id).await?);
    }
    answer["preferences"] = document(&member.preferences)?;
    Ok(json_answer(StatusCode::OK, &answer))
}
