//! Storing what was planned for some members: a few statements, however many they are.

use std::collections::HashSet;

use postrider_core::{Event, StoreError, StoreErrorKind};
use postrider_postgres::error_kind;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, digest, failed};
use crate::board::fault::not_enqueued;
use crate::board::work::Counts;
use crate::plan::{Planned, Planner, Subject};
use crate::{BoardError, Member, Occasion};

/// Stores the notifications of these members, or collects the occasion for them.
pub(super) async fn run(
    tx: &Transaction<'_>,
    pg: &Pg,
    (planner, occasion): (&mut Planner<'_>, &Occasion),
    members: &[Member],
) -> Result<Counts, BoardError> {
    if let Some(rule) = planner.workflow().digest {
        return digest::collect(tx, pg, (planner, occasion), rule.window, members).await;
    }
    let plan = planner.plan(members)?;
    let counts = store(tx, pg, planner.subject(), &plan.notifications).await?;
    Ok(plan.counted(counts))
}

/// How often rows that are neither new nor to be found are inserted again: whoever was there may have been purged in
/// between, which hardly happens once.
const TRIES: usize = 3;

/// Stores notifications with their deliveries, and what delivers them. Those that are there already are counted.
pub(super) async fn store(
    tx: &Transaction<'_>,
    pg: &Pg,
    subject: &Subject,
    planned: &[Planned],
) -> Result<Counts, BoardError> {
    let mut counts = Counts::default();
    let mut stored: Vec<(i64, &Planned)> = Vec::with_capacity(planned.len());
    let mut left: Vec<&Planned> = planned.iter().collect();
    for _ in 0..TRIES {
        if left.is_empty() {
            break;
        }
        left = insert(tx, pg, subject, (&left, ELSEWHERE), &mut stored).await?;
        if !left.is_empty() {
            let known = known(tx, pg, subject, &left).await?;
            counts.duplicates += known.len() as u64;
            left.retain(|one| !known.contains(&one.user_id));
        }
    }
    // Something refuses them that is none of our rules, a unique index of the team's own for one. That is no duplicate:
    // asked without a way out, the server names it.
    if !left.is_empty() {
        insert(tx, pg, subject, (&left, ""), &mut stored).await?;
    }
    counts.stored = stored.len() as u64;
    deliver(tx, pg, subject, &stored).await?;
    Ok(counts)
}

/// In the order of the users, so that two fan-outs never wait for each other.
const INSERT: &str =
    "INSERT INTO {notification} (event_id, event_type, audience, workflow, category, resource_id, period,
        metadata, user_id, title, body)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, u.* FROM unnest($9::text[], $10::text[], $11::text[]) u";

/// Names no rule: there are two, and one statement waits for whoever inserts the same by either and passes over it
/// then. It would pass over rows that any other unique index refuses, too, so who is left out has to be found by one of
/// the two rules.
const ELSEWHERE: &str = "ON CONFLICT DO NOTHING";

/// Inserts, adds those that are new to the list, and answers who is left.
async fn insert<'a>(
    tx: &Transaction<'_>,
    pg: &Pg,
    subject: &Subject,
    (planned, conflict): (&[&'a Planned], &str),
    stored: &mut Vec<(i64, &'a Planned)>,
) -> Result<Vec<&'a Planned>, StoreError> {
    let said = |error| failed(error, "storing notifications");
    let sql = pg
        .names
        .sql(&format!("{INSERT} {conflict} RETURNING id, user_id"));
    let users: Vec<&str> = planned.iter().map(|one| one.user_id.as_str()).collect();
    let titles: Vec<&str> = planned.iter().map(|one| one.words.title.as_str()).collect();
    let bodies: Vec<&str> = planned.iter().map(|one| one.words.body.as_str()).collect();
    let values: [(&(dyn ToSql + Sync), Type); 11] = [
        (&subject.event_id, Type::TEXT),
        (&subject.event_type, Type::TEXT),
        (&subject.audience, Type::TEXT),
        (&subject.workflow, Type::TEXT),
        (&subject.category, Type::TEXT),
        (&subject.resource_id, Type::TEXT),
        (&subject.period, Type::INT8),
        (&subject.metadata, Type::TEXT),
        (&users, Type::TEXT_ARRAY),
        (&titles, Type::TEXT_ARRAY),
        (&bodies, Type::TEXT_ARRAY),
    ];
    let rows = tx.query_typed(&sql, &values).await.map_err(said)?;
    let mut rows = rows.iter().peekable();
    let mut left = Vec::new();
    // The answer has the order of what was given, less those that were passed over.
    for &one in planned {
        match rows.peek() {
            Some(row) if row.try_get::<_, &str>(1).map_err(said)? == one.user_id => {
                stored.push((row.try_get(0).map_err(said)?, one));
                rows.next();
            }
            _ => left.push(one),
        }
    }
    // What is not paired would be a notification without deliveries, which is taken for a duplicate later.
    match rows.next() {
        Some(_) => Err(StoreError::new(
            StoreErrorKind::Other,
            "storing notifications failed: the answer has another order than the question; is there a trigger on the \
             table notification, or a rule?",
        )),
        None => Ok(left),
    }
}

/// A statement of its own, because the one that inserts does not see what was committed while it waited.
const KNOWN: &str = "SELECT user_id FROM {notification} WHERE event_id = $1 AND user_id = ANY($2)
    UNION
    SELECT user_id FROM {notification}
    WHERE user_id = ANY($2) AND category = $3 AND resource_id = $4 AND period = $5";

/// Who has this notification already, by one rule or the other.
async fn known(
    tx: &Transaction<'_>,
    pg: &Pg,
    subject: &Subject,
    left: &[&Planned],
) -> Result<HashSet<String>, StoreError> {
    let said = |error| failed(error, "looking for notifications that are there already");
    let users: Vec<&str> = left.iter().map(|one| one.user_id.as_str()).collect();
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&subject.event_id, Type::TEXT),
        (&users, Type::TEXT_ARRAY),
        (&subject.category, Type::TEXT),
        (&subject.resource_id, Type::TEXT),
        (&subject.period, Type::INT8),
    ];
    let rows = tx
        .query_typed(&pg.names.sql(KNOWN), &values)
        .await
        .map_err(said)?;
    rows.iter().map(|row| row.try_get(0).map_err(said)).collect()
}

const DELIVERIES: &str =
    "INSERT INTO {notification_delivery} (notification_id, channel, event_id, address, problem)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])";

/// Stores the deliveries of new notifications, and the events of those that something has to be sent for.
async fn deliver(
    tx: &Transaction<'_>,
    pg: &Pg,
    subject: &Subject,
    stored: &[(i64, &Planned)],
) -> Result<(), StoreError> {
    if stored.is_empty() {
        return Ok(());
    }
    let mut events: Vec<Event> = Vec::new();
    let (mut ids, mut channels, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let (mut addresses, mut event_ids): (Vec<&str>, Vec<Option<String>>) = (Vec::new(), Vec::new());
    for (id, planned) in stored {
        for delivery in &planned.deliveries {
            let event = delivery.event(*id, (subject, planned));
            let event = event.map_err(|invalid| not_enqueued(invalid.into(), error_kind))?;
            ids.push(*id);
            channels.push(delivery.channel.as_str());
            addresses.push(&delivery.address);
            problems.push(delivery.problem);
            event_ids.push(event.as_ref().map(|event| event.id.to_string()));
            events.extend(event);
        }
    }
    let sql = pg.names.sql(DELIVERIES);
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&ids, Type::INT8_ARRAY),
        (&channels, Type::TEXT_ARRAY),
        (&event_ids, Type::TEXT_ARRAY),
        (&addresses, Type::TEXT_ARRAY),
        (&problems, Type::TEXT_ARRAY),
    ];
    // Both are sent before either is answered.
    let deliveries = async {
        let done = tx.execute_typed(&sql, &values).await;
        done.map_err(|error| failed(error, "storing deliveries"))
    };
    let enqueued = async {
        let done = pg.outbox.enqueue_all(tx, &events).await;
        done.map_err(|error| not_enqueued(error, error_kind))
    };
    tokio::try_join!(deliveries, enqueued)?;
    Ok(())
}
