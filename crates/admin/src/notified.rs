//! What notifications are counted by. The number of series is that of the workflows, which are configured.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::registry::Registry;

use crate::series::{Counters, Gauges, Labels};

/// What was counted about notifications when it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    /// By the name of a workflow, how many notifications were stored, were there before and were not wanted, how many
    /// events were collected, and how many digests were told.
    pub workflows: Vec<(String, [u64; 5])>,
    /// How many fan-outs and digests are not done yet.
    pub unfinished: [u64; 2],
    /// How many of them stand aside, because they cannot go on as they are.
    pub aside: [u64; 2],
}

type Ask = Arc<dyn Fn() -> Notified + Send + Sync>;

/// The counters, and who knows what is in them.
#[derive(Default)]
pub(crate) struct Notifications {
    ask: RwLock<Option<Ask>>,
    counters: [Counters; 5],
    unfinished: Gauges,
    aside: Gauges,
}

/// The names of the counters, in their order.
const COUNTERS: [(&str, &str); 5] = [
    ("stored", "Notifications that were stored"),
    ("duplicates", "Notifications that were there before"),
    ("muted", "Notifications that somebody did not want"),
    ("collected", "Events that were put into a digest of somebody"),
    ("digests", "Digests that were told"),
];

/// What is not done at once, in the order of the gauges.
const KINDS: [&str; 2] = ["fan_out", "digest"];

impl Notifications {
    pub(crate) fn watch(&self, ask: Ask) {
        *self.ask.write().unwrap_or_else(PoisonError::into_inner) = Some(ask);
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        for ((name, help), counters) in COUNTERS.iter().zip(&self.counters) {
            registry.register(format!("postrider_notify_{name}"), *help, counters.clone());
        }
        let unfinished = "Fan-outs and digests that are not done yet, in the database";
        registry.register("postrider_notify_unfinished", unfinished, self.unfinished.clone());
        let aside = "Fan-outs and digests that cannot go on as they are, in the database";
        registry.register("postrider_notify_aside", aside, self.aside.clone());
    }

    pub(crate) fn show(&self) {
        let ask = self.ask.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(notified) = ask.map(|ask| ask()) else {
            return;
        };
        for (workflow, counts) in notified.workflows {
            let labels: Labels = vec![("workflow", workflow)];
            for (counters, count) in self.counters.iter().zip(counts) {
                let counter = counters.get_or_create(&labels);
                counter.inner().store(count, Ordering::Relaxed);
            }
        }
        let gauges = [
            (&self.unfinished, notified.unfinished),
            (&self.aside, notified.aside),
        ];
        for (gauge, counts) in gauges {
            for (kind, count) in KINDS.iter().zip(counts) {
                let labels: Labels = vec![("kind", (*kind).to_owned())];
                gauge.get_or_create(&labels).set(count as f64);
            }
        }
    }
}
