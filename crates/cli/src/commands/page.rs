//! As many events as were asked for, however many pages a store makes of them; and what is said where a search gave up
//! before it knew all.

use std::time::Duration;

use postrider_core::{Console, EventRecord, Filter, List, StoreError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::output::Output;
use crate::wire::Opened;

/// A store answers within a moment and says where it stopped; a person waits a little longer than that for a rare
/// event of a long history.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a search left, over all outboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// There is more than was asked for.
    is_more: bool,
    /// The time was over before the end: nobody knows what else there is.
    is_unknown: bool,
}

/// What a listing says behind what it found.
pub struct Words<'a> {
    /// That there is none, unless it is not known because some outbox could not be asked.
    pub none: Option<&'a str>,
    /// That a higher limit gives more.
    pub more: String,
    /// What it may lack of what was asked for where the search gave up.
    pub missed: &'a str,
    /// The options that make the search of this listing shorter.
    pub narrow: &'a str,
}

impl Rest {
    /// With what the search of another outbox left.
    pub fn and(&mut self, other: Rest) {
        self.is_more |= other.is_more;
        self.is_unknown |= other.is_unknown;
    }

    /// With whether the limit left out some of what was found in several outboxes.
    pub fn limited(&mut self, is_more: bool) {
        self.is_more |= is_more;
    }

    /// Says behind what was `found`, if anything was, that it is all or that it is not. A script that reached its limit
    /// has as many lines as it asked for, and is told only what it cannot see.
    pub fn tell(self, out: Output, found: bool, words: &Words<'_>) -> Result<(), Failure> {
        if out.is_json() {
            return self.partial(words).map_or(Ok(()), |partial| out.value(&partial));
        }
        let lines = self.lines(found, words);
        lines.iter().try_for_each(|line| out.line(line))
    }

    /// That there is none is known only at the end of the search.
    fn lines(self, found: bool, words: &Words<'_>) -> Vec<String> {
        let (seconds, missed, unfinished) = (PATIENCE.as_secs(), words.missed, unfinished(words.narrow));
        let unknown = match found {
            true => format!("… and perhaps {missed}, {seconds} s were not enough: {unfinished}"),
            false => format!("nothing found so far, in {seconds} s: {unfinished}"),
        };
        let none = words.none.filter(|_| !found && !self.is_unknown);
        let lines = [
            none.map(str::to_owned),
            self.is_more.then(|| words.more.clone()),
            self.is_unknown.then_some(unknown),
        ];
        lines.into_iter().flatten().collect()
    }

    /// The last line of a listing that is not finished.
    fn partial(self, words: &Words<'_>) -> Option<Value> {
        self.is_unknown.then(|| {
            json!({
                "partial": true,
                "searched_seconds": PATIENCE.as_secs(),
                "perhaps_missing": words.missed,
                "advice": unfinished(words.narrow),
            })
        })
    }
}

fn unfinished(narrow: &str) -> String {
    format!(
        "the search is not finished; narrow it by {narrow}, or ask for one event with `postrider show ID`"
    )
}

/// What was found, and what was left.
pub async fn page(opened: &Opened, list: List) -> Result<(Vec<EventRecord>, Rest), Failure> {
    let found = search(&*opened.console, list).await;
    found.map_err(|error| Failure::store(&opened.name, &error))
}

async fn search(console: &dyn Console, list: List) -> Result<(Vec<EventRecord>, Rest), StoreError> {
    let until = Instant::now() + PATIENCE;
    let wanted = list.limit as usize;
    let (mut found, mut from) = (Vec::new(), list.from.clone());
    loop {
        let left = u32::try_from(wanted.saturating_sub(found.len())).unwrap_or(u32::MAX);
        let next = List {
            limit: left,
            from: from.take(),
            ..list.clone()
        };
        let listing = console.list(next).await?;
        found.extend(listing.events);
        from = listing.next;
        let (is_full, is_late) = (found.len() >= wanted, Instant::now() > until);
        if from.is_none() || is_full || is_late {
            let rest = Rest {
                is_more: from.is_some() && is_full,
                is_unknown: from.is_some() && !is_full,
            };
            return Ok((found, rest));
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

/// Those with the least key of everything that matches, the least first: a listing has another order, so all of it is
/// looked at, for as long as a person waits.
pub async fn least<K: Ord>(
    opened: &Opened,
    filter: &Filter,
    limit: u32,
    key: impl Fn(&EventRecord) -> K,
) -> Result<(Vec<EventRecord>, Rest), Failure> {
    let until = Instant::now() + PATIENCE;
    let (mut found, mut is_more) = (Vec::new(), false);
    let look = |events: &[EventRecord]| {
        found.extend_from_slice(events);
        found.sort_by_key(&key);
        is_more |= found.len() > limit as usize;
        found.truncate(limit as usize);
        Instant::now() < until
    };
    let is_all = through(opened, filter, look).await?;
    let rest = Rest {
        is_more,
        is_unknown: !is_all,
    };
    Ok((found, rest))
}

#[cfg(test)]
mod tests {
    use postrider_testkit::paged::Paged;

    use super::*;

    async fn found(pages: usize) -> (usize, Rest) {
        let list = List::first(10, Filter::default());
        let (events, rest) = search(&Paged::new(pages), list).await.unwrap();
        (events.len(), rest)
    }

    fn words() -> Words<'static> {
        Words {
            none: Some("no dead events"),
            more: "… and more: raise --limit".to_owned(),
            missed: "more",
            narrow: "--key or --type",
        }
    }

    /// Good news is what is known, not what was not found yet; and no limit helps where time was short.
    #[tokio::test(start_paused = true)]
    async fn a_search_that_gave_up_does_not_say_that_there_is_none() {
        let (events, rest) = found(1_000).await;
        assert_eq!(events, 0);
        for (found, start) in [
            (false, "nothing found so far, in 5 s"),
            (true, "… and perhaps more"),
        ] {
            let lines = rest.lines(found, &words());
            let narrows = |line: &String| line.starts_with(start) && line.contains("by --key or --type");
            assert!(lines.len() == 1 && lines.iter().all(narrows), "{lines:?}");
        }
        let partial = rest.partial(&words()).unwrap();
        assert_eq!(partial["partial"], true);
        assert_eq!(partial["searched_seconds"], 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_that_came_to_its_end_says_what_there_is() {
        let (events, rest) = found(8).await;
        assert_eq!((events, rest), (1, Rest::default()));
        assert_eq!(rest.lines(true, &words()), [] as [&str; 0]);
        assert_eq!(rest.lines(false, &words()), ["no dead events"]);
        assert_eq!(rest.partial(&words()), None);
    }

    #[test]
    fn of_several_outboxes_each_rest_is_told() {
        let mut rest = Rest {
            is_more: true,
            is_unknown: false,
        };
        assert_eq!(rest.lines(true, &words()), [words().more]);
        assert_eq!(rest.partial(&words()), None);
        rest.and(Rest {
            is_more: false,
            is_unknown: true,
        });
        assert_eq!(rest.lines(true, &words()).len(), 2);
    }
}
