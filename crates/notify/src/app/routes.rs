//! The routes of an outbox whose events become notifications, or whose events are deliveries.

use postrider_core::{
    Condition, DeadLetter, Destination, DestinationName, Envelope, Limits, RetryPolicy, Router,
    RouterBuilder, RouterError,
};

use crate::{Channel, deliver};

/// The name of the destination that turns events into notifications, in the status and in metrics.
pub const DIRECT: &str = "notifications";

/// The sink that a destination of ours asks a relay for. Names of brokers have no dots, so it is nobody else's.
pub fn sink_name(destination: &str) -> String {
    format!("notify.{destination}")
}

/// Begins a router with what the outbox of notifications needs; the routes of others stand behind it, so that one which
/// takes everything takes no delivery.
///
/// Events of these audiences take effect in this process; none where a broker carries them. Deliveries go to these
/// channels.
pub fn routes(
    outbox: &str,
    audiences: &[String],
    channels: &[Channel],
    retry: RetryPolicy,
) -> Result<RouterBuilder, RouterError> {
    let mut ours = Router::builder();
    for channel in channels {
        ours = deliver::route(ours, *channel, deliver::RETRY)?;
    }
    let ours = ours.build();
    let mut all = Router::builder();
    for route in ours.routes() {
        let when = Condition {
            outbox: vec![outbox.to_owned()],
            ..route.when.clone()
        };
        let to = route.to.iter().map(|id| {
            let destination = ours.destination(*id).clone();
            Destination {
                broker: sink_name(destination.name.as_str()),
                ..destination
            }
        });
        all = all.route(when, to.collect())?;
    }
    if audiences.is_empty() {
        return Ok(all);
    }
    let when = Condition {
        outbox: vec![outbox.to_owned()],
        aggregate_type: audiences.to_vec(),
        ..Condition::default()
    };
    let direct = Destination {
        name: DestinationName::new(DIRECT),
        broker: sink_name(DIRECT),
        address: Vec::new(),
        message_key: None,
        envelope: Envelope::Flat,
        dead_letter: DeadLetter::Hold,
        retry,
        limits: Limits::default(),
    };
    all.route(when, vec![direct])
}

#[cfg(test)]
mod tests {
    use postrider_core::{Event, Routed};

    use super::*;

    fn goes_to(router: &Router, event_type: &str, aggregate: &str) -> Option<String> {
        let event = Event::builder(event_type).aggregate(aggregate, "1").build();
        match router.route("main", &event.unwrap()) {
            Routed::To(deliveries) => Some(router.destination(deliveries[0].destination).broker.clone()),
            _ => None,
        }
    }

    #[test]
    fn ours_stand_before_one_that_takes_everything() {
        let audiences = ["CUSTOMER".to_owned()];
        let begun = routes("main", &audiences, &Channel::ALL, deliver::RETRY).unwrap();
        let rest = Destination {
            name: DestinationName::new("rest"),
            broker: "events".to_owned(),
            address: Vec::new(),
            message_key: None,
            envelope: Envelope::Flat,
            dead_letter: DeadLetter::Hold,
            retry: deliver::RETRY,
            limits: Limits::default(),
        };
        let router = begun.route(Condition::default(), vec![rest]).unwrap().build();
        let goes_to = |event_type, aggregate| goes_to(&router, event_type, aggregate).unwrap();
        assert_eq!(goes_to("OrderPlaced", "CUSTOMER"), "notify.notifications");
        assert_eq!(goes_to("notification.email", "NOTIFICATION"), "notify.email");
        assert_eq!(goes_to("notification.push", "NOTIFICATION"), "notify.push");
        assert_eq!(goes_to("OrderPlaced", "ORDER"), "events");
    }

    #[test]
    fn another_outbox_is_left_alone() {
        let audiences = ["CUSTOMER".to_owned()];
        let router = routes("other", &audiences, &Channel::ALL, deliver::RETRY);
        let router = router.unwrap().build();
        assert_eq!(goes_to(&router, "OrderPlaced", "CUSTOMER"), None);
        assert_eq!(goes_to(&router, "notification.email", "NOTIFICATION"), None);
    }
}
