//! The account: whom the shop's events must reach against the notifications that are there.

use super::house::House;
use crate::failure::{Failure, Result};
use crate::scenario::outcome::Outcome;

/// What was counted.
pub(super) struct Counted {
    wanted: u64,
    notifications: u64,
    duplicates: u64,
    missing: u64,
    deliveries: u64,
    duplicate_deliveries: u64,
    missing_deliveries: u64,
    pushes: u64,
    pushes_missing: u64,
    pushes_repeated: u64,
}

/// More than one for a person and an event, or one that no event asked for: its matter was told by another event.
const DUPLICATES: &str = "SELECT (SELECT count(*) FROM notification)
    - (SELECT count(*) FROM (SELECT DISTINCT event_id, user_id FROM notification) one
       JOIN happened USING (event_id, user_id))";
const MISSING: &str = "SELECT count(*) FROM happened h WHERE NOT EXISTS (
    SELECT FROM notification n WHERE n.event_id = h.event_id AND n.user_id = h.user_id)";
const DUPLICATE_DELIVERIES: &str =
    "SELECT count(*) - count(DISTINCT (notification_id, channel)) FROM notification_delivery";
/// A row that was put there by hand has what that hand gave it.
const MISSING_DELIVERIES: &str = "SELECT count(*) FROM notification n
    CROSS JOIN unnest(CASE WHEN n.workflow = 'order-placed' THEN ARRAY['in_app', 'push'] ELSE ARRAY['in_app'] END)
        AS channel
    LEFT JOIN notification_delivery d ON d.notification_id = n.id AND d.channel = channel.channel
    WHERE d.channel IS NULL AND n.workflow <> 'by hand'";
/// Those that something was to be sent for.
const PUSHES: &str = "SELECT event_id FROM notification_delivery WHERE channel = 'push' AND problem IS NULL";

/// What the account is there to find: one notification twice, one that nobody asked for, and one that is gone.
const PLANT: &str = "BEGIN; DROP INDEX uk_notification_event_user;
    INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, metadata)
        SELECT event_id, event_type, audience, workflow, user_id, category, title, body, metadata
        FROM notification WHERE resource_id IS NULL ORDER BY id LIMIT 1;
    INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, metadata)
        VALUES ('event-000', 'OrderPlaced', 'RESTAURANT', 'by hand', 'r1', 'orders', '', '', '{}');
    DELETE FROM notification WHERE id = (SELECT id FROM notification ORDER BY id DESC OFFSET 2 LIMIT 1)";

impl House<'_> {
    /// Plants faults, counts, and takes them back: whether the account finds them.
    pub(super) fn finds_faults(&self) -> Result<()> {
        self.notes.execute(PLANT)?;
        let found = self.count();
        self.notes.execute("ROLLBACK")?;
        let found = found?;
        match (found.duplicates, found.missing) {
            (2, 1) => Ok(()),
            (duplicates, missing) => Err(Failure::new(format!(
                "of three planted faults the account finds {duplicates} duplicates and {missing} missing"
            ))),
        }
    }

    /// Compares. What the shop committed is copied beside the notifications, so that one statement sees both.
    pub(super) fn count(&self) -> Result<Counted> {
        let notes = &self.notes;
        notes
            .execute("DROP TABLE IF EXISTS happened; CREATE TABLE happened (event_id text, user_id text)")?;
        let rows = self
            .pair
            .database()
            .rows("SELECT event_id, user_id FROM happened", &[])?;
        let column = |at: usize| -> std::result::Result<Vec<String>, tokio_postgres::Error> {
            rows.iter().map(|row| row.try_get(at)).collect()
        };
        let (events, users) = (column(0)?, column(1)?);
        notes.rows(
            "INSERT INTO happened SELECT * FROM unnest($1::text[], $2::text[])",
            &[&events, &users],
        )?;
        let taken = self.hook.taken();
        let sent = notes.rows(PUSHES, &[])?;
        let sent: Vec<String> = sent
            .iter()
            .map(|row| row.try_get(0))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Counted {
            wanted: notes.number("SELECT count(*) FROM happened")?,
            notifications: notes.number("SELECT count(*) FROM notification")?,
            duplicates: notes.number(DUPLICATES)?,
            missing: notes.number(MISSING)?,
            deliveries: notes.number("SELECT count(*) FROM notification_delivery")?,
            duplicate_deliveries: notes.number(DUPLICATE_DELIVERIES)?,
            missing_deliveries: notes.number(MISSING_DELIVERIES)?,
            pushes: sent.len() as u64,
            pushes_missing: sent.iter().filter(|id| !taken.contains_key(*id)).count() as u64,
            pushes_repeated: taken.values().map(|times| times - 1).sum(),
        })
    }
}

impl Counted {
    /// Gives the figures, and says what is not as it should be.
    pub(super) fn tell(&self, outcome: &mut Outcome) {
        let zeros = [
            ("duplicate_notifications", self.duplicates),
            ("missing", self.missing),
            ("duplicate_deliveries", self.duplicate_deliveries),
            ("missing_deliveries", self.missing_deliveries),
            ("pushes_missing", self.pushes_missing),
        ];
        for (name, count) in zeros {
            outcome.figure(name, count);
            outcome.check(count == 0, || format!("{name} is {count}, not 0"));
        }
        outcome.check(self.wanted > 0, || "nothing was to be told".to_owned());
        outcome.figure("wanted", self.wanted);
        outcome.figure("notifications", self.notifications);
        outcome.figure("deliveries", self.deliveries);
        outcome.figure("pushes", self.pushes);
        // A relay that dies between a push and its record pushes again, with the same id.
        outcome.figure("pushes_repeated", self.pushes_repeated);
    }
}
