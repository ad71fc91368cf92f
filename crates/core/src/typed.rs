//! A new event type is one struct.

use serde::Serialize;

use crate::{Event, EventBuilder, InvalidEvent};

/// A business event as a type of its own.
///
/// ```
/// use postrider_core::{DomainEvent, Event};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct OrderPlaced { order: u64, total: u64 }
///
/// impl DomainEvent for OrderPlaced {
///     const EVENT_TYPE: &'static str = "OrderPlaced";
///     const AGGREGATE_TYPE: &'static str = "ORDER";
///     fn aggregate_id(&self) -> String { self.order.to_string() }
/// }
///
/// let event: Event = OrderPlaced { order: 42, total: 1250 }.to_event()?;
/// assert_eq!(event.event_type, "OrderPlaced");
/// # Ok::<(), postrider_core::InvalidEvent>(())
/// ```
pub trait DomainEvent: Serialize {
    /// What happened.
    const EVENT_TYPE: &'static str;
    /// The kind of thing it happened to.
    const AGGREGATE_TYPE: &'static str;

    /// The thing it happened to.
    fn aggregate_id(&self) -> String;

    /// What order is kept by, where the aggregate is not the right answer.
    fn key(&self) -> Option<String> {
        None
    }

    /// The event, for adding headers or an id of the producer's own.
    fn event_builder(&self) -> EventBuilder
    where
        Self: Sized,
    {
        let builder = Event::builder(Self::EVENT_TYPE)
            .aggregate(Self::AGGREGATE_TYPE, self.aggregate_id())
            .payload(self);
        match self.key() {
            Some(key) => builder.key(key),
            None => builder,
        }
    }

    /// The event, checked.
    fn to_event(&self) -> Result<Event, InvalidEvent>
    where
        Self: Sized,
    {
        self.event_builder().build()
    }
}
