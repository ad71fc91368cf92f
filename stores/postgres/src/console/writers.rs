//! For how long somebody has been writing to the outbox without an end (fault A6).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::View;
use crate::clock::Micros;
use crate::error::Result;
use crate::horizon::WRITERS;

/// Since when writers have been seen. The server knows when their transactions began, but tells a relay's role nothing
/// of that for the sessions of others.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the server was started, in microseconds: after a restart the same number is another transaction.
    server: i64,
    since: HashMap<String, Instant>,
}

impl Seen {
    /// For how long the longest of those who write now has been seen to; the others are forgotten. Whoever looks at the
    /// writers says it here, so that the first who asks is told of a transaction that a relay has waited for.
    pub(crate) fn longest(&self, server: i64, writers: impl IntoIterator<Item = String>) -> Option<Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.server != server {
            state.since.clear();
        }
        let known = std::mem::take(&mut state.since);
        let since = |writer: String| {
            let since = known.get(&writer).copied().unwrap_or(now);
            (writer, since)
        };
        state.since = writers.into_iter().map(since).collect();
        state.server = server;
        state.since.values().min().map(|since| now - *since)
    }
}

/// For how long the oldest writer has been seen.
pub(super) async fn open_for(view: &View) -> Result<Option<Duration>> {
    let row = view.client().query_one(&view.sql(WRITERS), &[]).await?;
    let writers: Option<Vec<String>> = row.try_get(0)?;
    let server = row.try_get::<_, Micros>(1)?.0;
    Ok(view.work.seen.longest(server, writers.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_who_stays_grows_old() {
        let seen = Seen::default();
        let at = |server, writers: &[&str]| {
            let writers = writers.iter().map(|writer| (*writer).to_owned());
            seen.longest(server, writers).map(|open| open.as_secs())
        };
        assert_eq!(at(1, &["3/1", "4/1"]), Some(0));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(at(1, &["4/1", "3/2"]), Some(5));
        assert_eq!(at(1, &["3/2"]), Some(0), "the one that stayed has ended");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(at(2, &["3/2"]), Some(0), "another one, on a restarted server");
        assert_eq!(at(2, &[]), None);
    }
}
