//! The channels as sinks of a relay, and the routes that lead to them.
//!
//! A board commits each delivery as an event beside its notification. A relay on that outbox, with these routes and
//! sinks, carries it out: what fails is tried again, what cannot be sent is a dead letter, and a crash repeats a
//! delivery at worst.
//!
//! ```
//! # use std::sync::Arc;
//! # fn example(store: Arc<dyn postrider_core::Store>) -> Result<(), Box<dyn std::error::Error>> {
//! use postrider_notify::deliver::{EmailOptions, EmailSink, PushOptions, PushSink, router};
//! use postrider_relay::Relay;
//!
//! let email = EmailOptions::new("mail.example.com", "Orders <orders@example.com>")
//!     .login("orders", "s3cret".into())
//!     .unsubscribe("https://example.com/unsubscribe?user={user_id}&category={category}");
//! let push = PushOptions::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX".into());
//! let relay = Relay::builder()
//!     .store(store)
//!     .sink_named("email", Arc::new(EmailSink::new(email)?))
//!     .sink_named("push", Arc::new(PushSink::new(push)?))
//!     .router(router()?)
//!     .build()?;
//! # Ok(())
//! # }
//! ```

mod email;
mod push;

use std::time::Duration;

use postrider_core::{
    AddressField, Condition, DeadLetter, Destination, DestinationName, Envelope, ErrorKind, Event, Failure,
    InvalidEvent, Limits, Message, RetryPolicy, Router, RouterBuilder, RouterError, Template,
};

use crate::{Channel, Dispatch};

pub use email::{EmailError, EmailOptions, EmailSink, Security};
pub(crate) use push::refused;
pub use push::{PushError, PushOptions, PushSink};

/// How a refused delivery is tried again. Servers of mail that do not know a sender yet turn it away for minutes, and
/// urls are away for an hour while somebody deploys; whoever refuses for longer needs a person.
pub const RETRY: RetryPolicy = RetryPolicy {
    base: Duration::from_secs(5),
    multiplier: 3.0,
    max: Duration::from_secs(30 * 60),
    jitter: 0.2,
    max_attempts: 8,
};

/// The one part of an address: whose delivery it is. The place itself is in the payload, where only the channel reads
/// it; but the relay must be able to tell one person's trouble from everybody's, and to try another person's delivery
/// when it asks whether a channel is well again.
const RECIPIENT: &str = "recipient";
const ADDRESS: &[AddressField] = &[AddressField {
    name: RECIPIENT,
    required: true,
}];

/// What helps a delivery whose address is wrong: it has the one that was known when it was stored.
const FROZEN: &str = "correct it in the directory for what comes, and `to` in this one with `postrider dead edit`, or \
    discard it";

/// The routes of all channels that something is sent by, and nothing else: the router of an outbox that holds only
/// deliveries.
pub fn router() -> Result<Router, RouterError> {
    Ok(routes(Router::builder(), RETRY)?.build())
}

/// Adds the routes of deliveries behind those that are there, for an outbox that is shared with other events. The sinks
/// are those named as the channels, `email` and `push`.
pub fn routes(mut builder: RouterBuilder, retry: RetryPolicy) -> Result<RouterBuilder, RouterError> {
    for channel in Channel::ALL {
        builder = route(builder, channel, retry)?;
    }
    Ok(builder)
}

/// Adds the route of one channel, for a relay that does not have them all. The feed has none: it is stored already.
pub fn route(
    builder: RouterBuilder,
    channel: Channel,
    retry: RetryPolicy,
) -> Result<RouterBuilder, RouterError> {
    let Some(event_type) = channel.event_type() else {
        return Ok(builder);
    };
    let when = Condition {
        aggregate_type: vec![Dispatch::AGGREGATE_TYPE.to_owned()],
        event_type: vec![event_type.to_owned()],
        ..Condition::default()
    };
    let recipient = Template::parse("{aggregate_id}").expect("a template without a mistake");
    let destination = Destination {
        name: DestinationName::new(channel.as_str()),
        broker: channel.as_str().to_owned(),
        address: vec![(RECIPIENT.to_owned(), recipient)],
        message_key: None,
        envelope: Envelope::Raw,
        // Each delivery has a key of its own, so that a dead one is in nobody's way.
        dead_letter: DeadLetter::Skip,
        retry,
        limits: Limits::default(),
    };
    builder.route(when, vec![destination])
}

impl Dispatch {
    /// The event that carries it; None for a channel by which nothing is sent. The aggregate is the person, so that the
    /// relay can tell whose deliveries fail; the key is the delivery itself, so that none waits for another.
    pub fn event(&self) -> Result<Option<Event>, InvalidEvent> {
        let Some(event_type) = self.channel.event_type() else {
            return Ok(None);
        };
        let id = Dispatch::id_of(self.notification_id, self.channel);
        let event = Event::builder(event_type)
            .id(id.as_str())
            .aggregate(Dispatch::AGGREGATE_TYPE, &self.user_id)
            .key(id)
            .payload(self);
        event.build().map(Some)
    }
}

/// Reads what a message of a channel carries. The reason why it cannot be read never quotes it.
fn read(message: &Message, channel: Channel) -> Result<Dispatch, Failure> {
    let wrong = |text: String| Failure::new(ErrorKind::NotEncodable, text);
    let dispatch: Dispatch = serde_json::from_slice(&message.body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(format!(
            "the payload is not a delivery: line {line}, column {column}"
        ))
    })?;
    if dispatch.channel != channel {
        let (got, here) = (dispatch.channel.as_str(), channel.as_str());
        return Err(wrong(format!(
            "a delivery by {got} was routed to {here}: correct the route"
        )));
    }
    Ok(dispatch)
}

#[cfg(test)]
mod tests {
    use postrider_core::Routed;

    use super::*;

    fn dispatch(channel: Channel) -> Dispatch {
        Dispatch {
            notification_id: 7,
            user_id: "u-1".to_owned(),
            name: "Ann".to_owned(),
            channel,
            to: "ann@example.com".to_owned(),
            title: "Hello".to_owned(),
            body: "Hello Ann".to_owned(),
            html: None,
            category: "orders".to_owned(),
            event_id: "e-1".to_owned(),
            event_type: "OrderPlaced".to_owned(),
        }
    }

    #[test]
    fn deliveries_go_to_their_channel_and_nothing_else_does() {
        let router = router().unwrap();
        for channel in [Channel::Email, Channel::Push] {
            let event = dispatch(channel).event().unwrap().unwrap();
            let Routed::To(deliveries) = router.route("outbox", &event) else {
                panic!("{channel:?} has no route");
            };
            let destination = router.destination(deliveries[0].destination);
            assert_eq!(destination.name.as_str(), channel.as_str());
            let (address, _) = deliveries[0].rendered.as_ref().unwrap();
            assert_eq!(address.get(RECIPIENT), Some("u-1"));
        }
        assert_eq!(dispatch(Channel::InApp).event().unwrap(), None);
        let other = Event::builder("notification.email")
            .aggregate("ORDER", "1")
            .build();
        assert!(matches!(
            router.route("outbox", &other.unwrap()),
            Routed::Nowhere(_)
        ));
    }

    #[test]
    fn the_routes_stand_behind_those_of_others() {
        let all = Condition {
            aggregate_type: vec!["ORDER".to_owned()],
            ..Condition::default()
        };
        let builder = Router::builder().route(all, Vec::new()).unwrap();
        let router = routes(builder, RETRY).unwrap().build();
        assert_eq!(router.routes().len(), 3);
        let order = Event::builder("OrderPlaced").aggregate("ORDER", "1").build();
        assert!(matches!(router.route("outbox", &order.unwrap()), Routed::Dropped));
    }

    #[test]
    fn what_is_no_delivery_is_named_without_being_quoted() {
        let event = Event::builder("notification.email")
            .aggregate("NOTIFICATION", "u")
            .json("{\"to\":\"s3cret\"}");
        let event = event.build().unwrap();
        let message = postrider_core::encode(
            Envelope::Raw,
            &event,
            &event.order_key(),
            Default::default(),
            String::new(),
        );
        let failure = read(&message.unwrap(), Channel::Email).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::NotEncodable);
        assert!(!failure.text.contains("s3cret"), "{}", failure.text);
    }
}
