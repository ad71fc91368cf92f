//! The events, and what becomes of each.

/// The destination that refuses for a while.
pub(super) const AGAIN: &str = "again";
/// How often it does. The pauses between grow: after the last one there are seconds to mend it in.
pub(super) const RETRIES: u32 = 5;

const HOUR: u32 = 3_600;

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Published,
    PublishedAfterRetries,
    Retrying,
    Held,
    Scheduled,
    Dead,
    Discarded,
    Pending,
}

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) event_type: &'static str,
    pub(super) aggregate_type: &'static str,
    /// How many seconds before its row it was made.
    pub(super) age: u32,
    pub(super) fate: Fate,
}

impl Event {
    pub(super) fn is_published(&self) -> bool {
        matches!(self.fate, Fate::Published | Fate::PublishedAfterRetries)
    }

    /// What a person threw away is neither published nor to be published.
    pub(super) fn is_unpublished(&self) -> bool {
        !self.is_published() && self.fate != Fate::Discarded
    }

    /// How often it was refused; an event without a route is refused once, by ourselves.
    pub(super) fn retries(&self) -> u32 {
        match self.fate {
            Fate::PublishedAfterRetries => RETRIES,
            Fate::Retrying | Fate::Dead | Fate::Discarded => 1,
            Fate::Published | Fate::Held | Fate::Scheduled | Fate::Pending => 0,
        }
    }

    pub(super) fn is_of_the_last_hour(&self) -> bool {
        self.age < HOUR
    }
}

/// The events in the order of their rows. No class has an age near an hour: a slow machine must not change the answer.
pub(super) fn events(scale: u32) -> Vec<Event> {
    let classes = [
        (5 * scale, "OrderPlaced", "ORDER", 2 * HOUR, Fate::Published),
        (40 * scale, "OrderPlaced", "ORDER", 100, Fate::Published),
        (10 * scale, "OrderCancelled", "ORDER", 300, Fate::Published),
        (2, "InvoiceSent", "INVOICE", 50, Fate::PublishedAfterRetries),
        (3, "InvoiceDue", "INVOICE", 60, Fate::Retrying),
        (4, "ParcelSent", "PARCEL", 70, Fate::Held),
        (6, "ReminderDue", "ORDER", 80, Fate::Scheduled),
        (1, "TicketOpened", "TICKET", 3 * HOUR, Fate::Dead),
        (2 * scale, "TicketOpened", "TICKET", 90, Fate::Dead),
        (1, "TicketOpened", "TICKET", 95, Fate::Discarded),
        (7 * scale, "OrderPlaced", "ORDER", 1, Fate::Pending),
    ];
    let mut events = Vec::new();
    for (count, event_type, aggregate_type, age, fate) in classes {
        for _ in 0..count {
            let id = format!("event-{:05}", events.len());
            events.push(Event {
                id,
                event_type,
                aggregate_type,
                age,
                fate,
            });
        }
    }
    events
}
