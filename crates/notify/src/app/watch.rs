//! What a worker tells becomes lines of the log and bells, and what a board counted becomes metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_admin::Notified;
use tokio::time::Instant;

use super::bells::Bells;
use crate::{Tally, Told};

/// How soon the same sentence is warned of again. What stands aside is tried over and over, and there may be many that
/// do so for one reason.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// How many sentences are remembered for that.
const SENTENCES: usize = 100;

/// Hears a worker.
pub(super) fn hear(bells: Arc<Bells>) -> impl Fn(&Told) + Send + Sync + 'static {
    let failing = AtomicBool::new(false);
    let warned = Warned::default();
    move |told| match told {
        // Once an outage: it is tried again every few seconds, for as long as it lasts.
        Told::Failed(error) => match failing.swap(true, Ordering::Relaxed) {
            true => tracing::debug!(error, "notifications still cannot be worked on"),
            false => tracing::warn!(error, "notifications cannot be worked on; it is tried again"),
        },
        Told::Well => {
            failing.store(false, Ordering::Relaxed);
            tracing::info!("notifications can be worked on again");
        }
        Told::PutAside(reason) => match warned.is_news(reason) {
            true => tracing::warn!(reason, "a fan-out or a digest stands aside; it is tried again"),
            false => tracing::debug!(reason, "another fan-out or digest stands aside, or it still does"),
        },
        Told::Stepped(step) => {
            let (event_id, stored, finished) = (&step.event_id, step.stored, step.finished);
            tracing::debug!(event_id, stored, finished, "a fan-out went on");
            bells.ring_for_all();
        }
        Told::Digested => bells.ring_for_all(),
        Told::Purged(removed) => tracing::info!(removed, "removed old notifications"),
    }
}

/// What a board counted, as metrics have it.
pub(super) fn notified(tally: &Tally) -> Notified {
    let (workflows, standing) = (tally.workflows(), tally.standing());
    let counts = workflows.into_iter().map(|(workflow, counted)| {
        let counts = [
            counted.stored,
            counted.duplicates,
            counted.muted,
            counted.collected,
            counted.digests,
        ];
        (workflow, counts)
    });
    Notified {
        workflows: counts.collect(),
        unfinished: [standing.fan_outs, standing.digests],
        aside: [standing.fan_outs_aside, standing.digests_aside],
    }
}

/// What was warned of, and when.
#[derive(Default)]
struct Warned(Mutex<HashMap<String, Instant>>);

impl Warned {
    fn is_news(&self, sentence: &str) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        warned.retain(|_, at| now < *at + WARN_EVERY);
        if warned.contains_key(sentence) {
            return false;
        }
        // With more sentences than that at a time each is news: better told too often than not at all.
        if warned.len() < SENTENCES {
            warned.insert(sentence.to_owned(), now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sentence_is_news_once_a_minute() {
        let warned = Warned::default();
        assert!(warned.is_news("a"));
        assert!(!warned.is_news("a"));
        assert!(warned.is_news("b"));
        tokio::time::advance(WARN_EVERY).await;
        assert!(warned.is_news("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_sentences_is_bounded() {
        let warned = Warned::default();
        for n in 0..1_000 {
            assert!(warned.is_news(&n.to_string()));
        }
        assert_eq!(warned.0.lock().unwrap().len(), SENTENCES);
    }
}
