//! [monitoring-sql] The questions that people ask a database about its outbox, in plain SQL on the view
//! `outbox_events`.
//!
//! One relay serves PostgreSQL and SQLite with the same events: some are published, some after five refusals, others
//! are dead, thrown away, refused, held, scheduled or still queued, and some are sent again by a replay. What each
//! query answers is compared with what follows from the list of events. The queries are those of docs/sql-contract.md.

mod ask;
mod expect;
mod mix;

use std::fs;
use std::time::{Duration, Instant};

use postrider_testkit::servers::Postgres;

use self::ask::{Asked, Database};
use self::mix::{AGAIN, Event, Fate, RETRIES};
use super::account::Report;
use super::outcome::Outcome;
use super::process::Process;
use super::stage::Stage;
use super::wait::until;
use crate::failure::{Doing, Failure, Result};

const PATIENCE: Duration = Duration::from_secs(60);
/// The type of the events that are sent again.
const REPLAYED: &str = "OrderCancelled";

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let server = Postgres::start().doing(|| "starting PostgreSQL".to_owned())?;
    let database = server.database();
    fs::write(stage.path("postrider.toml"), configuration(&database.url))?;
    postrider(stage, &["migrate", "up"])?;
    let databases = [
        Database::postgres(&server, &database.name),
        Database::sqlite(&stage.path("shop.db"))?,
    ];
    let events = mix::events(stage.size(20, 1));

    let began = Instant::now();
    publish(stage, &databases, &events)?;
    // The longest that an event may have taken beyond the age it was inserted with.
    let slack = began.elapsed();
    for name in ["pg", "lite"] {
        let discarded = events.iter().filter(|event| event.fate == Fate::Discarded);
        for event in discarded {
            postrider(
                stage,
                &[
                    "dead", "discard", &event.id, "--outbox", name, "--reason", "a test",
                ],
            )?;
        }
    }
    for database in &databases {
        database.insert(events.iter().filter(|event| event.fate == Fate::Pending))?;
    }

    let mut outcome = Outcome::of(Report::default());
    outcome.figure("events", events.len());
    let mut queries = 0;
    for database in &databases {
        let asked = Asked::ask(database)?;
        queries += asked.answers.len();
        let shown = queries == asked.answers.len();
        expect::check(&mut outcome, (database.name(), shown), &asked, &events, slack)?;
    }
    outcome.figure("queries", queries);
    Ok(outcome)
}

/// Lets the relay make of the events what it can, and ends it: what is held is written down when it stops.
fn publish(stage: &Stage, databases: &[Database<'_>], events: &[Event]) -> Result<()> {
    // A directory where a file should be is refused, event by event, and costs nobody else anything.
    let (again, later) = (stage.path("again.jsonl"), stage.path("later.jsonl"));
    fs::create_dir(&again)?;
    fs::create_dir(&later)?;
    for database in databases {
        database.insert(events.iter().filter(|event| event.fate != Fate::Pending))?;
    }
    let run = stage.postrider(stage.directory(), &["run"]);
    let relay = Process::start("the relay", run, &stage.path("relay.log"))?;
    let count = |fate: Fate| events.iter().filter(|event| event.fate == fate).count();
    let refused =
        format!("SELECT count(*) FROM outbox_parked WHERE destination = '{AGAIN}' AND failures >= {RETRIES}");
    all(
        databases,
        "enough refusals",
        &refused,
        count(Fate::PublishedAfterRetries),
    )?;
    fs::remove_dir(&again)?;
    let published =
        "SELECT count(*) FROM outbox_sent WHERE outcome = 'published' AND destination <> 'lines/held'";
    let expected = count(Fate::Published) + count(Fate::PublishedAfterRetries);
    all(
        databases,
        "everything that can be is published",
        published,
        expected,
    )?;
    replay(stage, databases, events)?;
    relay.terminate(PATIENCE)
}

/// Sends some of them again. Copies are no events: no other query may count one.
fn replay(stage: &Stage, databases: &[Database<'_>], events: &[Event]) -> Result<()> {
    for name in ["pg", "lite"] {
        postrider(stage, &["replay", "--type", REPLAYED, "--outbox", name, "--yes"])?;
    }
    let copies = "SELECT count(*) FROM outbox_events WHERE published AND replay_id IS NOT NULL";
    let expected = events.iter().filter(|event| event.event_type == REPLAYED);
    all(databases, "every copy is named as one", copies, expected.count())
}

fn all(databases: &[Database<'_>], what: &str, query: &str, expected: usize) -> Result<()> {
    for database in databases {
        let mut seen = String::new();
        let looked = until(what, PATIENCE, || {
            seen = database.rows(query)?.concat().concat();
            Ok((seen == expected.to_string()).then_some(()))
        });
        looked.doing(|| format!("{}: {seen} of {expected}", database.name()))?;
    }
    Ok(())
}

/// `/dev/full` is a destination that is down: everything written to it fails for want of room.
fn configuration(url: &str) -> String {
    format!(
        r#"
[outbox.pg]
url = "{url}"

[outbox.lite]
url = "sqlite:shop.db"

[broker.lines]
url = "file:lines.jsonl"

[broker.full]
url = "file:/dev/full"

[[route]]
when = {{ aggregate_type = "ORDER" }}
to = [{{ broker = "lines" }}]

[[route]]
when = {{ aggregate_type = "PARCEL" }}
to = [{{ broker = "lines", name = "lines/held" }}, {{ broker = "full" }}]

[[route]]
when = {{ event_type = "InvoiceSent" }}
to = [{{ broker = "lines", name = "{AGAIN}", path = "again.jsonl", retry = {{ base = "150ms", jitter = 0.0 }} }}]

[[route]]
when = {{ event_type = "InvoiceDue" }}
to = [{{ broker = "lines", path = "later.jsonl", retry = {{ base = "1h", max = "1h" }} }}]

[admin]
listen = "off"
"#
    )
}

fn postrider(stage: &Stage, arguments: &[&str]) -> Result<()> {
    let output = stage.postrider(stage.directory(), arguments).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "postrider {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
