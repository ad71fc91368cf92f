//! As many events as were asked for, however many pages a store makes of them.

use std::time::{Duration, Instant};

use postrider_core::{EventRecord, Filter, List};

use crate::failure::Failure;
use crate::wire::Opened;

/// A store answers within a moment and says where it stopped; a person waits a little longer than that for a rare
/// event of a long history.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was found, and whether there may be more.
pub async fn page(opened: &Opened, list: List) -> Result<(Vec<EventRecord>, bool), Failure> {
    let begun = Instant::now();
    let wanted = list.limit as usize;
    let (mut found, mut from) = (Vec::new(), list.from.clone());
    loop {
        let left = u32::try_from(wanted.saturating_sub(found.len())).unwrap_or(u32::MAX);
        let next = List {
            limit: left,
            from: from.take(),
            ..list.clone()
        };
        let listing = opened.console.list(next).await;
        let listing = listing.map_err(|error| Failure::store(&opened.name, &error))?;
        found.extend(listing.events);
        from = listing.next;
        if from.is_none() || found.len() >= wanted || begun.elapsed() > PATIENCE {
            return Ok((found, from.is_some()));
        }
    }
}

/// Events of one page of many.
const PAGE: u32 = 1_000;

/// Goes through everything that matches, a page at a time, for as long as `wants_more` says so; answers whether that
/// was all.
pub async fn through(
    opened: &Opened,
    filter: &Filter,
    mut wants_more: impl FnMut(&[EventRecord]) -> bool,
) -> Result<bool, Failure> {
    let mut list = List::first(PAGE, filter.clone());
    loop {
        let listing = opened.console.list(list.clone()).await;
        let listing = listing.map_err(|error| Failure::store(&opened.name, &error))?;
        let goes_on = wants_more(&listing.events);
        list.from = listing.next;
        if list.from.is_none() || !goes_on {
            return Ok(list.from.is_none());
        }
    }
}
