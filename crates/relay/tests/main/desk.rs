//! An engine fed by hand, on the model of a database: whatever it asks for is answered when a test says so.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Answer, Capabilities, Condition, ErrorKind, Failure, Receipt, RelayId, Router, Shard};
use postrider_relay::Settings;
use postrider_relay::engine::{Call, Command, Engine, Fact, Identity, Time};
use postrider_testkit::model::Model;

use crate::support::{all_to, destination, event, quick};

/// How long a lease lasts here.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// One relay, of which nothing runs but the engine. It sends single events, two at a time.
pub(crate) struct Desk {
    engine: Engine,
    /// What it asked for and has no answer to.
    pub(crate) asked: Vec<Command>,
    /// Heartbeats that were answered.
    pub(crate) beats: usize,
}

impl Desk {
    pub(crate) fn open(name: &str) -> Self {
        Self::routed(name, all_to(vec![destination("d")]))
    }

    /// One whose configuration has no route for anything.
    pub(crate) fn without_routes(name: &str) -> Self {
        let unheard = Condition {
            event_type: vec!["Unheard".to_owned()],
            ..Condition::default()
        };
        let router = Router::builder().route(unheard, vec![destination("d")]).unwrap();
        Self::routed(name, router.build())
    }

    fn routed(name: &str, router: Router) -> Self {
        let identity = Identity {
            relay: RelayId(name.into()),
            outbox: "desk".to_owned(),
            seed: 1,
            doorbell: true,
            sweep_every: Duration::from_secs(600),
            plant: None,
        };
        let settings = Settings {
            lease: LEASE,
            batch_size: 1,
            ..quick()
        };
        let sink = Capabilities {
            concurrent_batches: 2,
            ..Capabilities::default()
        };
        Self {
            engine: Engine::new(identity, settings, Arc::new(router), vec![sink]),
            asked: Vec::new(),
            beats: 0,
        }
    }

    pub(crate) fn tell(&mut self, now: Duration, fact: Fact) {
        self.engine.handle(Time(now), fact, &mut self.asked);
    }

    /// The database answers this kind of call, and every one that its answers lead to.
    pub(crate) fn serve(&mut self, model: &mut Model, now: Duration, kind: fn(&Command) -> bool) {
        while let Some(index) = self.asked.iter().position(kind) {
            self.beats += usize::from(is_beat(&self.asked[index]));
            let fact = match self.asked.remove(index) {
                Command::Beat(call, beat) => Fact::Stood(call, Ok(model.heartbeat(now, &beat))),
                Command::Read(call, read) => Fact::Read(call, Ok(model.read(now, &read))),
                Command::Settle(call, settle) => Fact::Settled(call, Ok(model.settle(now, &settle))),
                other => panic!("the database is not asked for {other:?}"),
            };
            self.tell(now, fact);
        }
    }

    /// A moment passes, and the database answers everything.
    pub(crate) fn tick(&mut self, model: &mut Model, now: Duration) {
        self.tell(now, Fact::Tick);
        self.serve(model, now, any);
    }

    /// Publish calls without an answer, with the ids that they carry.
    pub(crate) fn publishing(&self) -> Vec<(Call, Vec<String>)> {
        let ids = |command: &Command| match command {
            Command::Publish(call, _, batch) => {
                Some((*call, batch.iter().map(|one| one.event.id.to_string()).collect()))
            }
            _ => None,
        };
        self.asked.iter().filter_map(ids).collect()
    }

    /// The broker confirms a call.
    pub(crate) fn confirm(&mut self, now: Duration, call: Call) {
        self.answer(now, call, Answer::Confirmed(Receipt::default()));
    }

    /// The connection is lost with a call.
    pub(crate) fn lose(&mut self, now: Duration, call: Call) {
        let failure = Failure::new(ErrorKind::ConnectionLost, "cut").maybe_sent();
        self.answer(now, call, Answer::Failed(failure));
    }

    fn answer(&mut self, now: Duration, call: Call, answer: Answer) {
        let this = |command: &Command| matches!(command, Command::Publish(of, ..) if *of == call);
        let index = self.asked.iter().position(this).unwrap();
        self.asked.remove(index);
        self.tell(now, Fact::Published(call, vec![answer]));
    }
}

pub(crate) fn any(command: &Command) -> bool {
    is_beat(command) || is_read(command) || matches!(command, Command::Settle(..))
}

pub(crate) fn is_beat(command: &Command) -> bool {
    matches!(command, Command::Beat(..))
}

pub(crate) fn is_read(command: &Command) -> bool {
    matches!(command, Command::Read(..))
}

/// A key of this shard, and of no other call with another number.
pub(crate) fn key_of(model: &Model, shard: Shard, number: usize) -> String {
    let key = |n: usize| format!("k{n}");
    let there = |key: &String| model.shard_of(&event(key, 1).order_key()) == shard;
    (0..).map(key).filter(there).nth(number).unwrap()
}

/// Commits the first event of a key.
pub(crate) fn enqueue(model: &mut Model, now: Duration, key: &str) {
    let tx = model.begin();
    model.insert(now, tx, event(key, 1)).unwrap();
    model.commit(tx);
}
