//! What people see of an event.

/// What people see of an event. Derived from where it is, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Queued.
    Pending,
    /// Parked after a failure; tried again by itself.
    Retrying,
    /// Parked behind another event of its key.
    Waiting,
    /// Parked because its destination is down or paused.
    Held,
    /// Parked until its time.
    Scheduled,
    /// Needs a person.
    DeadLetter,
    /// Sent.
    Published,
    /// Thrown away by a person, with a reason.
    Discarded,
}

impl Status {
    /// The word of the `outbox_events` view.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Retrying => "RETRYING",
            Status::Waiting => "WAITING",
            Status::Held => "HELD",
            Status::Scheduled => "SCHEDULED",
            Status::DeadLetter => "DEAD_LETTER",
            Status::Published => "PUBLISHED",
            Status::Discarded => "DISCARDED",
        }
    }

    /// How bad it is: the lower, the worse. The worst state of an event is the one that a line shows.
    pub fn severity(self) -> u8 {
        match self {
            Status::DeadLetter => 0,
            Status::Retrying => 1,
            Status::Held => 2,
            Status::Waiting => 3,
            Status::Scheduled => 4,
            Status::Pending => 5,
            Status::Discarded => 6,
            Status::Published => 7,
        }
    }

    /// The status of a word of the view, in either case.
    pub fn parse(word: &str) -> Option<Status> {
        use Status::{DeadLetter, Discarded, Held, Pending, Published, Retrying, Scheduled, Waiting};
        let all = [
            Pending, Retrying, Waiting, Held, Scheduled, DeadLetter, Published, Discarded,
        ];
        all.into_iter().find(|status| {
            status.as_str().eq_ignore_ascii_case(word)
                || (*status == DeadLetter && word.eq_ignore_ascii_case("dead"))
        })
    }

    /// Whether it is one of a parked row.
    pub fn is_parked(self) -> bool {
        !matches!(self, Status::Pending | Status::Published | Status::Discarded)
    }
}
