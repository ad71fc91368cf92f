//! What is written to the log, as lines that a test can look through.

use std::fmt::Write;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, span};

/// Hands on every event of this process from now on, as one line of level and fields. The first call counts: a
/// process has one log.
pub fn collect(wanted: fn(&Metadata<'_>) -> bool, keep: fn(String)) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let collector = Collector { wanted, keep };
        tracing::subscriber::set_global_default(collector).expect("nobody else collects");
    });
}

struct Collector {
    wanted: fn(&Metadata<'_>) -> bool,
    keep: fn(String),
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (self.wanted)(metadata)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        (self.keep)(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}
