//! What a stream is told.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind};
use serde_json::json;

use crate::{Board, Entry};

/// How far back a look goes beyond the one before it. A notification is visible when its transaction commits, which is
/// later than the time in it and not in the order of the ids; a chunk takes tens of milliseconds, not seconds.
pub(super) const OVERLAP: Duration = Duration::from_secs(10);
/// The most that [`crate::Feed::recent`] answers, and the most that a reader who comes back is told.
pub(super) const RECENT: usize = 100;
/// The most text at once. Who would be told more reads the first page of the feed instead.
const TEXT: usize = 128 * 1024;

const RELOAD: &str = "event: reload\ndata: {}\n\n";

/// An entry as it is sent.
#[derive(Debug)]
pub(super) struct Told {
    id: i64,
    is_read: bool,
    data: String,
}

/// What is new in a feed.
#[derive(Debug, Default)]
pub(in crate::http) struct News {
    pub(super) entries: Vec<Told>,
    /// How many are unread, where that changed.
    pub(super) unread: Option<u64>,
    /// There is more than is told here: the reader had better read the feed again.
    pub(super) reload: bool,
}

impl News {
    /// Of these entries. What is archived is out of the way already.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<Self, StoreError> {
        let mut news = Self::default();
        let mut text = 0;
        for entry in entries.filter(|entry| entry.archived_at.is_none()) {
            let data = serde_json::to_string(entry)
                .map_err(|error| StoreError::new(StoreErrorKind::Other, error.to_string()))?;
            text += data.len();
            if text > TEXT {
                news.reload = true;
                break;
            }
            news.entries.push(Told {
                id: entry.id,
                is_read: entry.read_at.is_some(),
                data,
            });
        }
        Ok(news)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unread.is_none() && !self.reload
    }

    /// The count is higher than this by more than what is here unread and was not known.
    pub(in crate::http) fn is_ahead_of(&self, count: u64, known: &HashSet<i64>) -> bool {
        let entries = self.entries.iter();
        let new = entries
            .filter(|one| !one.is_read && !known.contains(&one.id))
            .count() as u64;
        self.unread
            .is_some_and(|unread| unread > count.saturating_add(new))
            && !self.reload
    }

    pub(in crate::http) fn unread(&self) -> Option<u64> {
        self.unread
    }

    /// Tells the reader to read the feed again.
    pub(in crate::http) fn reload() -> &'static str {
        RELOAD
    }

    /// The ids of the entries.
    pub(in crate::http) fn ids(&self) -> HashSet<i64> {
        self.entries.iter().map(|one| one.id).collect()
    }

    /// As server-sent events, without the entries that are known. JSON has no line breaks of its own.
    pub(in crate::http) fn text(&self, known: &HashSet<i64>) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        if self.reload {
            text.push_str(RELOAD);
        }
        for Told { id, data, .. } in self.entries.iter().filter(|one| !known.contains(&one.id)) {
            let _ = write!(text, "id: {id}\nevent: entry\ndata: {data}\n\n");
        }
        if let Some(unread) = self.unread {
            let data = json!({ "unread": unread });
            let _ = write!(text, "event: unread\ndata: {data}\n\n");
        }
        text
    }
}

/// What a reader is told at first: the unread count, and what they may not know.
///
/// Who names the last id they saw is told what is newer, and what may have become visible late; who names none has just
/// read the feed, and is told of the last seconds. Both are told some things twice rather than not at all.
pub(in crate::http) async fn catch_up(
    board: &dyn Board,
    user: &str,
    last: Option<i64>,
) -> Result<News, StoreError> {
    let unread = board.unread(user).await?;
    let overlap = u64::try_from(OVERLAP.as_millis()).unwrap_or(u64::MAX);
    let mut missed = board.recent(user, overlap).await?;
    let mut reload = missed.len() >= RECENT;
    if let Some(last) = last {
        let newest = board.list(user, None, RECENT, true).await?;
        let anchor = newest.iter().find(|entry| entry.id == last);
        // Where the last one is not among the newest, too much may have happened to tell it all here.
        reload |= anchor.is_none() && newest.len() >= RECENT;
        let late = anchor.map(|entry| entry.created_at.0.saturating_sub(micros(OVERLAP)));
        let wanted = |entry: &Entry| entry.id > last || late.is_some_and(|late| entry.created_at.0 >= late);
        let told: HashSet<i64> = missed.iter().map(|entry| entry.id).collect();
        missed.extend(
            newest
                .into_iter()
                .filter(|one| wanted(one) && !told.contains(&one.id)),
        );
        missed.sort_by_key(|entry| entry.id);
    }
    let mut news = News::of(missed.iter().filter(|entry| Some(entry.id) != last))?;
    news.unread = Some(unread);
    news.reload |= reload;
    Ok(news)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(unread: u64) -> News {
        let one = Told {
            id: 1,
            is_read: false,
            data: "{}".to_owned(),
        };
        News {
            entries: vec![one],
            unread: Some(unread),
            reload: false,
        }
    }

    /// The first look has what the reader knows already, and counts what was committed late since the reader was told.
    #[test]
    fn a_count_that_nothing_new_explains_is_ahead() {
        let (known, nothing) = (HashSet::from([1]), HashSet::new());
        assert!(look(2).is_ahead_of(1, &known));
        assert!(
            !look(2).is_ahead_of(1, &nothing),
            "the one that is here tells why"
        );
        assert!(look(3).is_ahead_of(1, &nothing));
        assert!(!look(1).is_ahead_of(1, &known));
        let reload = News {
            reload: true,
            ..look(3)
        };
        assert!(!reload.is_ahead_of(1, &known), "it says so itself");
        let mut read = look(2);
        read.entries[0].is_read = true;
        assert!(read.is_ahead_of(1, &nothing), "what was read is not counted");
    }
}
