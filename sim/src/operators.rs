//! Trouble and its repair: what breaks when, and what people do about it.

use std::time::Duration;

use postrider_core::{DestinationName, JobId};

use crate::faults::Fault;
use crate::plan::Knob;
use crate::world::{Next, World};

/// Something that happens to the world.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    DatabaseDown,
    DatabaseUp,
    BrokerDown(usize),
    BrokerUp(usize),
    BrokerRestart(usize),
    Unbind(usize),
    Bind(usize),
    Crash,
    Freeze,
    Thaw(usize),
    Join,
    Visit,
    /// The relay of this life dies and is not replaced.
    VisitEnds(u64),
    Leave,
    Redrive,
    Discard,
    Pause,
    Resume,
    Replay,
    Restore,
    BulkRedrive,
    Step(JobId),
    ResumeJob(JobId),
    RedriveSome,
    DiscardSome,
    Edit,
    Move,
    CancelScheduled,
    PauseKey,
    ResumeKey(String),
    Limit,
    Unlimit(DestinationName),
    Purge,
    Reconfigure,
    Stale,
    StaleEnds,
    Calm,
    Progress,
    CalmRound(u32),
}

impl World {
    /// Spreads this seed's troubles over the storm.
    pub(crate) fn plan_troubles(&mut self) {
        let broker = |rng: &mut crate::rng::Rng| rng.below(2);
        type Makes = fn(usize) -> Deed;
        let kinds: [(Knob, f64, Makes); 13] = [
            (Knob::DatabaseDown, 0.1, |_| Deed::DatabaseDown),
            (Knob::BrokerDown, 0.2, Deed::BrokerDown),
            (Knob::BrokerRestart, 0.3, Deed::BrokerRestart),
            (Knob::Misaddressed, 0.2, Deed::Unbind),
            (Knob::Crash, 0.2, |_| Deed::Crash),
            (Knob::Freeze, 0.3, |_| Deed::Freeze),
            (Knob::Join, 0.3, |_| Deed::Join),
            (Knob::Visit, 0.2, |_| Deed::Visit),
            (Knob::Leave, 0.3, |_| Deed::Leave),
            (Knob::Operator, 0.5, |_| Deed::Redrive),
            (Knob::Operator, 0.2, |_| Deed::Discard),
            (Knob::Pause, 0.15, |_| Deed::Pause),
            (Knob::Reconfigured, 0.04, |_| Deed::Reconfigure),
        ];
        let seconds = self.plan.storm.as_secs_f64();
        for (knob, per_second, deed) in kinds {
            let expected = self.plan.rate(knob) * per_second * seconds;
            let mut count = expected as usize + usize::from(self.rng.chance(expected.fract()));
            if matches!(deed(0), Deed::Reconfigure) {
                count = count.min(1);
            }
            for _ in 0..count {
                let at = self.rng.millis(0, self.plan.storm.as_millis() as usize);
                let which = broker(&mut self.rng);
                self.schedule(at, Next::Trouble(deed(which)));
            }
        }
        for _ in 0..(self.plan.stale_reads * seconds) as usize {
            let at = self.people.millis(0, self.plan.storm.as_millis() as usize);
            self.schedule(at, Next::Trouble(Deed::Stale));
        }
    }

    pub(crate) fn trouble(&mut self, deed: Deed) {
        let begins = !matches!(
            deed,
            Deed::DatabaseUp
                | Deed::BrokerUp(_)
                | Deed::Bind(_)
                | Deed::Thaw(_)
                | Deed::Join
                | Deed::Resume
                | Deed::Step(_)
                | Deed::ResumeJob(_)
                | Deed::ResumeKey(_)
                | Deed::Unlimit(_)
                | Deed::StaleEnds
                | Deed::Calm
                | Deed::Progress
                | Deed::CalmRound(_)
        );
        if self.calm && begins {
            return;
        }
        match deed {
            Deed::DatabaseDown => self.database_down(true),
            Deed::DatabaseUp => self.database_down(false),
            Deed::BrokerDown(broker) => self.broker_down(broker),
            Deed::BrokerUp(broker) => self.brokers[broker].down = false,
            Deed::BrokerRestart(broker) => self.restart_broker(broker),
            Deed::Unbind(broker) => self.unbind(broker),
            Deed::Bind(broker) => self.brokers[broker].unbound.clear(),
            Deed::Crash => self.crash_one(),
            Deed::Freeze => self.freeze_one(),
            Deed::Thaw(slot) => self.thaw(slot),
            Deed::Join => self.join(),
            Deed::Visit => self.visit(),
            Deed::VisitEnds(life) => self.visit_ends(life),
            Deed::Leave => self.leave_one(),
            Deed::Redrive => self.redrive(0.5),
            Deed::Discard => self.discard(0.2, false),
            Deed::Pause => self.pause(),
            Deed::Resume => self.resume(),
            Deed::Replay => self.replay(),
            Deed::Restore => self.restore(),
            Deed::BulkRedrive => self.bulk_redrive(),
            Deed::Step(id) => self.step(id),
            Deed::ResumeJob(id) => self.resume_job(id),
            Deed::RedriveSome => self.redrive_some(),
            Deed::DiscardSome => self.discard_some(),
            Deed::Edit => self.edit(),
            Deed::Move => self.move_scheduled(),
            Deed::CancelScheduled => self.cancel_scheduled(),
            Deed::PauseKey => self.pause_key(),
            Deed::ResumeKey(key) => self.resume_key(&key),
            Deed::Limit => self.limit(),
            Deed::Unlimit(name) => self.unlimit(name),
            Deed::Purge => self.purge(),
            Deed::Reconfigure => self.reconfigure(),
            Deed::Stale => self.begin_stale(),
            Deed::StaleEnds => self.db.stale_below = None,
            Deed::Progress => self.check_progress(),
            Deed::Calm => self.calm_down(),
            Deed::CalmRound(round) => self.calm_round(round),
        }
    }

    fn unbind(&mut self, broker: usize) {
        let addresses = ["q.A", "q.B", "q.C", "t", "third"];
        let Some(address) = self.rng.pick(&addresses).copied() else {
            return;
        };
        self.say(|| format!("{address} is unbound"));
        self.brokers[broker].unbound.insert(address.to_owned());
        let long = self.rng.millis(200, 8_000);
        self.schedule(long, Next::Trouble(Deed::Bind(broker)));
    }

    fn crash_one(&mut self) {
        let living = self.living();
        if let Some(slot) = self.rng.pick(&living).copied() {
            self.faults.count(Fault::RelayCrash);
            self.crash(slot);
        }
    }

    fn freeze_one(&mut self) {
        let living = self.living();
        if let Some(slot) = self.rng.pick(&living).copied() {
            self.freeze(slot);
        }
    }

    fn leave_one(&mut self) {
        let living = self.living();
        if let Some(slot) = self.rng.pick(&living).copied() {
            self.leave(slot);
        }
    }

    fn join(&mut self) {
        let staying = self
            .living()
            .into_iter()
            .filter(|slot| !self.relays[*slot].leaving)
            .count();
        if staying < 4 && (!self.calm || staying == 0) {
            self.faults.count(Fault::RelayJoin);
            self.start_relay();
        }
    }

    /// A relay joins and dies as soon as it has got something: what the others gave up for it comes back to them
    /// unsent. Whoever still trusts a floor from before then never sees it again.
    fn visit(&mut self) {
        if self.living().len() >= 4 {
            return;
        }
        self.faults.count(Fault::RelayVisit);
        let life = self.start_relay();
        self.visitors.insert(life);
        let most = self.plan.settings.initial_delay + self.plan.settings.lease;
        self.schedule(most, Next::Trouble(Deed::VisitEnds(life)));
    }

    fn visit_ends(&mut self, life: u64) {
        let living = self.living();
        if let Some(slot) = living.into_iter().find(|slot| self.relays[*slot].life == life) {
            self.end(slot);
        }
    }

    /// Every relay is replaced by one with other routes.
    fn reconfigure(&mut self) {
        if self.changed {
            return;
        }
        self.faults.count(Fault::Reconfigured);
        self.say(|| "the configuration changes".to_owned());
        self.changed = true;
        for slot in self.living() {
            self.crash(slot);
        }
        self.check.reconfigured();
    }

    /// All trouble ends.
    fn calm_down(&mut self) {
        self.say(|| "calm".to_owned());
        self.calm = true;
        self.db.down = false;
        self.db.stale_below = None;
        for broker in &mut self.brokers {
            broker.down = false;
            broker.unbound.clear();
            broker.rejects.clear();
            broker.killers.clear();
        }
        self.lift_controls();
        self.resume_jobs();
        let staying = self
            .living()
            .into_iter()
            .filter(|slot| !self.relays[*slot].leaving)
            .count();
        if staying == 0 {
            self.start_relay();
        }
        self.expect_progress();
        self.schedule(Duration::from_secs(1), Next::Trouble(Deed::CalmRound(0)));
    }

    /// A patient operator: everything dead is sent again, and thrown away when it has died again.
    fn calm_round(&mut self, round: u32) {
        if round < 3 || round.is_multiple_of(2) {
            self.redrive(1.0);
        } else {
            self.discard(1.0, true);
        }
        self.schedule(Duration::from_secs(1), Next::Trouble(Deed::CalmRound(round + 1)));
    }
}
