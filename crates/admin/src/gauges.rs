//! What is asked of the database when somebody asks for metrics.

use postrider_core::{JobState, Scope, Status};
use prometheus_client::registry::Registry;

use crate::admin::Picture;
use crate::health::Seen;
use crate::series::{Gauges, Labels, only, place};

/// Numbers that are as old as the last look at the database.
#[derive(Default)]
pub(crate) struct Sampled {
    backlog: Gauges,
    oldest: Gauges,
    writer_open: Gauges,
    parked: Gauges,
    paused: Gauges,
    jobs: Gauges,
    circuit_open: Gauges,
    health: Gauges,
    database_up: Gauges,
}

impl Sampled {
    #[rustfmt::skip]
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("postrider_backlog",
            "Events that should have been published by now", self.backlog.clone());
        registry.register("postrider_oldest_age_seconds",
            "The age of the oldest event that should have been published by now", self.oldest.clone());
        registry.register("postrider_writer_open_seconds",
            "For how long a transaction has been seen to write to the outbox without an end",
            self.writer_open.clone());
        registry.register("postrider_parked", "Parked rows by state, dead ones included", self.parked.clone());
        registry.register("postrider_paused", "What people have paused, by what it is", self.paused.clone());
        registry.register("postrider_jobs", "Jobs that are not over, by state", self.jobs.clone());
        registry.register("postrider_circuit_open",
            "Whether a destination takes nothing from this process", self.circuit_open.clone());
        registry.register("postrider_health",
            "What /health/outbox says: 0 healthy, 1 degraded, 2 failing", self.health.clone());
        registry.register("postrider_database_up",
            "Whether the outbox's database answered", self.database_up.clone());
    }

    /// Makes a circuit known before it opens.
    pub(crate) fn expect_circuit(&self, place: &Labels) {
        drop(self.circuit_open.get_or_create(place));
    }

    /// Shows an outbox as it was last seen.
    pub(crate) fn show(&self, picture: &Picture) {
        let labels = only(&picture.name);
        set(&self.health, &labels, Some(f64::from(picture.health.level as u8)));
        let seen = picture.sample.seen.as_ref().ok();
        set(
            &self.database_up,
            &labels,
            Some(f64::from(u8::from(seen.is_some()))),
        );
        let stats = seen.map(|seen| &seen.stats);
        set(
            &self.backlog,
            &labels,
            stats.map(|stats| stats.unpublished() as f64),
        );
        let oldest = stats.map(|stats| stats.oldest.unwrap_or_default().as_secs_f64());
        set(&self.oldest, &labels, oldest);
        let writer = stats.map(|stats| stats.writer_open_for.unwrap_or_default().as_secs_f64());
        set(&self.writer_open, &labels, writer);
        use Status::{Held, Retrying, Scheduled, Waiting};
        let parked = [
            ("retrying", stats.map(|stats| stats.parked_as(Retrying))),
            ("waiting", stats.map(|stats| stats.parked_as(Waiting))),
            ("held", stats.map(|stats| stats.parked_as(Held))),
            ("scheduled", stats.map(|stats| stats.parked_as(Scheduled))),
            ("dead", stats.map(|stats| stats.dead)),
        ];
        for (state, count) in parked {
            let mut labels = labels.clone();
            labels.push(("state", state.to_owned()));
            set(&self.parked, &labels, count.map(|count| count as f64));
        }
        self.show_decisions(&labels, seen);
        self.show_circuits(picture);
    }

    /// What people have decided and begun.
    fn show_decisions(&self, labels: &Labels, seen: Option<&Seen>) {
        let paused = |is_one: fn(&Scope) -> bool| {
            let controls = seen?.controls.iter();
            Some(controls.filter(|one| one.paused && is_one(&one.scope)).count())
        };
        let jobs = |state| Some(seen?.jobs.iter().filter(|job| job.state == state).count());
        let numbers = [
            (
                &self.paused,
                "what",
                "outbox",
                paused(|scope| matches!(scope, Scope::Outbox)),
            ),
            (
                &self.paused,
                "what",
                "destination",
                paused(|scope| matches!(scope, Scope::Destination(_))),
            ),
            (
                &self.paused,
                "what",
                "key",
                paused(|scope| matches!(scope, Scope::Key(_))),
            ),
            (&self.jobs, "state", "running", jobs(JobState::Running)),
            (&self.jobs, "state", "paused", jobs(JobState::Paused)),
        ];
        for (gauges, label, word, count) in numbers {
            let mut labels = labels.clone();
            labels.push((label, word.to_owned()));
            set(gauges, &labels, count.map(|count| count as f64));
        }
    }

    /// Circuits were made known with the outbox; here they are opened and closed.
    fn show_circuits(&self, picture: &Picture) {
        for route in &picture.routes {
            let open = picture
                .circuits
                .iter()
                .any(|circuit| circuit.destination == *route);
            let gauge = self.circuit_open.get_or_create(&place(&picture.name, route));
            gauge.set(f64::from(u8::from(open)));
        }
    }
}

/// Sets a number, or takes it away: one of which nothing is known must not look like the truth.
fn set(gauges: &Gauges, labels: &Labels, value: Option<f64>) {
    match value {
        Some(value) => {
            gauges.get_or_create(labels).set(value);
        }
        None => {
            gauges.remove(labels);
        }
    }
}
