//! [four-queues] Events of four audiences reach exactly their queues through `notifications.exchange`, as the fields
//! that document 000 names; an audience that nobody knows is parked.
//!
//! There is nothing else in a message: no list of recipients, no preferences, no data of notifications.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_testkit::ledger::{Arrived, Committed, Ledger, Report};
use serde_json::{Value, json};

use super::outcome::Outcome;
use super::pair::{Message, Pair, Setup};
use super::stage::Stage;
use super::wait::until;
use crate::failure::Result;

const AUDIENCES: [&str; 4] = ["RESTAURANT", "CUSTOMER", "AGENCY", "ADMIN"];
const UNKNOWN: &str = "PARTNER";
const FIELDS: [&str; 5] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "payload",
];
/// Events of each audience, of ten recipients.
const EACH: u64 = 250;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::open(stage, &Setup::default())?;
    pair.configure(&configuration(&pair))?;
    let relay = pair.relay("relay-1")?;
    for audience in AUDIENCES {
        insert(&pair, audience, EACH)?;
    }
    insert(&pair, UNKNOWN, 1)?;
    let emptied = until("everything is out or parked", PATIENCE, || {
        Ok((pair.waiting()? == (0, 1)).then_some(()))
    });
    relay.terminate()?;

    let mut messages = Vec::new();
    for audience in AUDIENCES {
        messages.extend(pair.messages(&queue(audience))?);
    }
    let dead = pair.messages("notification.dead")?.len();
    let parked = pair.database().rows(
        "SELECT aggregate_type, status, error_message FROM outbox_events WHERE NOT published",
        &[],
    )?;
    let of_parked = |at| {
        parked
            .first()
            .map_or(Ok(None), |row| row.try_get::<_, Option<String>>(at))
    };

    let mut outcome = Outcome::of(account(&messages)?);
    outcome.went_well(emptied);
    for audience in AUDIENCES {
        let count = messages.iter().filter(|one| one.queue == queue(audience)).count();
        outcome.check(count as u64 == EACH, || {
            format!("{} has {count} messages, not {EACH}", queue(audience))
        });
    }
    let wrong: Vec<String> = messages.iter().filter_map(difference).collect();
    outcome.check(wrong.is_empty(), || {
        format!(
            "{} messages are not as they should be, such as {}",
            wrong.len(),
            wrong[0]
        )
    });
    outcome.figure("dead_lettered_by_queues", dead);
    outcome.check(dead == 0, || format!("{dead} messages are in notification.dead"));
    let (audience, status) = (of_parked(0)?, of_parked(1)?);
    outcome.figure("parked", parked.len());
    outcome.check(
        parked.len() == 1 && audience.as_deref() == Some(UNKNOWN) && status.as_deref() == Some("RETRYING"),
        || {
            format!(
                "parked are {} events, the first of {audience:?} and {status:?}",
                parked.len()
            )
        },
    );
    outcome.figure("reason", of_parked(2)?);
    Ok(outcome)
}

fn configuration(pair: &Pair<'_>) -> String {
    format!(
        "[outbox.shop]\nurl = \"{}\"\n\n[broker.rabbit]\nurl = \"{}\"\n\n\
         [broker.rabbit.rabbitmq]\ndeclare = true\npreset = \"notifications\"\n\n\
         [[route]]\nto = [{{ broker = \"rabbit\", exchange = \"notifications.exchange\", \
         routing_key = \"notification.{{aggregate_type|lower}}\" }}]\n\n[log]\nformat = \"json\"\n",
        pair.database().url(),
        pair.rabbit_url()
    )
}

fn insert(pair: &Pair<'_>, audience: &str, count: u64) -> Result<()> {
    pair.database().execute(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
         SELECT '{audience}-' || lpad(i::text, 4, '0'), 'OrderPlaced', '{audience}', 'r' || i % 10,
         '{{\"n\":' || i || '}}'
         FROM generate_series(1, {count}) i"
    ))
}

fn queue(audience: &str) -> String {
    format!("notification.{}", audience.to_lowercase())
}

fn account(messages: &[Message]) -> Result<Report> {
    let mut ledger = Ledger::new();
    for audience in AUDIENCES {
        for n in 1..=EACH {
            let (id, key) = (format!("{audience}-{n:04}"), format!("{audience}/r{}", n % 10));
            ledger.commit(&Committed::new(id, key, n))?;
        }
    }
    for message in messages {
        let part = |name: &str| message.body[name].as_str().unwrap_or_default();
        let key = format!("{}/{}", part("aggregate_type"), part("aggregate_id"));
        ledger.arrive(&Arrived::new(&message.id, key, &message.queue));
    }
    Ok(ledger.report())
}

/// What is wrong with a message.
fn difference(message: &Message) -> Option<String> {
    let (audience, n) = message.id.split_once('-')?;
    let n: u64 = n.parse().ok()?;
    let body = message.body.as_object()?;
    let names: BTreeSet<&str> = body.keys().map(String::as_str).collect();
    let wanted: BTreeSet<&str> = FIELDS.into_iter().collect();
    let values = [
        json!(message.id),
        json!("OrderPlaced"),
        json!(audience),
        json!(format!("r{}", n % 10)),
        json!({ "n": n }),
    ];
    let is_right = names == wanted
        && message.queue == queue(audience)
        && FIELDS
            .iter()
            .zip(&values)
            .all(|(name, value)| body[*name] == *value);
    (!is_right).then(|| format!("in {}: {}", message.queue, Value::Object(body.clone())))
}
