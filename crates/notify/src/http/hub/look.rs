//! The task that looks into the feed of one person while somebody watches it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{StoreError, causes};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::news::{News, OVERLAP, RECENT};
use super::{Inner, Room};
use crate::Entry;

/// How often it looks when nobody nudges.
const EVERY: Duration = Duration::from_secs(1);
/// How often it looks at most: a flood of nudges becomes one look.
const SOONEST: Duration = Duration::from_millis(50);
/// How often it looks while the database fails.
const FAILING: Duration = Duration::from_secs(5);

/// A new room, and its task.
pub(super) fn begin(hub: &Arc<Inner>, user: &str) -> Room {
    let (nudge, gone) = (Arc::new(Notify::new()), hub.stop.child_token());
    let looks = Looks {
        hub: Arc::clone(hub),
        user: user.to_owned(),
        known: HashSet::new(),
        unread: None,
        owed: 0,
        since: None,
    };
    tokio::spawn(run(looks, nudge.clone(), gone.clone()));
    Room {
        seats: Vec::new(),
        nudge,
        gone,
    }
}

struct Looks {
    hub: Arc<Inner>,
    user: String,
    /// What the last look saw. It covers all that the next one may see again.
    known: HashSet<i64>,
    unread: Option<u64>,
    /// By how many more the count grew until the last look than were seen.
    owed: u64,
    /// When the last look that found anything out began.
    since: Option<Instant>,
}

async fn run(mut looks: Looks, nudge: Arc<Notify>, gone: CancellationToken) {
    let mut failing = false;
    let endless = async {
        loop {
            let pause = match looks.look().await {
                Ok(news) => {
                    failing = false;
                    if !news.is_empty() {
                        looks.hub.tell(&looks.user, news);
                    }
                    EVERY
                }
                Err(error) => {
                    // Once an outage: the streams stay open, and the next look tells what was missed.
                    if !std::mem::replace(&mut failing, true) {
                        let error = causes(&error);
                        tracing::warn!(%error, "an open feed cannot be looked into; it is tried again");
                    }
                    FAILING
                }
            };
            tokio::time::sleep(SOONEST).await;
            let _ = tokio::time::timeout(pause, nudge.notified()).await;
        }
    };
    gone.run_until_cancelled(endless).await;
}

impl Looks {
    async fn look(&mut self) -> Result<News, StoreError> {
        // It is never closed, so there is always a turn.
        let _turn = self.hub.looks.acquire().await;
        let begun = Instant::now();
        let missed = self.since.map_or(Duration::ZERO, |since| begun - since);
        let within = u64::try_from((OVERLAP + missed).as_millis()).unwrap_or(u64::MAX);
        let board = &self.hub.board;
        let recent = board.recent(&self.user, within).await?;
        let unread = board.unread(&self.user).await?;
        self.since = Some(begun);

        let before = self.unread.replace(unread);
        let changed = before != Some(unread);
        let full = recent.len() >= RECENT;
        let seen: HashSet<i64> = recent.iter().map(|entry| entry.id).collect();
        let new = recent.iter().filter(|entry| !self.known.contains(&entry.id));
        let counted = |entry: &&Entry| entry.archived_at.is_none() && entry.read_at.is_none();
        let found = new.clone().filter(counted).count() as u64;
        let mut news = News::of(new)?;
        self.known = seen;
        news.unread = changed.then_some(unread);
        // The count is read later, so that it may be ahead by one look. What is not found then was committed too late
        // after the time in it to be recent. What was owed is found first: others may have come with it.
        news.reload |= found < self.owed;
        let grew = before.map_or(0, |before| unread.saturating_sub(before));
        self.owed = grew.saturating_sub(found.saturating_sub(self.owed));
        // What did not fit may be newer than what did.
        news.reload |= full && (changed || !news.entries.is_empty());
        Ok(news)
    }
}
