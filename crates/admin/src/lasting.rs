//! Trouble that lasts until it is said to be over, as the relays of this process tell it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::RelayId;
use postrider_relay::Run;

/// What lasts, by outbox, by what it is about, and by who told of it: several runs of one outbox share a process, and
/// what is over for one of them may last for another. Bounded by the configuration, because all of these have names
/// there.
#[derive(Debug)]
pub(crate) struct Lasting<K, T>(Mutex<BTreeMap<(String, K, RelayId), Trouble<T>>>);

#[derive(Debug)]
struct Trouble<T> {
    said: T,
    since: Instant,
}

impl<K, T> Default for Lasting<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, T: Clone> Lasting<K, T> {
    /// It began, or is still so: then what was said last is kept, since the time when it began.
    pub(crate) fn told(&self, run: Run<'_>, about: K, said: T) {
        let mut all = self.all();
        let trouble = all.entry(place(run, about)).or_insert_with(|| Trouble {
            said: said.clone(),
            since: Instant::now(),
        });
        trouble.said = said;
    }

    /// It is over.
    pub(crate) fn over(&self, run: Run<'_>, about: K) {
        self.all().remove(&place(run, about));
    }

    /// The run is over, and with it what it told: nobody else could say that it ended.
    pub(crate) fn forget(&self, run: Run<'_>) {
        self.all().retain(|(_, _, relay), _| relay != run.relay);
    }

    /// What lasts in an outbox, and for how long: of each thing, what has lasted longest.
    pub(crate) fn of(&self, outbox: &str) -> Vec<(K, T, Duration)> {
        let mut oldest: BTreeMap<K, (T, Duration)> = BTreeMap::new();
        let all = self.all();
        // One moment for all of them: what is looked at later has not lasted longer for that.
        let now = Instant::now();
        for ((name, about, _), trouble) in all.iter() {
            let lasted = now.saturating_duration_since(trouble.since);
            if name == outbox && oldest.get(about).is_none_or(|(_, other)| *other < lasted) {
                oldest.insert(about.clone(), (trouble.said.clone(), lasted));
            }
        }
        let oldest = oldest.into_iter();
        oldest
            .map(|(about, (said, lasted))| (about, said, lasted))
            .collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, K, RelayId), Trouble<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place<K>(run: Run<'_>, about: K) -> (String, K, RelayId) {
    (run.outbox.to_owned(), about, run.relay.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_for_one_run_may_last_for_another() {
        let relays = [RelayId("one".into()), RelayId("two".into())];
        let run = |n: usize| Run {
            outbox: "main",
            relay: &relays[n],
        };
        let lasting: Lasting<&str, &str> = Lasting::default();
        let now = || {
            let lasts = lasting.of("main").into_iter();
            lasts.map(|(about, said, _)| (about, said)).collect::<Vec<_>>()
        };
        lasting.told(run(0), "orders", "refused");
        lasting.told(run(1), "orders", "gone");
        assert_eq!(
            now(),
            [("orders", "refused")],
            "one circuit, as long as it has been open"
        );
        lasting.over(run(0), "orders");
        assert_eq!(now(), [("orders", "gone")]);
        lasting.told(run(1), "orders", "still gone");
        assert_eq!(now(), [("orders", "still gone")]);
        assert!(lasting.of("other").is_empty());
        lasting.forget(run(1));
        assert!(now().is_empty(), "a run that ended takes its troubles along");
    }
}
