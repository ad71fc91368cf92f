//! Events that wait for another of their key, although a person has sent them again.

use postrider_core::{DeadLetter, EventId, Filter, Head, RecordedRoute, Router, Status, Timestamp};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{cell, whole};
use crate::wire::Opened;

/// One that waits, and for whom.
pub struct Waits {
    id: String,
    destination: Option<String>,
    head: Head,
}

/// The event that one is behind at a destination; none where dead ones are passed over.
pub fn head<'a>(router: &Router, route: &'a RecordedRoute) -> Option<&'a Head> {
    let skips = |head: &&Head| {
        let destinations = router.destinations();
        let mut same = destinations
            .iter()
            .filter(|one| Some(&one.name) == head.destination.as_ref());
        head.status == Status::DeadLetter && same.any(|one| one.dead_letter == DeadLetter::Skip)
    };
    route.behind.as_ref().filter(|head| !skips(head))
}

/// The same for people, behind the status of the one that waits.
pub fn named(head: &Head) -> String {
    format!(
        "behind {} ({})",
        whole(head.event_id.as_str()),
        head.status.as_str()
    )
}

/// What was redriven of an event, or would be, and does not go before another.
pub async fn waits(
    router: &Router,
    outbox: &Opened,
    id: &str,
    filter: &Filter,
    dry_run: bool,
) -> Result<Vec<Waits>, Failure> {
    // States and ages were those of before.
    let meant = Filter {
        status: Vec::new(),
        older_than: None,
        newer_than: None,
        failing_for: None,
        ..filter.clone()
    };
    let redriven = |status| status == Status::Retrying || dry_run && status == Status::DeadLetter;
    let records = outbox.console.show(EventId::from(id)).await;
    let mut waits = Vec::new();
    for record in records.map_err(|error| Failure::store(&outbox.name, &error))? {
        let routes = record.routes.iter().filter(|route| redriven(route.status));
        for route in routes.filter(|route| meant.matches(&record, route, Timestamp(0))) {
            waits.extend(head(router, route).map(|head| Waits {
                id: id.to_owned(),
                destination: route.destination.as_ref().map(ToString::to_string),
                head: head.clone(),
            }));
        }
    }
    Ok(waits)
}

impl Waits {
    pub fn value(&self) -> Value {
        json!({
            "event_id": self.id,
            "destination": self.destination,
            "behind": self.head.event_id.as_str(),
            "behind_status": self.head.status.as_str(),
        })
    }

    pub fn text(&self, dry_run: bool) -> String {
        let at = self
            .destination
            .as_deref()
            .map(|name| format!(" at {}", cell(name)));
        format!(
            "{} {}{} {}: it goes when that one has left",
            cell(&self.id),
            if dry_run { "would wait" } else { "waits" },
            at.unwrap_or_default(),
            named(&self.head)
        )
    }
}
