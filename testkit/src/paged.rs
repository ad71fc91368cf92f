//! A console whose listings take many pages: each ends with its time, whatever is behind it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::*;

use crate::forward::Answer;
use crate::{MemoryStore, forward_console};

/// How long a page takes, as on SQLite.
const PAGE: Duration = Duration::from_millis(120);

/// An outbox with one refused event, which only the last of some pages of any listing has.
pub struct Paged {
    store: MemoryStore,
    pages: usize,
    asked: AtomicUsize,
}

impl Paged {
    /// The id of the event.
    pub const EVENT: &'static str = "slow-1";

    /// With so many pages.
    pub fn new(pages: usize) -> Self {
        Self {
            store: MemoryStore::new(1),
            pages,
            asked: AtomicUsize::new(0),
        }
    }
}

fn refused() -> EventRecord {
    EventRecord {
        seq: Seq(1),
        event: Err("not of interest".to_owned()),
        bad_payload: None,
        event_id: Paged::EVENT.into(),
        event_type: "Placed".to_owned(),
        key: "ORDER/1".to_owned(),
        created_at: Timestamp(0),
        replay: None,
        routes: vec![RecordedRoute::new(None, Status::Retrying)],
        timeline: Vec::new(),
        original: None,
    }
}

impl Console for Paged {
    fn stats(&self) -> Answer<'_, Stats> {
        Box::pin(async {
            let mut stats = self.store.stats().await?;
            stats.parked.insert(Status::Retrying.as_str(), 1);
            Ok(stats)
        })
    }

    fn list(&self, list: List) -> Answer<'_, Listing> {
        Box::pin(async move {
            tokio::time::sleep(PAGE).await;
            let page = match list.from {
                Some(from) => usize::try_from(from.place()?.0).unwrap_or(usize::MAX),
                None => 0,
            };
            let asked = self.asked.fetch_add(1, Ordering::SeqCst);
            assert_eq!(page, asked, "each page is asked for once, in order");
            Ok(match page + 1 == self.pages {
                true => Listing {
                    events: vec![refused()],
                    next: None,
                },
                false => Listing {
                    events: Vec::new(),
                    next: Some(Cursor((page + 1).to_string())),
                },
            })
        })
    }

    forward_console!(store: show, sent, groups, act, control, controls, jobs);
}
