//! The house that notifies: two databases, the relay of the shop, the service with its listeners, and the url.

use std::cell::{Cell, RefCell};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::ask::{Answer, ask};
use super::hook::Hook;
use super::{LOOK_EVERY, PATIENCE, configuration, processes};
use crate::failure::{Failure, Result};
use crate::scenario::pair::{Database, Pair, Setup};
use crate::scenario::process::Process;
use crate::scenario::stage::Stage;
use crate::scenario::wait::until_every;

/// What ids of people are signed with.
pub(super) const SECRET: &str = "only-for-these-tests";
/// Who is notified of orders.
pub(super) const RESTAURANT: [&str; 3] = ["r1", "r2", "r3"];
/// The queue of theirs.
pub(super) const QUEUE: &str = "notification.restaurant";
/// The queues that listeners read.
const QUEUES: [&str; 4] = [
    QUEUE,
    "notification.customer",
    "notification.agency",
    "notification.admin",
];
/// Gets a copy of all that the relay publishes.
pub(super) const TAP: &str = "tap";
/// Business events and whom each must reach, committed together.
const HAPPENED: &str =
    "CREATE TABLE happened (event_id text NOT NULL, user_id text NOT NULL, part text NOT NULL,
    PRIMARY KEY (event_id, user_id))";
const SENT: &str = "SELECT DISTINCT event_id FROM outbox_events WHERE published AND event_id <> ALL ($1)";

/// Everything around the notifications.
pub(super) struct House<'a> {
    pub(super) stage: &'a Stage,
    pub(super) pair: Pair<'a>,
    pub(super) notes: Database,
    pub(super) hook: Hook,
    pub(super) directory: PathBuf,
    pub(super) port: u16,
    pub(super) second_port: u16,
    part: Cell<&'static str>,
    events: Cell<u32>,
    pub(super) relay: RefCell<Option<Process>>,
    pub(super) notify: RefCell<Option<Process>>,
    dead: RefCell<Vec<String>>,
}

/// Something that happens in the shop.
pub(super) struct Happening<'a> {
    pub(super) event_type: &'a str,
    pub(super) audience: &'a str,
    pub(super) payload: Value,
    /// When, in words of PostgreSQL; None: now.
    pub(super) at: Option<&'a str>,
    /// Whom it must reach. Nobody: those whom it is for have been told of it by another event.
    pub(super) told: &'a [&'a str],
}

impl<'a> House<'a> {
    pub(super) fn open(stage: &'a Stage) -> Result<Self> {
        let pair = Pair::open(stage, &Setup::default())?;
        pair.configure(&configuration::shop(pair.database().url(), &pair.rabbit_url()))?;
        pair.database().execute(HAPPENED)?;
        pair.postgres().sql("postgres", "CREATE DATABASE notes");
        let notes = pair.another("notes");
        let directory = stage.path("notes");
        fs::create_dir_all(&directory)?;
        let [port, second_port] = free_ports()?;
        let house = Self {
            stage,
            pair,
            notes,
            hook: Hook::start()?,
            directory,
            port,
            second_port,
            part: Cell::new(""),
            events: Cell::new(0),
            relay: RefCell::default(),
            notify: RefCell::default(),
            dead: RefCell::default(),
        };
        house.configure("{{ payload.price }}")?;
        house.command(&["migrate", "up"])?;
        house.command(&["notify", "migrate", "up"])?;
        house.start_relay(None)?;
        house.start_notify(None)?;
        until_every(
            LOOK_EVERY,
            "the relay has declared the exchange",
            PATIENCE,
            || Ok(house.pair.tap("notifications.exchange", TAP).ok()),
        )?;
        for id in RESTAURANT {
            let body = json!({ "name": id, "push_url": house.hook.url(id), "topics": ["restaurant"] });
            house.put(id, &body)?;
        }
        for id in ["c1", "c2"] {
            house.put(id, &json!({ "name": id }))?;
        }
        Ok(house)
    }

    /// Begins a part: whatever the last one left stopped runs again.
    pub(super) fn enter(&self, part: &'static str) -> Result<()> {
        self.part.set(part);
        self.hook.answer_with(200);
        if !processes::is_running(&self.relay)? {
            self.start_relay(None)?;
        }
        if !processes::is_running(&self.notify)? {
            self.start_notify(None)?;
        }
        self.drained()?;
        // Only what this part publishes is of interest to it.
        self.pair.messages(TAP).map(drop)
    }

    /// Writes the file of the service, for those that are started from now on.
    pub(super) fn configure(&self, price: &str) -> Result<()> {
        let rabbit = self.pair.rabbit_url();
        let text = configuration::notes(self.notes.url(), &rabbit, self.port, price);
        Ok(fs::write(self.directory.join("postrider.toml"), text)?)
    }

    /// A new id of an event.
    pub(super) fn new_id(&self) -> String {
        self.events.set(self.events.get() + 1);
        format!("event-{:03}", self.events.get())
    }

    /// Commits a business event with whom it must reach; gives its id.
    pub(super) fn happen(&self, what: &Happening<'_>) -> Result<String> {
        let id = self.new_id();
        self.happen_as(&id, what)?;
        Ok(id)
    }

    /// The same with an id that is known before.
    pub(super) fn happen_as(&self, id: &str, what: &Happening<'_>) -> Result<()> {
        let (payload, part) = (what.payload.to_string(), self.part.get());
        let at = what.at.map_or("clock_timestamp()".to_owned(), |at| {
            format!("'{at}'::timestamptz")
        });
        // One statement is one transaction.
        let sql = format!(
            "WITH whom AS (INSERT INTO happened (event_id, user_id, part) SELECT $1, u, $5 FROM unnest($6::text[]) u)
             INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, created_at)
             VALUES ($1, $2, $3, $1, $4, {at})"
        );
        let told: Vec<&str> = what.told.to_vec();
        self.pair
            .database()
            .rows(
                &sql,
                &[&id, &what.event_type, &what.audience, &payload, &part, &told],
            )
            .map(drop)
    }

    /// An order that the whole restaurant must hear of.
    pub(super) fn order(&self) -> Result<String> {
        self.happen(&order())
    }

    /// Notes whom an event must reach that did not come from the outbox.
    pub(super) fn must_reach(&self, id: &str, users: &[&str]) -> Result<()> {
        let users: Vec<&str> = users.to_vec();
        let sql = "INSERT INTO happened (event_id, user_id, part) SELECT $1, u, $2 FROM unnest($3::text[]) u";
        let rows = self.pair.database().rows(sql, &[&id, &self.part.get(), &users]);
        rows.map(drop)
    }

    /// Pauses the outbox of deliveries, and waits until its relay has noticed.
    pub(super) fn pause(&self) -> Result<()> {
        self.command(&["pause"])?;
        until_every(LOOK_EVERY, "the relay has noticed the pause", PATIENCE, || {
            let log = fs::read_to_string(self.stage.path("notify.log"))?;
            Ok(log.contains("paused by a person").then_some(()))
        })
    }

    /// Runs a command of the service that must succeed.
    pub(super) fn command(&self, arguments: &[&str]) -> Result<String> {
        let output = self.stage.postrider(&self.directory, arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(Failure::new(format!(
                "postrider {} ended with {}: {}",
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    pub(super) fn ask(
        &self,
        what: (&str, &str),
        signature: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer> {
        ask(self.port, what, signature, body)
    }

    /// Adds a recipient.
    pub(super) fn put(&self, id: &str, body: &Value) -> Result<()> {
        let path = format!("/recipients/{id}");
        self.ask(("PUT", &path), None, Some(body))?.expect(200).map(drop)
    }

    /// The signature of a person, as the service that logged them in would make it.
    pub(super) fn sign(&self, user: &str) -> Result<String> {
        self.command(&["notify", "sign", user])
    }

    /// How many notifications there are of an event.
    pub(super) fn told(&self, event_id: &str) -> Result<u64> {
        let rows = self.notes.rows(
            "SELECT count(*) FROM notification WHERE event_id = $1",
            &[&event_id],
        )?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until an event has so many notifications.
    pub(super) fn until_told(&self, event_id: &str, wanted: u64) -> Result<()> {
        let what = format!("{event_id} has {wanted} notifications");
        until_every(LOOK_EVERY, &what, PATIENCE, || {
            Ok((self.told(event_id)? >= wanted).then_some(()))
        })
    }

    /// Waits until everything that was committed is published, and every event has taken effect or is a dead letter. A
    /// copy that a listener still holds changes nothing any more, or the account at the end shows it.
    pub(super) fn drained(&self) -> Result<()> {
        until_every(LOOK_EVERY, "every event has taken effect", PATIENCE, || {
            let left = self.pair.waiting()?.0 + self.ready()? + self.without_effect()?;
            Ok((left == 0).then_some(()))
        })
    }

    /// How many messages wait for a listener.
    pub(super) fn ready(&self) -> Result<u64> {
        QUEUES.iter().map(|queue| self.pair.ready(queue)).sum()
    }

    /// Remembers that an event has no effect: it is a dead letter.
    pub(super) fn is_dead(&self, event_id: &str) {
        self.dead.borrow_mut().push(event_id.to_owned());
    }

    /// How many published events have neither taken effect nor become dead letters.
    fn without_effect(&self) -> Result<u64> {
        let sent = self.pair.database().rows(SENT, &[&*self.dead.borrow()])?;
        let sent: Vec<String> = sent
            .iter()
            .map(|row| row.try_get(0))
            .collect::<std::result::Result<_, _>>()?;
        let sql = "SELECT count(*) FROM unnest($1::text[]) e WHERE NOT EXISTS (SELECT FROM inbox WHERE event_id = e)";
        let rows = self.notes.rows(sql, &[&sent])?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until nothing is left to be delivered either.
    pub(super) fn settled(&self) -> Result<()> {
        self.drained()?;
        until_every(LOOK_EVERY, "every delivery is out", PATIENCE, || {
            let open = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_parked)
                + (SELECT count(*) FROM notification_fanout WHERE finished_at IS NULL)";
            Ok((self.notes.number(open)? == 0).then_some(()))
        })
    }

    /// Stops everything in an orderly way.
    pub(super) fn close(&self) -> Result<()> {
        self.stop_relay()?;
        self.stop_notify()
    }
}

/// An order that the whole restaurant must hear of.
pub(super) fn order() -> Happening<'static> {
    Happening {
        event_type: "OrderPlaced",
        audience: "RESTAURANT",
        payload: json!({ "recipientType": "BROADCAST", "name": "Ann" }),
        at: None,
        told: &RESTAURANT,
    }
}

fn free_ports() -> Result<[u16; 2]> {
    let held = [
        TcpListener::bind(("127.0.0.1", 0))?,
        TcpListener::bind(("127.0.0.1", 0))?,
    ];
    Ok([held[0].local_addr()?.port(), held[1].local_addr()?.port()])
}
