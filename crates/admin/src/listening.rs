//! How the listeners of this process are: `/health/listener` and its gauges.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use postrider_core::Effects;
use postrider_listener::{Health, Listener};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::series::{Gauges, Labels};

/// Asks one listener how it is. Its type is gone here: every database has listeners of its own kind.
type Ask = Arc<dyn Fn() -> Health + Send + Sync>;

/// The listeners that are watched.
#[derive(Default)]
pub(crate) struct Listening {
    listeners: RwLock<Vec<(String, Ask)>>,
    well: Gauges,
    held: Gauges,
}

impl Listening {
    pub(crate) fn watch<E: Effects>(&self, listener: &Listener<E>) {
        let (consumer, listener) = (listener.consumer().to_owned(), listener.clone());
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push((consumer, Arc::new(move || listener.health())));
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let well = "Whether messages can flow to a consumer: 1 or 0";
        registry.register("postrider_listener_well", well, self.well.clone());
        let held = "Messages that were received and not settled";
        registry.register("postrider_listener_held", held, self.held.clone());
    }

    /// Shows in the gauges how all are. A consumer with several queues has a listener for each: it is well when all of
    /// them are.
    pub(crate) fn show(&self) {
        for (consumer, (well, held)) in by_consumer(self.ask()) {
            let labels: Labels = vec![("consumer", consumer)];
            self.well.get_or_create(&labels).set(f64::from(u8::from(well)));
            self.held.get_or_create(&labels).set(held as f64);
        }
    }

    /// The answer of `/health/listener`, and whether messages can flow to every consumer.
    pub(crate) fn document(&self) -> (bool, Value) {
        let asked = self.ask();
        let all_well = asked.iter().all(|(_, health)| health.is_well());
        let listeners: Vec<Value> = asked
            .iter()
            .map(|(consumer, health)| one(consumer, health))
            .collect();
        (
            all_well,
            json!({ "status": word(all_well), "listeners": listeners }),
        )
    }

    fn ask(&self) -> Vec<(String, Health)> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let asked = listeners.iter().map(|(consumer, ask)| (consumer.clone(), ask()));
        asked.collect()
    }
}

/// Whether all of a consumer's listeners are well, and how much they hold together.
fn by_consumer(asked: Vec<(String, Health)>) -> BTreeMap<String, (bool, usize)> {
    let mut all = BTreeMap::new();
    for (consumer, health) in asked {
        let (well, held) = all.entry(consumer).or_insert((true, 0));
        *well &= health.is_well();
        *held += health.held;
    }
    all
}

fn one(consumer: &str, health: &Health) -> Value {
    json!({
        "consumer": consumer,
        "status": word(health.is_well()),
        "running": health.running,
        "held": health.held,
        "stuck": health.stuck,
        "broker": health.source,
        "effects": health.store,
        "deadLetters": health.letters,
    })
}

fn word(well: bool) -> &'static str {
    match well {
        true => "healthy",
        false => "failing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_well_when_all_of_its_listeners_are() {
        let health = |running, held| {
            let mut health = Health::default();
            (health.running, health.held) = (running, held);
            health
        };
        let asked = [("a", true, 2), ("a", false, 3), ("a", true, 0), ("b", true, 1)];
        let asked = asked.map(|(consumer, running, held)| (consumer.to_owned(), health(running, held)));
        let all = by_consumer(asked.into());
        assert_eq!((all["a"], all["b"], all.len()), ((false, 5), (true, 1), 2));
    }
}
