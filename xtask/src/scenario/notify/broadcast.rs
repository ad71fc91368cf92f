//! [notify-broadcast] One event for 100,000 people by two channels: fast enough, in bounded memory, and once more with
//! a kill in the middle.
//!
//! The deliveries by mail stay queued, because their outbox is paused: what is measured is the storing.

use std::time::{Duration, Instant};

use serde_json::json;

use super::house::{Happening, House};
use crate::failure::{Failure, Result};
use crate::scenario::account::Report;
use crate::scenario::outcome::Outcome;
use crate::scenario::stage::Stage;
use crate::scenario::wait::{until, until_every};

/// In the feed and by mail.
const CHANNELS: u64 = 2;
const ENOUGH_PER_S: f64 = 20_000.0;
const MOST_MIB: u64 = 150;
/// Between two looks at how far it is: one row is read.
const LOOK_CLOSELY: Duration = Duration::from_millis(10);
const TO_STORE: Duration = Duration::from_secs(600);

pub(in crate::scenario) fn play(stage: &Stage) -> Result<Outcome> {
    let people: u64 = stage.size(100_000, 10_000);
    let house = House::open(stage)?;
    house.pause()?;
    settle_in(&house, people)?;
    let mut outcome = Outcome::of(Report::default());

    let began = Instant::now();
    let event = announce(&house)?;
    until_stored(&house, &event)?;
    let took = began.elapsed().as_secs_f64();
    let found = Found::of(&house, &event)?;
    found.check(&mut outcome, people);
    let per_s = (found.notifications + found.deliveries) as f64 / took;
    outcome.bounded(
        "rows_per_s",
        per_s,
        stage.reduced || per_s >= ENOUGH_PER_S,
        "at least 20,000",
    );
    outcome.figure("stored_s", (took * 1_000.0).round() / 1_000.0);
    let peak = house.notify_peak_rss_mib().unwrap_or(u64::MAX);

    let event = announce(&house)?;
    let killed_at = until(&format!("a part of {event} is stored"), TO_STORE, || {
        let (stored, finished) = progress(&house, &event)?;
        match finished {
            true => Err(Failure::new("it was over before it could be killed")),
            false => Ok((stored >= people / 4).then_some(stored)),
        }
    })?;
    house.kill_notify()?;
    let (stored, finished) = progress(&house, &event)?;
    outcome.check(!finished && stored < people, || {
        format!("the kill came when {stored} of {people} were stored, not in the middle")
    });
    stage.note(&format!("killed after {killed_at} of {people}"));
    house.start_notify(None)?;
    until_stored(&house, &event)?;
    Found::of(&house, &event)?.check(&mut outcome, people);

    let peak = peak.max(house.notify_peak_rss_mib().unwrap_or(u64::MAX));
    outcome.figure("peak_rss_mib", peak);
    outcome.check(peak < MOST_MIB, || {
        format!("{peak} MiB were resident, not less than {MOST_MIB}")
    });
    outcome.figure("recipients", people);
    outcome.figure("channels", CHANNELS);
    outcome.figure("killed_at", stored);
    house.close()?;
    Ok(outcome)
}

/// The people, and statistics of their tables, as a database that has been used for a while has them.
fn settle_in(house: &House<'_>, people: u64) -> Result<()> {
    house.notes.execute(&format!(
        "INSERT INTO notification_recipient (id, name, email)
            SELECT 'p-' || lpad(n::text, 6, '0'), 'Person ' || n, 'p' || n || '@example.com'
            FROM generate_series(1, {people}) n;
         INSERT INTO notification_subscription (topic, user_id)
            SELECT 'admin', 'p-' || lpad(n::text, 6, '0') FROM generate_series(1, {people}) n"
    ))?;
    house.notes.execute("ANALYZE notification_recipient")?;
    house.notes.execute("ANALYZE notification_subscription")?;
    house.notes.execute("CHECKPOINT")
}

fn announce(house: &House<'_>) -> Result<String> {
    house.happen(&Happening {
        event_type: "Announced",
        audience: "ADMIN",
        payload: json!({ "recipientType": "BROADCAST", "subject": "we move" }),
        at: None,
        told: &[],
    })
}

/// How many notifications are stored, and whether that is all.
fn progress(house: &House<'_>, event: &str) -> Result<(u64, bool)> {
    let sql = "SELECT stored, finished_at IS NOT NULL FROM notification_fanout WHERE event_id = $1";
    match house.notes.rows(sql, &[&event])?.first() {
        None => Ok((0, false)),
        Some(row) => Ok((u64::try_from(row.try_get::<_, i64>(0)?)?, row.try_get(1)?)),
    }
}

fn until_stored(house: &House<'_>, event: &str) -> Result<()> {
    until_every(LOOK_CLOSELY, &format!("{event} is stored"), TO_STORE, || {
        Ok(progress(house, event)?.1.then_some(()))
    })
}

/// What is there of an event.
struct Found {
    notifications: u64,
    people: u64,
    deliveries: u64,
    mails: u64,
    missing: u64,
}

impl Found {
    fn of(house: &House<'_>, event: &str) -> Result<Self> {
        let number = |sql: &str| house.notes.number(&sql.replace("$1", &format!("'{event}'")));
        Ok(Self {
            notifications: number("SELECT count(*) FROM notification WHERE event_id = $1")?,
            people: number("SELECT count(DISTINCT user_id) FROM notification WHERE event_id = $1")?,
            deliveries: number(
                "SELECT count(*) FROM notification_delivery d JOIN notification n ON n.id = d.notification_id
                 WHERE n.event_id = $1",
            )?,
            // Each with its event in the outbox, once.
            mails: number(
                "SELECT count(*) FROM outbox_events o JOIN notification_delivery d ON d.event_id = o.event_id
                 JOIN notification n ON n.id = d.notification_id WHERE n.event_id = $1 AND d.channel = 'email'",
            )?,
            missing: number(
                "SELECT count(*) FROM notification_subscription s WHERE topic = 'admin' AND NOT EXISTS (
                    SELECT FROM notification n WHERE n.event_id = $1 AND n.user_id = s.user_id)",
            )?,
        })
    }

    fn check(&self, outcome: &mut Outcome, people: u64) {
        let wanted = [
            ("notifications", self.notifications, people),
            ("people with a notification", self.people, people),
            ("deliveries", self.deliveries, people * CHANNELS),
            ("mails in the outbox", self.mails, people),
            ("people without one", self.missing, 0),
        ];
        for (what, found, wanted) in wanted {
            outcome.check(found == wanted, || format!("{found} {what}, not {wanted}"));
        }
    }
}
