//! Bugs that can be switched on in simulations: a checker that does not find them is broken.

macro_rules! plants {
    ($($variant:ident = $name:literal, $what:literal;)*) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Plant { $(#[doc = $what] $variant,)* }

        impl Plant {
            /// Every planted bug.
            pub const ALL: &'static [Plant] = &[$(Plant::$variant,)*];

            /// Its name on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $(Plant::$variant => $name,)* }
            }

            /// What it does.
            pub fn what(self) -> &'static str {
                match self { $(Plant::$variant => $what,)* }
            }

            /// The plant of a name.
            pub fn parse(name: &str) -> Option<Plant> {
                match name { $($name => Some(Plant::$variant),)* _ => None }
            }
        }
    };
}

plants! {
    SettleBeforeConfirm = "settle-before-confirm", "A row is settled as sent when it is handed over, not confirmed.";
    ReturnIgnored = "return-ignored", "A message that was returned as unroutable counts as confirmed.";
    NoFence = "no-fence", "A settle is written whatever the shard's token is.";
    ReadBehindLastRow = "read-behind-last-row", "Reads start behind the last row seen, not behind the horizon.";
    ChargedInOutage = "charged-in-outage", "An unavailable destination charges an attempt and parks the event.";
    LostAnswerNotSent = "lost-answer-not-sent", "A lost answer is read as not sent: the repeat is not marked.";
    ClientClock = "client-clock", "A lease is counted from when its answer arrives, by the relay's own slow clock.";
    FlagsTrusted = "flags-trusted", "What a read said of a key is trusted although a row of it was parked meanwhile.";
    SettledForgotten = "settled-forgotten", "Rows are forgotten when their settle is sent, not when it is answered.";
    FloorPastForgotten = "floor-past-forgotten", "Floors survive the loss of a lease, past rows forgotten with it.";
    EarlyPark = "early-park", "A row is parked while an earlier one of its key is still queued.";
    ProbeFollowers = "probe-followers", "A probe takes any row of a line, not its head.";
    RedrivePastHead = "redrive-past-head", "A redriven row goes although another of its key stands before it.";
    InsertedAgain = "inserted-again", "A parked row that an operator removed is inserted again by a settle.";
    LevelOneById = "level-one-by-id", "An id sent to one destination counts as sent to all.";
    ShardForgotten = "shard-forgotten", "A shard that the database gives to a relay which released it is left lying.";
    NoDestinationBlocksNobody = "no-destination-blocks-nobody", "A parked row without a destination holds nobody back.";
    HalfSentReleased = "half-sent-released", "A shard is released although a row went to one of two destinations only.";
    TakeoverUnmarked = "takeover-unmarked", "After an unclean takeover repeats are not marked.";
    StartUnwritten = "start-unwritten", "A parked row is handed over before its table says that it may have been sent.";
    StartForgotten = "start-forgotten", "A parked row that may have been sent is read as one that was not.";
    ReplayUnordered = "replay-unordered", "Copies of one replay and key do not wait for each other.";
    ReplayLiveKey = "replay-live-key", "Copies of a replay join the line of their live key.";
    RedriveNewestFirst = "redrive-newest-first", "Of a key in which something was redriven the newest goes first.";
    EditIgnored = "edit-ignored", "An event that a person changed is sent with its old payload.";
    LimitIgnored = "limit-ignored", "Limits that are changed while the relay runs are not obeyed.";
    PauseIgnored = "pause-ignored", "A paused destination is sent to.";
    PauseKeyIgnored = "pause-key-ignored", "A paused key is read as one that is not.";
    PauseKeyInHand = "pause-key-in-hand", "Events of a key that are in memory when it is paused are sent all the same.";
    StaleTrusted = "stale-trusted", "Parked rows leave however long ago they were read.";
    ScheduledEarly = "scheduled-early", "A scheduled event waits half of its time.";
    SweepForEver = "sweep-for-ever", "A sweep that failed is tried again before anything else is read.";
    VoidForEver = "void-for-ever", "Of a key that was parked no later read is trusted either: its line is kept.";
    PauseOneLane = "pause-one-lane", "A paused key is held in one lane only.";
    FollowersOvertake = "followers-overtake", "The next event of a key is handed over before the last one is answered.";
}
