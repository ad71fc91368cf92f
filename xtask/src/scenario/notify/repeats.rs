//! The same again: delivered twice, stored before, told by another event, worked on by two at once.

use serde_json::json;

use super::house::{Happening, House, QUEUE, RESTAURANT, TAP, order};
use super::{LOOK_EVERY, PATIENCE};
use crate::failure::{Failure, Result};
use crate::scenario::outcome::Outcome;
use crate::scenario::wait::until_every;

/// Sessions that wait for another's transaction.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = 'notes' AND wait_event_type = 'Lock'";

/// The same message lies in the queue three times.
pub(super) fn duplicate_delivery(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.stop_notify()?;
    let event = house.order()?;
    tapped(house)?;
    house.pair.carry(TAP, QUEUE, 2)?;
    let ready = house.pair.ready(QUEUE)?;
    outcome.check(ready == 3, || format!("{ready} messages are in the queue, not 3"));
    house.start_notify(None)?;
    house.until_told(&event, RESTAURANT.len() as u64)?;
    house.drained()
}

/// One of three has a row already, which stays as it is; the two others get theirs.
pub(super) fn one_row_already_there(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    let event = house.new_id();
    house.notes.execute(&by_hand(&event, "r2"))?;
    house.happen_as(&event, &order())?;
    house.until_told(&event, RESTAURANT.len() as u64)?;
    house.drained()?;
    let sql = format!(
        "SELECT count(*) FROM notification WHERE event_id = '{event}' AND user_id = 'r2' AND title = 'by hand'"
    );
    let kept = house.notes.number(&sql)?;
    outcome.check(kept == 1, || format!("{kept} rows of r2 are as they were, not 1"));
    Ok(())
}

/// The event comes again, and the inbox has forgotten it: what is stored is known by its event all the same. Over HTTP
/// the second request is answered with the first notification.
pub(super) fn duplicate_event_id(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    let event = house.order()?;
    house.until_told(&event, RESTAURANT.len() as u64)?;
    tapped(house)?;
    house.drained()?;
    let ids = format!("SELECT coalesce(sum(id), 0)::bigint FROM notification WHERE event_id = '{event}'");
    let before = house.notes.number(&ids)?;
    house
        .notes
        .execute(&format!("DELETE FROM inbox WHERE event_id = '{event}'"))?;
    house.pair.carry(TAP, QUEUE, 1)?;
    house.drained()?;
    let after = house.notes.number(&ids)?;
    outcome.check(before == after, || {
        "the notifications of an event that came again are others".to_owned()
    });

    let asked = house.new_id();
    house.must_reach(&asked, &["c1"])?;
    let body = json!({ "event_id": asked, "event_type": "UserFollowed", "audience": "CUSTOMER",
        "to": { "user": "c1" }, "payload": { "followerId": asked } });
    let first = house
        .ask(("POST", "/notifications"), None, Some(&body))?
        .expect(201)?;
    let second = house
        .ask(("POST", "/notifications"), None, Some(&body))?
        .expect(200)?;
    let id = |answer: &serde_json::Value| answer["notification"]["id"].as_i64();
    outcome.check(id(&first).is_some() && id(&first) == id(&second), || {
        format!("the same request gives {first}, then {second}")
    });
    Ok(())
}

/// The same person follows again within the window, by another event: told once. A mention by the same id is another
/// matter, because the type is part of what it is about.
pub(super) fn same_resource(house: &House<'_>, _: &mut Outcome) -> Result<()> {
    let follower = house.new_id();
    let follow = |told| Happening {
        event_type: "UserFollowed",
        audience: "CUSTOMER",
        payload: json!({ "userId": "c1", "followerId": follower, "contextId": follower }),
        at: Some("2026-03-01 10:00:00+00"),
        told,
    };
    house.happen(&follow(&["c1"]))?;
    // Which of two is told is decided by who comes first.
    house.drained()?;
    house.happen(&follow(&[]))?;
    house.happen(&Happening {
        event_type: "MentionCreated",
        ..follow(&["c1"])
    })?;
    house.drained()
}

/// Two processes have the same event in their hands at the same time: one waits for the other, and then has nothing
/// to do. Within one process copies stand in one line, so two sessions that wait are two processes.
pub(super) fn race_of_two_listeners(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    let second = house.second_notify()?;
    until_every(LOOK_EVERY, "two listeners consume the queue", PATIENCE, || {
        Ok((house.pair.consumers(QUEUE)? == 2).then_some(()))
    })?;
    let holder = house.pair.another("notes");
    // Recipients are read after the inbox has its record: so far the first one comes.
    holder.execute("BEGIN; LOCK TABLE notification_recipient IN ACCESS EXCLUSIVE MODE")?;
    let event = house.order()?;
    let raced = tapped(house).and_then(|()| {
        house.pair.carry(TAP, QUEUE, 3)?;
        until_every(LOOK_EVERY, "two sessions wait", PATIENCE, || {
            Ok((holder.number(WAITING)? >= 2).then_some(()))
        })
    });
    holder.execute("COMMIT")?;
    house.until_told(&event, RESTAURANT.len() as u64)?;
    house.drained()?;
    second.terminate(PATIENCE)?;
    outcome.went_well(raced);
    Ok(())
}

/// Waits until the relay has published something since the part began.
fn tapped(house: &House<'_>) -> Result<()> {
    until_every(LOOK_EVERY, "the relay has published", PATIENCE, || {
        match house.pair.ready(TAP)? {
            0 => Ok(None),
            1 => Ok(Some(())),
            more => Err(Failure::new(format!("{more} messages were published, not 1"))),
        }
    })
}

/// A notification of an order as somebody would insert it.
pub(super) fn by_hand(event: &str, user: &str) -> String {
    format!(
        "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, metadata)
         VALUES ('{event}', 'OrderPlaced', 'RESTAURANT', 'by hand', '{user}', 'orders', 'by hand', 'by hand', '{{}}')"
    )
}
