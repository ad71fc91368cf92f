//! Events that stay where they are although a person has sent them again: behind another of their key, or paused.

use postrider_core::{
    DeadLetter, EventId, EventRecord, Filter, Head, InForce, RecordedRoute, Router, Status, Timestamp,
};
use serde_json::{Value, json};

use super::control;
use super::record::Beside;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::{cell, whole};
use crate::wire::Opened;

/// One that waits, and for whom.
pub struct Waits {
    id: String,
    destination: Option<String>,
    head: Head,
}

/// One that a person has paused, and what lets it go on.
pub struct Paused {
    id: String,
    by: InForce,
    resumed_by: String,
    /// Within which time relays hear of it, where some may not have yet.
    heard_within: Option<String>,
}

/// What was sent again and does not go at once.
#[derive(Default)]
pub struct Stays {
    pub waits: Vec<Waits>,
    pub paused: Vec<Paused>,
}

impl Stays {
    pub fn extend(&mut self, other: Stays) {
        self.waits.extend(other.waits);
        self.paused.extend(other.paused);
    }
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

/// What was redriven of an event, or would be, and does not go before another or before something is resumed.
pub async fn stays(
    config: &Config,
    outbox: &Opened,
    id: &str,
    filter: &Filter,
    dry_run: bool,
) -> Result<Stays, Failure> {
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
    let mut controls = control::in_force(outbox).await?;
    controls.retain(|one| one.paused);
    let beside = Beside {
        router: &config.router,
        paused: Some(controls),
    };
    let mut stays = Stays::default();
    for record in records.map_err(|error| Failure::store(&outbox.name, &error))? {
        let is_meant =
            |route: &&RecordedRoute| redriven(route.status) && meant.matches(&record, route, Timestamp(0));
        let routes: Vec<RecordedRoute> = record.routes.iter().filter(is_meant).cloned().collect();
        for route in &routes {
            stays.waits.extend(beside.behind(route).map(|head| Waits {
                id: id.to_owned(),
                destination: route.destination.as_ref().map(ToString::to_string),
                head: head.clone(),
            }));
        }
        // What holds its other destinations holds nothing that was sent again.
        let sent = EventRecord { routes, ..record };
        let paused = beside.paused(&outbox.name, &sent).map(|one| Paused {
            id: id.to_owned(),
            by: one.clone(),
            heard_within: control::heard_within(config, one),
            resumed_by: control::undone_by(config, &outbox.name, &one.scope),
        });
        stays.paused.extend(paused);
    }
    Ok(stays)
}

impl Paused {
    pub fn value(&self) -> Value {
        let mut value = control::value(&self.by);
        value["event_id"] = self.id.as_str().into();
        value["may_still_go"] = self.heard_within.is_some().into();
        value
    }

    pub fn text(&self, dry_run: bool) -> String {
        let may_go = self.heard_within.as_ref().map_or_else(String::new, |within| {
            format!("; relays hear of a pause within {within}, and this one is younger: it may still go")
        });
        format!(
            "{} {} where it is: {} is paused, and `{}` lets it go on{may_go}",
            cell(&self.id),
            if dry_run { "would stay" } else { "stays" },
            control::said(&self.by.scope),
            self.resumed_by
        )
    }
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
