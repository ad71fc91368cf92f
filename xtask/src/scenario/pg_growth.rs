//! [backlog-growth] [history-growth] What an event costs must not grow with what is queued, nor with what was
//! published.
//!
//! Small runs are made several times, before and after the large ones, and medians are compared: a machine that gets
//! slower meanwhile must not look like growth.

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::{Measure, median};
use super::stage::Stage;
use crate::failure::Result;

const GROWTH: f64 = 1.3;
const FEW: u64 = 10_000;

/// A million queued against ten thousand.
pub(super) fn backlog(stage: &Stage) -> Result<Outcome> {
    let (many, turns) = (stage.size(1_000_000, 60_000), stage.size(5, 2));
    let measure = Measure::new(stage)?;
    let drain = |events: u64| -> Result<f64> {
        let database = measure.database()?;
        measure.fill(&database, events);
        let drained = measure.drain(&database, &["drain"], events)?;
        measure.done(&database);
        Ok(1e6 / drained.per_s)
    };
    let mut few = Vec::new();
    for _ in 0..turns {
        few.push(drain(FEW)?);
    }
    let long = drain(many)?;
    for _ in 0..turns {
        few.push(drain(FEW)?);
    }
    Ok(outcome(median(few), long))
}

/// Millions of published events against none, with the history and the duplicate check on.
pub(super) fn history(stage: &Stage) -> Result<Outcome> {
    let (sent, queued) = (
        stage.size(5_000_000_u64, 100_000),
        stage.size(100_000_u64, 20_000),
    );
    let turns = stage.size(4, 2);
    let measure = Measure::new(stage)?;
    let (young, old) = (measure.database()?, measure.database()?);
    stage.note(&format!("writing {sent} events of history"));
    // Of the last hour, so that the duplicate check has to look among them.
    let sql = format!(
        "SELECT outbox_maintain();
         INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
         outcome, published_at)
         SELECT -n, 'only', outbox_make_id(), 'OrderCreated', 'ORDER', (n % 5000)::text, '{{}}', 'published',
             now() - (n % 3600) * interval '1 second' FROM generate_series(1, {sent}) n"
    );
    measure.server.sql(&old.name, &sql);
    measure.server.sql(&old.name, "VACUUM ANALYZE outbox_sent");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        for (database, times) in [(&young, &mut without), (&old, &mut with)] {
            measure.fill(database, queued);
            let drained = measure.drain(database, &["drain", "--history"], queued)?;
            times.push(1e6 / drained.per_s);
            // Of the young one the history is kept young.
            if database.name == young.name {
                measure.server.sql(&young.name, "TRUNCATE outbox_sent");
            }
        }
    }
    Ok(outcome(median(without), median(with)))
}

fn outcome(before: f64, after: f64) -> Outcome {
    let growth = after / before;
    let mut outcome = Outcome::of(Report::default());
    outcome.bounded("growth", growth, growth <= GROWTH, "at most 1.3");
    outcome.bounded("us_per_event", after, true, "anything");
    outcome.bounded("us_per_event_before", before, true, "anything");
    outcome
}
