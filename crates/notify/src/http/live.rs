//! `GET /feed/{id}/live`: server-sent events.
//!
//! Three kinds: `unread` with the count, `entry` with a new notification and its id, `reload` where more happened than
//! is told. An entry may come twice, after coming back above all; its id tells.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use futures_util::stream;
use serde::Deserialize;
use tokio::time::Instant;

use super::guard::{Door, Person};
use super::hub::{Full, News, Seat, catch_up};
use super::problem::{Outcome, Problem, text_answer};
use super::read::Asked;

/// How often something is said when there is nothing to say, so that nobody on the way takes the silence for an end,
/// and a reader who is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a stream lasts. Its reader comes back at once, and must show a signature that still counts.
const LIFE: Duration = Duration::from_secs(3_600);
/// How long a reader waits before it comes back, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

#[derive(Deserialize)]
pub(super) struct Resume {
    /// For readers that cannot set `Last-Event-ID`.
    last_event_id: Option<i64>,
}

pub(super) async fn live(
    State(door): State<Door>,
    Person(user): Person,
    Asked(resume): Asked<Resume>,
    headers: HeaderMap,
) -> Outcome {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let last = last.and_then(|last| last.parse().ok()).or(resume.last_event_id);
    // The seat comes first: what is stored while the past is read is news then.
    let seat = door.api.hub.join(&user).map_err(full)?;
    let past = catch_up(&*door.api.board, &user, last).await?;
    let stream = Stream {
        first: Some(format!("{RETRY}{}", past.text(&HashSet::new()))),
        known: past.ids().into_iter().chain(last).collect(),
        counted: past.unread(),
        ends: Instant::now() + LIFE,
        seat,
    };
    let body = stream::unfold(stream, |mut stream| async {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), stream))
    });
    let mut answer = text_answer(StatusCode::OK, "text/event-stream", Body::from_stream(body));
    // A proxy that collects answers would make a live feed a late one.
    let headers = answer.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(answer)
}

struct Stream {
    first: Option<String>,
    /// What the reader was told at first, and may be news to the rest.
    known: HashSet<i64>,
    /// The count that the reader was told at first, until the first news.
    counted: Option<u64>,
    ends: Instant,
    seat: Seat,
}

impl Stream {
    /// The next text; None at the end: the server stops, the time is over, or the reader is too slow.
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            tokio::select! {
                biased;
                () = self.seat.stop.cancelled() => return None,
                () = tokio::time::sleep_until(self.ends) => return None,
                news = self.seat.news.recv() => {
                    let news = news?;
                    let mut text = news.text(&self.known);
                    // The first look counts what came after the past was read, and does not know it for new.
                    if self.counted.take().is_some_and(|count| news.is_ahead_of(count, &self.known)) {
                        text.push_str(News::reload());
                    }
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(": still here\n\n".to_owned()),
            }
        }
    }
}

fn full(full: Full) -> Problem {
    match full {
        Full::OfOne => {
            let detail = "too many live feeds of this recipient are open; close one, then try again";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "streams", detail)
        }
        Full::Everybody => {
            let detail =
                "too many live feeds are open; ask for `/feed/{id}` now and then, and try again later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "streams", detail)
        }
        Full::Closed => {
            let detail = "the server is shutting down; come back in a moment";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail)
        }
    }
}
