//! A message of ours as a message of AMQP.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use postrider_core::{ErrorKind, Failure, Message, header};

/// What every frame has around its content.
const FRAME_OVERHEAD: usize = 8;
/// Persistent: the broker writes it to its disk before it confirms.
const PERSISTENT: u8 = 2;

/// RabbitMQ closes the channel for headers of these names whose value is not a list.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// The limits of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The largest message.
    pub(crate) message: usize,
    /// The largest frame: all properties and headers of a message must fit into one.
    pub(crate) frame: usize,
}

/// A message, ready for the client.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

/// Checks everything that would make the broker close the channel or the connection under its neighbours.
pub(crate) fn prepare(message: &Message, bounds: Bounds) -> Result<Prepared, Failure> {
    let size = message.size();
    if size > bounds.message {
        let text = format!(
            "the message has {size} bytes, the destination takes {}",
            bounds.message
        );
        return Err(Failure::new(ErrorKind::TooLarge, text));
    }
    let address = |part: &'static str| message.address.get(part);
    let routing_key = address("routing_key")
        .ok_or_else(|| Failure::new(ErrorKind::NotEncodable, "the route gives no routing_key"))?;
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(short("the event's id", message.event_id.as_str())?)
        .with_content_type(short("the content type", &message.content_type)?)
        .with_headers(headers(&message.headers)?);
    // Both are told by headers too, so a value that AMQP has no room for is left out here and nothing is lost.
    if let Some(kind) = message.header(header::EVENT_TYPE)
        && let Ok(kind) = ShortString::try_new(kind)
    {
        properties = properties.with_type(kind);
    }
    if let Some(seconds) = message.header(header::CREATED_AT).and_then(seconds) {
        properties = properties.with_timestamp(seconds);
    }
    let needed = properties_size(message);
    if needed > bounds.frame {
        let text = format!(
            "its headers have {needed} bytes, the destination takes {}",
            bounds.frame
        );
        return Err(Failure::new(ErrorKind::NotEncodable, text));
    }
    Ok(Prepared {
        exchange: short("the exchange", address("exchange").unwrap_or_default())?,
        routing_key: short("the routing key", routing_key)?,
        properties,
        body: message.body.clone(),
    })
}

/// A text of up to 255 bytes. The client cuts a longer one off, and another message would arrive than was sent.
fn short(what: &str, text: &str) -> Result<ShortString, Failure> {
    ShortString::try_new(text).map_err(|_| {
        let text = format!("{what} has {} bytes, AMQP takes 255", text.len());
        Failure::new(ErrorKind::NotEncodable, text)
    })
}

fn headers(headers: &[(String, String)]) -> Result<FieldTable, Failure> {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        if COPIES.contains(&name.as_str()) {
            let text =
                format!("the header {name} means further routing keys to RabbitMQ: give it another name");
            return Err(Failure::new(ErrorKind::NotEncodable, text));
        }
        let value = AMQPValue::LongString(LongString::from(value.as_bytes()));
        table.insert(short("the name of a header", name)?, value);
    }
    Ok(table)
}

/// Whole seconds since 1970; AMQP knows no times before that.
fn seconds(created_at: &str) -> Option<u64> {
    let time: jiff::Timestamp = created_at.parse().ok()?;
    u64::try_from(time.as_second()).ok()
}

/// The most that the properties take in a frame.
fn properties_size(message: &Message) -> usize {
    let fixed = 14 + 8 + 1 + 4;
    let texts = message.event_id.as_str().len() + message.content_type.len() + 255 + 3;
    let headers: usize = message
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len() + 6)
        .sum();
    fixed + texts + headers + FRAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use postrider_core::Address;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        message: 1 << 20,
        frame: 131_072,
    };

    fn message() -> Message {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Message {
            event_id: "e-1".into(),
            order_key: "k".into(),
            message_key: "42".to_owned(),
            address: Address(vec![pair("exchange", "x"), pair("routing_key", "a.b")]),
            content_type: "application/json".to_owned(),
            headers: vec![
                pair(header::EVENT_TYPE, "OrderPlaced"),
                pair(header::CREATED_AT, "2026-01-31T12:00:00.123456Z"),
                pair("trace", "é"),
            ],
            body: "{}".into(),
        }
    }

    fn kind(message: &Message) -> ErrorKind {
        prepare(message, BOUNDS).expect_err("it cannot be sent").kind
    }

    /// Found before it is sent: it would close the channel under its neighbours.
    #[test]
    fn a_header_that_would_copy_the_message_is_refused() {
        for name in ["CC", "BCC"] {
            let mut copied = message();
            copied.headers.push((name.to_owned(), "elsewhere".to_owned()));
            let failure = prepare(&copied, BOUNDS).expect_err("it is refused");
            assert_eq!(failure.kind, ErrorKind::NotEncodable, "{failure:?}");
        }
        let mut other = message();
        other.headers.push(("cc".to_owned(), "elsewhere".to_owned()));
        assert!(
            prepare(&other, BOUNDS).is_ok(),
            "names are told apart by their case"
        );
    }

    #[test]
    fn properties_are_exactly_these() {
        let prepared = prepare(&message(), BOUNDS).unwrap();
        let properties = &prepared.properties;
        assert_eq!(prepared.exchange.as_str(), "x");
        assert_eq!(prepared.routing_key.as_str(), "a.b");
        assert_eq!(*properties.delivery_mode(), Some(2));
        assert_eq!(properties.message_id().as_ref().unwrap().as_str(), "e-1");
        assert_eq!(properties.kind().as_ref().unwrap().as_str(), "OrderPlaced");
        assert_eq!(*properties.timestamp(), Some(1_769_860_800));
        let headers = properties.headers().as_ref().unwrap();
        assert_eq!(headers.inner().len(), 3);
        assert_eq!(
            headers.inner()["trace"],
            AMQPValue::LongString(LongString::from("é".as_bytes()))
        );
    }

    #[test]
    fn what_has_no_room_in_the_protocol_is_found_before_it_is_sent() {
        let long = "é".repeat(128);
        let with = |change: fn(&mut Message, &str)| {
            let mut message = message();
            change(&mut message, &long);
            kind(&message)
        };
        assert_eq!(
            with(|message, long| message.event_id = long.into()),
            ErrorKind::NotEncodable
        );
        assert_eq!(
            with(|message, long| message.address.0[1].1 = long.to_owned()),
            ErrorKind::NotEncodable
        );
        assert_eq!(
            with(|message, long| message.headers[2].0 = long.to_owned()),
            ErrorKind::NotEncodable
        );
        assert_eq!(
            with(|message, long| message.headers[2].1 = long.repeat(600)),
            ErrorKind::NotEncodable
        );
        assert_eq!(
            with(|message, _| drop(message.address.0.pop())),
            ErrorKind::NotEncodable
        );
        assert_eq!(
            with(|message, _| message.body = vec![0; 1 << 20].into()),
            ErrorKind::TooLarge
        );
    }

    #[test]
    fn a_type_that_is_too_long_is_left_to_its_header() {
        let mut message = message();
        message.headers[0].1 = "x".repeat(300);
        let prepared = prepare(&message, BOUNDS).unwrap();
        assert_eq!(*prepared.properties.kind(), None);
    }
}
