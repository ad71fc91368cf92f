//! Series and their labels. Every label is a name from the configuration or one of a few words, so their number is
//! bounded.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// From a publish within one machine to an outage of an hour.
const LATENCIES: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3_600.0,
];

pub(crate) type Labels = Vec<(&'static str, String)>;
pub(crate) type Counters = Family<Labels, Counter>;
pub(crate) type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
pub(crate) type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// One of times.
pub(crate) fn histogram() -> Histogram {
    Histogram::new(LATENCIES)
}

/// The labels of a destination of an outbox.
pub(crate) fn place(outbox: &str, route: &str) -> Labels {
    vec![("outbox", outbox.to_owned()), ("route", route.to_owned())]
}

/// The labels of an outbox.
pub(crate) fn only(outbox: &str) -> Labels {
    vec![("outbox", outbox.to_owned())]
}

/// The labels of a call on the database.
pub(crate) fn call(outbox: &str, doing: &str) -> Labels {
    let mut labels = only(outbox);
    labels.push(("doing", doing.to_owned()));
    labels
}
