//! What is counted, and how Prometheus is told. The number of series is bounded by the configuration, whatever
//! producers send: an outbox and a destination have names there, and types of events are counted one by one only up
//! to a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use postrider_core::{Failure, Timestamp, inert};
use postrider_relay::engine::{Confirmed, Note};
use postrider_relay::{Observer, Run};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::admin::Picture;
use crate::gauges::Sampled;
use crate::lasting::Lasting;
use crate::listeners::Listeners;
use crate::listening::Listening;
use crate::notified::Notifications;
use crate::rate::Rate;
use crate::series::{Counters, Histograms, call, histogram, only, place};

/// The longest type that is shown whole.
const TYPE_LENGTH: usize = 128;
/// What the types beyond the limit are counted under.
const OTHER: &str = "other";

/// Counts what the relays of this process do.
pub(crate) struct Metrics {
    /// Destinations that take nothing.
    pub(crate) circuits: Lasting<String, Failure>,
    /// Calls that the database does not answer, by what was being done.
    pub(crate) calls: Lasting<&'static str, String>,
    /// What the listeners of this process do.
    pub(crate) listeners: Listeners,
    pub(crate) listening: Listening,
    pub(crate) notifications: Notifications,
    registry: Registry,
    published: Counters,
    replayed: Counters,
    failed: Counters,
    duplicates: Counters,
    dropped: Counters,
    database_errors: Counters,
    latency: Histograms,
    call: Histograms,
    succeeded_by_type: Counters,
    failed_by_type: Counters,
    types: Mutex<BTreeSet<String>>,
    max_types: usize,
    rates: Mutex<BTreeMap<String, (Rate, Rate)>>,
    begun: Instant,
    gauges: Sampled,
    lines_dropped: Counter,
    late: Gauge<f64, AtomicU64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new(max_types: usize) -> Self {
        let mut it = Self {
            circuits: Lasting::default(),
            calls: Lasting::default(),
            listeners: Listeners::default(),
            listening: Listening::default(),
            notifications: Notifications::default(),
            registry: Registry::default(),
            published: Counters::default(),
            replayed: Counters::default(),
            failed: Counters::default(),
            duplicates: Counters::default(),
            dropped: Counters::default(),
            database_errors: Counters::default(),
            latency: Family::new_with_constructor(histogram),
            call: Family::new_with_constructor(histogram),
            succeeded_by_type: Counters::default(),
            failed_by_type: Counters::default(),
            types: Mutex::default(),
            max_types,
            rates: Mutex::default(),
            begun: Instant::now(),
            gauges: Sampled::default(),
            lines_dropped: Counter::default(),
            late: Gauge::default(),
        };
        it.register();
        it
    }

    #[rustfmt::skip]
    fn register(&mut self) {
        let registry = &mut self.registry;
        self.gauges.register(registry);
        self.listeners.register(registry);
        self.listening.register(registry);
        self.notifications.register(registry);
        registry.register("postrider_published",
            "Deliveries confirmed by this process, one a destination of an event", self.published.clone());
        registry.register("postrider_replayed",
            "Copies that a replay sent, confirmed by this process; no other metric counts them as published",
            self.replayed.clone());
        registry.register("postrider_failed",
            "Publishes that this process saw fail: an event refused or given up, or a destination that took nothing",
            self.failed.clone());
        registry.register("postrider_duplicates",
            "Deliveries left out because the same event had been published before", self.duplicates.clone());
        registry.register("postrider_dropped", "Events that a route drops on purpose", self.dropped.clone());
        registry.register("postrider_database_errors",
            "Calls on the database that failed, by what was being done", self.database_errors.clone());
        registry.register("postrider_publish_latency_seconds",
            "From the event's creation to the destination's confirm", self.latency.clone());
        registry.register("postrider_publish_call_seconds",
            "From handing a batch to the destination's client to its confirm", self.call.clone());
        registry.register("outbox_publish_success",
            "Deliveries confirmed, by type of event", self.succeeded_by_type.clone());
        registry.register("outbox_publish_failure",
            "Events refused or given up, by type of event", self.failed_by_type.clone());
        registry.register("postrider_log_lines_dropped", "Log lines that nobody took", self.lines_dropped.clone());
        registry.register("postrider_loop_late_seconds",
            "By how much the latest relay of this process is behind the time at which its loop had to turn",
            self.late.clone());
    }

    /// Makes the series of an outbox appear before the first event: a rate needs a zero to begin with.
    pub(crate) fn expect<'a>(&self, outbox: &str, destinations: impl Iterator<Item = &'a str>) {
        for route in destinations {
            let place = place(outbox, route);
            for counters in [&self.published, &self.replayed, &self.failed, &self.duplicates] {
                drop(counters.get_or_create(&place));
            }
            drop(self.latency.get_or_create(&place));
            drop(self.call.get_or_create(&place));
            self.gauges.expect_circuit(&place);
        }
        drop(self.failed.get_or_create(&place(outbox, "none")));
        drop(self.dropped.get_or_create(&only(outbox)));
        for doing in ["heartbeat", "read", "settle"] {
            drop(self.database_errors.get_or_create(&call(outbox, doing)));
        }
    }

    /// Published and failed per second, over the last minute.
    pub(crate) fn rates(&self, outbox: &str) -> (f64, f64) {
        let second = self.begun.elapsed().as_secs();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        match rates.get_mut(outbox) {
            Some((published, failed)) => (published.per_second(second), failed.per_second(second)),
            None => (0.0, 0.0),
        }
    }

    /// Everything as OpenMetrics text.
    pub(crate) fn text(
        &self,
        pictures: &[Picture],
        late: Duration,
        lines_dropped: u64,
    ) -> Result<String, fmt::Error> {
        for picture in pictures {
            self.gauges.show(picture);
        }
        self.listening.show();
        self.notifications.show();
        self.late.set(late.as_secs_f64());
        self.lines_dropped.inner().store(lines_dropped, Ordering::Relaxed);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn published(&self, outbox: &str, route: &str, events: &[Confirmed], took: Duration) {
        let place = place(outbox, route);
        let copies = events.iter().filter(|event| event.is_copy).count() as u64;
        let published = events.len() as u64 - copies;
        self.published.get_or_create(&place).inc_by(published);
        self.replayed.get_or_create(&place).inc_by(copies);
        self.call.get_or_create(&place).observe(took.as_secs_f64());
        let now = SystemTime::now();
        let latency = self.latency.get_or_create(&place);
        let mut types: BTreeMap<&str, u64> = BTreeMap::new();
        // A copy is as old as what it is a copy of.
        for event in events.iter().filter(|event| !event.is_copy) {
            *types.entry(&event.event_type).or_default() += 1;
            if let Some(age) = event.created_at.map(|at| age(at, now)) {
                latency.observe(age);
            }
        }
        for (event_type, count) in types {
            self.by_type(&self.succeeded_by_type, event_type, count);
        }
        self.rate(outbox, |(rate, _), second| rate.add(second, published));
    }

    fn failed(&self, outbox: &str, route: &str, event_type: Option<&str>) {
        self.failed.get_or_create(&place(outbox, route)).inc();
        if let Some(event_type) = event_type {
            self.by_type(&self.failed_by_type, event_type, 1);
        }
        self.rate(outbox, |(_, failed), second| failed.add(second, 1));
    }

    fn rate(&self, outbox: &str, add: impl FnOnce(&mut (Rate, Rate), u64)) {
        let second = self.begun.elapsed().as_secs();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        match rates.get_mut(outbox) {
            Some(rate) => add(rate, second),
            None => add(rates.entry(outbox.to_owned()).or_default(), second),
        }
    }

    fn by_type(&self, counters: &Counters, event_type: &str, count: u64) {
        let label = vec![("type", self.type_label(event_type))];
        counters.get_or_create(&label).inc_by(count);
    }

    /// The type, or `other` for one beyond the limit.
    fn type_label(&self, event_type: &str) -> String {
        let shown = inert(event_type, TYPE_LENGTH);
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if types.contains(&*shown) {
            return shown.into();
        }
        if types.len() >= self.max_types {
            return OTHER.to_owned();
        }
        types.insert(shown.clone().into());
        shown.into()
    }
}

/// The age of an event in seconds. The clock of the database or of the producer may be ahead of ours.
fn age(Timestamp(at): Timestamp, now: SystemTime) -> f64 {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_secs_f64() - at as f64 / 1e6).max(0.0)
}

impl Observer for Metrics {
    fn note(&self, run: Run<'_>, note: &Note) {
        let outbox = run.outbox;
        match note {
            Note::Published {
                destination,
                events,
                took,
            } => self.published(outbox, destination.as_str(), events, *took),
            Note::WillRetry {
                destination,
                event_type,
                ..
            } => self.failed(outbox, destination.as_str(), event_type.as_deref()),
            Note::Dead {
                destination,
                event_type,
                ..
            } => {
                let route = destination.as_ref().map_or("none", |name| name.as_str());
                // What cannot be read as an event has no type, but it failed like any other.
                self.failed(outbox, route, event_type.as_deref().or(Some("none")));
            }
            Note::CircuitOpened {
                destination, failure, ..
            } => {
                self.failed(outbox, destination.as_str(), None);
                self.circuits.told(run, destination.to_string(), failure.clone());
            }
            Note::CircuitClosed { destination } => self.circuits.over(run, destination.to_string()),
            Note::Duplicate { destination, .. } => {
                self.duplicates
                    .get_or_create(&place(outbox, destination.as_str()))
                    .inc();
            }
            Note::Dropped { .. } => {
                self.dropped.get_or_create(&only(outbox)).inc();
            }
            Note::StoreBack { doing } => self.calls.over(run, doing),
            Note::StoreFailed { doing, error, .. } => {
                self.calls.told(run, doing, error.clone());
                self.database_errors.get_or_create(&call(outbox, doing)).inc();
            }
            _ => {}
        }
    }

    fn ended(&self, run: Run<'_>) {
        self.circuits.forget(run);
        self.calls.forget(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_capped_and_inert() {
        let metrics = Metrics::new(2);
        assert_eq!(metrics.type_label("a"), "a");
        assert_eq!(metrics.type_label("b\n\u{1b}[31m"), "b\\n\\u{1b}[31m");
        assert_eq!(metrics.type_label("c"), OTHER);
        assert_eq!(metrics.type_label("a"), "a");
        for n in 0..10_000 {
            metrics.by_type(&metrics.succeeded_by_type, &format!("type-{n}"), 1);
        }
        let text = metrics.text(&[], Duration::ZERO, 0).unwrap();
        let series = text
            .lines()
            .filter(|line| line.starts_with("outbox_publish_success_total"));
        assert_eq!(series.count(), 1);
        assert!(
            text.contains("outbox_publish_success_total{type=\"other\"} 10000\n"),
            "{text}"
        );
    }

    #[test]
    fn an_event_from_the_future_has_no_negative_age() {
        assert_eq!(age(Timestamp(i64::MAX), SystemTime::now()), 0.0);
        assert!(age(Timestamp(0), SystemTime::now()) > 1e9);
    }
}
