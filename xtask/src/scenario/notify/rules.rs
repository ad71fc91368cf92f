//! What counts as the same and what does not, who wants what, and what strangers write.

use serde_json::json;

use super::house::{Happening, House, RESTAURANT};
use super::repeats::by_hand;
use super::{LOOK_EVERY, PATIENCE};
use crate::failure::{Failure, Result};
use crate::scenario::outcome::Outcome;
use crate::scenario::wait::until_every;

/// Members of the agency: three chunks.
const AGENCY: u64 = 3_000;

/// The window of a day is over: following is news again. On the same day it is not.
pub(super) fn following_again(house: &House<'_>, _: &mut Outcome) -> Result<()> {
    let follower = house.new_id();
    for (at, told) in [
        ("2026-01-01 10:00:00+00", &["c1"][..]),
        ("2026-01-02 10:00:00+00", &["c1"]),
        ("2026-01-02 11:00:00+00", &[]),
    ] {
        house.happen(&Happening {
            event_type: "UserFollowed",
            audience: "CUSTOMER",
            payload: json!({ "userId": "c1", "followerId": follower }),
            at: Some(at),
            told,
        })?;
        // Which of two is told is decided by who comes first.
        house.drained()?;
    }
    Ok(())
}

/// Two comments on one post are two matters; the first of them again is none.
pub(super) fn second_comment(house: &House<'_>, _: &mut Outcome) -> Result<()> {
    let post = house.new_id();
    for (comment, told) in [("1", &["c2"][..]), ("2", &["c2"]), ("1", &[])] {
        house.happen(&Happening {
            event_type: "CommentCreated",
            audience: "CUSTOMER",
            payload: json!({ "userId": "c2", "postId": post, "commentId": format!("{post}-{comment}") }),
            at: None,
            told,
        })?;
        house.drained()?;
    }
    Ok(())
}

/// One event by two channels is one notification with two deliveries; the view of document 004 shows both.
pub(super) fn second_channel(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    let event = house.order()?;
    house.until_told(&event, RESTAURANT.len() as u64)?;
    let rows = house.notes.rows(
        "SELECT user_id, string_agg(notification_type, ' ' ORDER BY notification_type)
         FROM restaurant_user_notification WHERE event_id = $1 GROUP BY user_id ORDER BY user_id",
        &[&event],
    )?;
    let mut seen = Vec::new();
    for row in &rows {
        seen.push((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?));
    }
    let wanted: Vec<(String, String)> = RESTAURANT
        .map(|user| (user.to_owned(), "IN_APP PUSH".to_owned()))
        .to_vec();
    outcome.check(seen == wanted, || format!("the view shows {seen:?}"));
    Ok(())
}

/// The fan-out is held in its second chunk. Who mutes the category now, and stands in the third, gets nothing; who
/// stands in the first has it already.
pub(super) fn preference_in_the_middle(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.notes.execute(&format!(
        "INSERT INTO notification_recipient (id, name)
            SELECT 'a-' || lpad(n::text, 4, '0'), 'agent ' || n FROM generate_series(1, {AGENCY}) n
            ON CONFLICT DO NOTHING;
         INSERT INTO notification_subscription (topic, user_id)
            SELECT 'agency', 'a-' || lpad(n::text, 4, '0') FROM generate_series(1, {AGENCY}) n ON CONFLICT DO NOTHING"
    ))?;
    let agents: Vec<String> = (1..=AGENCY).map(|n| format!("a-{n:04}")).collect();
    let told: Vec<&str> = agents
        .iter()
        .map(String::as_str)
        .filter(|id| *id != "a-2500")
        .collect();
    let event = house.new_id();
    let holder = house.pair.another("notes");
    // Whoever inserts the same waits for this transaction.
    holder.execute(&format!("BEGIN; {}", by_hand(&event, "a-1500")))?;
    house.happen_as(
        &event,
        &Happening {
            event_type: "NewsPublished",
            audience: "AGENCY",
            payload: json!({ "recipientType": "BROADCAST" }),
            at: None,
            told: &told,
        },
    )?;
    let held = until_every(LOOK_EVERY, "the second chunk is held", PATIENCE, || {
        let waits = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = 'notes' AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO %notification%'";
        Ok((house.told(&event)? == 1_000 && house.notes.number(waits)? > 0).then_some(()))
    });
    let muted = ["a-0500", "a-2500"].map(|user| prefer(house, user, false));
    holder.execute("ROLLBACK")?;
    held?;
    muted.into_iter().collect::<Result<()>>()?;
    house.until_told(&event, told.len() as u64)?;
    house.settled()?;
    let all = house.told(&event)?;
    outcome.check(all == told.len() as u64, || {
        format!("{all} were told, not {}", told.len())
    });
    ["a-0500", "a-2500"]
        .into_iter()
        .try_for_each(|user| prefer(house, user, true))
}

fn prefer(house: &House<'_>, user: &str, on: bool) -> Result<()> {
    let signature = house.sign(user)?;
    let path = format!("/recipients/{user}/preferences");
    let body = json!({ "preferences": [{ "category": "news", "on": on }] });
    let answer = house.ask(("PUT", &path), Some(&signature), Some(&body))?;
    answer.expect(200).map(drop)
}

/// Names that are markup, begin a header or turn the direction; a language nobody has words in; an address that is
/// none; an event without the field that its words need, and one that no workflow is for.
pub(super) fn hostile(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.pair.messages("notification.dead")?;
    house.put("h1", &json!({ "name": "<b>Eve</b>\u{202e}", "locale": "xx-YY" }))?;
    for refused in [
        json!({ "name": "a\r\nBcc: b@c.d" }),
        json!({ "push_url": "javascript:alert(1)" }),
    ] {
        let answer = house.ask(("PUT", "/recipients/h2"), None, Some(&refused))?;
        outcome.check(answer.status == 422, || {
            format!("{refused} is answered with {}", answer.status)
        });
    }
    // As somebody who fills the table by SQL may have it.
    house
        .notes
        .execute("UPDATE notification_recipient SET push_url = 'javascript:alert(1)' WHERE id = 'h1'")?;

    let name = "<script>alert(1)</script>\r\nBcc: everybody@example.com\u{202e}txt";
    let to_one = |event_type, payload, told| Happening {
        event_type,
        audience: "RESTAURANT",
        payload,
        at: None,
        told,
    };
    for (event_type, payload) in [
        (
            "OrderPlaced",
            json!({ "recipientType": "USER", "recipientId": "h1" }),
        ),
        (
            "NobodyKnows",
            json!({ "recipientType": "USER", "recipientId": "h1" }),
        ),
        ("OrderPlaced", json!([1, 2])),
    ] {
        let dead = house.happen(&to_one(event_type, payload, &[]))?;
        house.is_dead(&dead);
    }
    let payload = json!({ "recipientType": "USER", "recipientId": "h1", "name": name });
    let event = house.happen(&to_one("OrderPlaced", payload, &["h1"]))?;
    house.until_told(&event, 1)?;
    house.drained()?;
    until_every(
        LOOK_EVERY,
        "the three that cannot be told are dead letters",
        PATIENCE,
        || Ok((house.pair.ready("notification.dead")? == 3).then_some(())),
    )?;
    house.pair.messages("notification.dead")?;

    let rows = house.notes.rows(
        "SELECT n.title, d.problem FROM notification n
         JOIN notification_delivery d ON d.notification_id = n.id AND d.channel = 'push' WHERE n.event_id = $1",
        &[&event],
    )?;
    let row = rows
        .first()
        .ok_or_else(|| Failure::new("there is no push for h1"))?;
    let (title, problem): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let safe = "Order for <script>alert(1)</script>  Bcc: everybody@example.comtxt";
    outcome.check(title == safe, || format!("the title is {title:?}"));
    outcome.check(problem.is_some(), || "javascript: is taken for a url".to_owned());
    Ok(())
}

/// The signature of one person opens no feed of another.
pub(super) fn feed_of_another(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    let (own, other) = (house.sign("r1")?, house.sign("r2")?);
    for path in [
        "/feed/r1",
        "/feed/r1/unread",
        "/feed/r1/live",
        "/recipients/r1/preferences",
    ] {
        for (signature, status) in [(Some(other.as_str()), 403), (None, 401)] {
            let answer = house.ask(("GET", path), signature, None)?;
            let closed = answer.status == status && answer.body["entries"].is_null();
            outcome.check(closed, || {
                format!("GET {path} is answered with {}", answer.status)
            });
        }
    }
    let mark = json!({ "mark": "read", "up_to": i64::MAX });
    let marked = house.ask(("POST", "/feed/r1/marks"), Some(&other), Some(&mark))?;
    outcome.check(marked.status == 403, || {
        format!("another's mark is answered with {}", marked.status)
    });
    let feed = house.ask(("GET", "/feed/r1"), Some(&own), None)?.expect(200)?;
    let entries = feed["entries"].as_array().map_or(0, Vec::len);
    outcome.check(entries > 0, || "one's own feed is empty".to_owned());
    Ok(())
}
