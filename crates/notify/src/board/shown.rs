//! What is read of notifications and of their deliveries, and what a mark changes.

use postrider_core::Timestamp;

use crate::{DeliveryState, Mark, Which};

/// The template of what is read of a notification, as it is in a feed. Times are microseconds since 1970.
pub(crate) const ENTRY: &str =
    "n.id, n.event_id, n.event_type, n.category, n.title, n.body, {micros n.created_at},
    {micros n.seen_at}, {micros n.read_at}, {micros n.archived_at}";

/// What is read of it besides, as somebody sees it who asks for all.
pub(crate) const WHOLE: &str = "n.user_id, n.audience, n.resource_id, n.metadata";

/// Who wants it by mail only has a notification, and nothing in the feed.
pub(crate) const IN_APP: &str = "EXISTS (
    SELECT 1 FROM {notification_delivery} d WHERE d.notification_id = n.id AND d.channel = 'in_app')";

/// How many entries a live feed is shown at once.
pub(crate) const RECENT: i64 = 100;

/// How many of the latest of a person are looked at for those: ids may become visible out of order, so the latest by
/// time are not quite the latest by id, and whoever has thousands must not have all of them read every second.
pub(crate) const LATEST: i64 = 1_000;

/// How the ids that are meant compare with which one.
pub(crate) fn compared(which: Which) -> (&'static str, i64) {
    match which {
        Which::One(id) => ("=", id),
        Which::UpTo(id) => ("<=", id),
    }
}

/// The template of what a mark sets, with all that it implies, and the condition that it is not set yet.
pub(crate) fn marking(mark: Mark) -> (&'static str, &'static str) {
    match mark {
        Mark::Seen => ("seen_at = {now}", "seen_at IS NULL"),
        Mark::Read => (
            "seen_at = coalesce(seen_at, {now}), read_at = {now}",
            "read_at IS NULL",
        ),
        Mark::Archived => (
            "seen_at = coalesce(seen_at, {now}), read_at = coalesce(read_at, {now}), archived_at = {now}",
            "archived_at IS NULL",
        ),
    }
}

/// The metadata of a notification. A text that another tool has written and that is no JSON is shown as it is.
pub(crate) fn metadata(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// How a delivery stands whose event has this status in the outbox; without one the outbox has forgotten it.
pub(crate) fn standing(status: Option<&str>, at: Option<Timestamp>, error: Option<String>) -> DeliveryState {
    match status {
        None => DeliveryState::Settled,
        Some("PUBLISHED") => DeliveryState::Delivered { at },
        Some("DISCARDED") => DeliveryState::Discarded,
        Some("DEAD_LETTER") => DeliveryState::Dead {
            error: error.unwrap_or_default(),
        },
        Some(status) => DeliveryState::Pending {
            status: status.to_ascii_lowercase(),
            error,
        },
    }
}
