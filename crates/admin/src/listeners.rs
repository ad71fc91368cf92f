//! What the listeners of this process do, counted for each consumer.

use postrider_listener::{Cause, Note, Observer};
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::series::{Counters, Histograms, Labels, histogram};

/// Counts what listeners do. The consumers have names in the code or the configuration, so that the series are bounded.
#[derive(Clone, Debug)]
pub(crate) struct Listeners {
    received: Counters,
    redelivered: Counters,
    effects: Counters,
    duplicates: Counters,
    reused: Counters,
    retries: Counters,
    dead_letters: Counters,
    seconds: Histograms,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            received: Counters::default(),
            redelivered: Counters::default(),
            effects: Counters::default(),
            duplicates: Counters::default(),
            reused: Counters::default(),
            retries: Counters::default(),
            dead_letters: Counters::default(),
            seconds: Family::new_with_constructor(histogram),
        }
    }
}

impl Listeners {
    #[rustfmt::skip]
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("postrider_listener_received", "Messages received", self.received.clone());
        registry.register("postrider_listener_redeliveries",
            "Messages received that the broker had delivered before", self.redelivered.clone());
        registry.register("postrider_listener_effects", "Events that took effect", self.effects.clone());
        registry.register("postrider_listener_duplicates",
            "Events that had taken effect before: the inbox knew them", self.duplicates.clone());
        registry.register("postrider_listener_reused",
            "Events whose id belongs to another one that took effect; they are dead letters", self.reused.clone());
        registry.register("postrider_listener_retries",
            "Attempts that failed and are made again", self.retries.clone());
        registry.register("postrider_listener_dead_letters",
            "Messages that went to the dead letters, by cause", self.dead_letters.clone());
        registry.register("postrider_listener_handler_seconds",
            "Once a transaction: its time, divided by the events that took effect in it", self.seconds.clone());
    }
}

impl Observer for Listeners {
    fn note(&self, consumer: &str, note: &Note) {
        let labels: Labels = vec![("consumer", consumer.to_owned())];
        let add = |counters: &Counters, by: usize| {
            counters.get_or_create(&labels).inc_by(by as u64);
        };
        match note {
            Note::Received { count, redelivered } => {
                add(&self.received, *count);
                add(&self.redelivered, *redelivered);
            }
            Note::Applied {
                effects,
                duplicates,
                took,
            } => {
                add(&self.effects, *effects);
                add(&self.duplicates, *duplicates);
                if let Some(each) = took.checked_div(u32::try_from(*effects).unwrap_or(u32::MAX)) {
                    self.seconds.get_or_create(&labels).observe(each.as_secs_f64());
                }
            }
            Note::WillRetry { .. } => add(&self.retries, 1),
            Note::DeadLetter { reason, .. } => {
                add(&self.reused, usize::from(reason.cause == Cause::Reused));
                let mut labels = labels.clone();
                labels.push(("cause", reason.cause.as_str().to_owned()));
                self.dead_letters.get_or_create(&labels).inc();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_listener::Reason;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_note_is_counted_under_its_consumer() {
        let (listeners, mut registry) = (Listeners::default(), Registry::default());
        listeners.register(&mut registry);
        let reason = Reason {
            cause: Cause::Reused,
            text: "".into(),
        };
        for note in [
            Note::Received {
                count: 5,
                redelivered: 2,
            },
            Note::Applied {
                effects: 3,
                duplicates: 1,
                took: Duration::from_millis(6),
            },
            Note::DeadLetter {
                event_id: "e".into(),
                reason,
            },
            Note::SourceBack,
        ] {
            listeners.note("billing", &note);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "postrider_listener_received_total{consumer=\"billing\"} 5",
            "postrider_listener_redeliveries_total{consumer=\"billing\"} 2",
            "postrider_listener_effects_total{consumer=\"billing\"} 3",
            "postrider_listener_duplicates_total{consumer=\"billing\"} 1",
            "postrider_listener_reused_total{consumer=\"billing\"} 1",
            "postrider_listener_dead_letters_total{consumer=\"billing\",cause=\"id_reused\"} 1",
            "postrider_listener_handler_seconds_sum{consumer=\"billing\"} 0.002",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
