//! What can go wrong, and how often it did.

macro_rules! faults {
    ($($variant:ident = $name:literal,)*) => {
        /// A kind of fault or awkward input.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $name] $variant,)* }

        impl Fault {
            /// Every kind.
            pub const ALL: &'static [Fault] = &[$(Fault::$variant,)*];

            /// Its name in the summary.
            pub fn as_str(self) -> &'static str {
                match self { $(Fault::$variant => $name,)* }
            }
        }
    };
}

faults! {
    LateCommit = "late_commit",
    Rollback = "rollback",
    DatabaseError = "database_error",
    DatabaseAnswerLost = "database_answer_lost",
    DatabaseAppliedLate = "database_applied_late",
    StaleRead = "stale_read",
    DatabaseDown = "database_down",
    BrokerDown = "broker_down",
    BrokerRestart = "broker_restart",
    ConfirmLost = "confirm_lost",
    ConfirmDelayed = "confirm_delayed",
    MessageDoubled = "message_doubled",
    Nacked = "nacked",
    Rejected = "rejected",
    Misaddressed = "misaddressed",
    ConnectionKiller = "connection_killer",
    RelayCrash = "relay_crash",
    RelayFreeze = "relay_freeze",
    RelayJoin = "relay_join",
    RelayVisit = "relay_visit",
    RelayLeave = "relay_leave",
    ProcessKiller = "process_killer",
    Redrive = "redrive",
    Discard = "discard",
    BulkRedrive = "bulk_redrive",
    BulkDiscard = "bulk_discard",
    Replay = "replay",
    Restore = "restore",
    JobPaused = "job_paused",
    JobCancelled = "job_cancelled",
    Edited = "edited",
    Purged = "purged",
    Moved = "moved",
    ScheduledCancelled = "scheduled_cancelled",
    Limited = "limited",
    KeyPause = "key_pause",
    Pause = "pause",
    Scheduled = "scheduled",
    DuplicateId = "duplicate_id",
    IdReused = "id_reused",
    BadRow = "bad_row",
    NoRoute = "no_route",
    Reconfigured = "reconfigured",
}

/// How often each kind happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Default for Faults {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Faults {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often one kind happened.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Faults) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
