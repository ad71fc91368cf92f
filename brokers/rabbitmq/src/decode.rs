//! A message of AMQP as a message of ours.

use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};
use postrider_core::{Address, Message, OrderKey, header};

/// How often a quorum queue has delivered a message before.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// The message as it was published, as far as AMQP carries it.
///
/// A message of another publisher may lack anything. One without an id gets an empty one, for the consumer to reject:
/// an id that we made up would differ at every delivery.
pub(crate) fn message(delivery: &mut Delivery) -> Message {
    let properties = &delivery.properties;
    let mut headers = properties.headers().as_ref().map(pairs).unwrap_or_default();
    let text = |property: &Option<lapin::types::ShortString>| property.as_ref().map(ToString::to_string);
    let find = |name: &str| {
        headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let id = text(properties.message_id())
        .or_else(|| find(header::EVENT_ID))
        .unwrap_or_default();
    let key = find(header::EVENT_KEY).unwrap_or_else(|| id.clone());
    let message_key = find(header::AGGREGATE_ID).unwrap_or_else(|| key.clone());
    let kind = text(properties.kind()).filter(|_| find(header::EVENT_TYPE).is_none());
    headers.extend(kind.map(|kind| (header::EVENT_TYPE.to_owned(), kind)));
    Message {
        event_id: id.into(),
        order_key: OrderKey::new(key),
        message_key,
        address: Address(vec![
            ("exchange".to_owned(), delivery.exchange.to_string()),
            ("routing_key".to_owned(), delivery.routing_key.to_string()),
        ]),
        content_type: text(properties.content_type())
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        headers,
        body: std::mem::take(&mut delivery.data).into(),
    }
}

/// How often it was delivered before: exactly with a quorum queue, at least once with any other.
pub(crate) fn redelivered(delivery: &Delivery) -> u32 {
    let counted = delivery.properties.headers().as_ref().and_then(|headers| {
        match headers.inner().get(DELIVERY_COUNT)? {
            AMQPValue::LongLongInt(count) => u32::try_from(*count).ok(),
            AMQPValue::LongInt(count) => u32::try_from(*count).ok(),
            AMQPValue::ShortShortUInt(count) => Some(u32::from(*count)),
            AMQPValue::ShortUInt(count) => Some(u32::from(*count)),
            AMQPValue::LongUInt(count) => Some(*count),
            _ => None,
        }
    });
    counted.unwrap_or(0).max(u32::from(delivery.redelivered))
}

/// Headers as text. Tables and lists, which only brokers and other publishers write, are left out.
fn pairs(headers: &FieldTable) -> Vec<(String, String)> {
    let text = |value: &AMQPValue| {
        Some(match value {
            AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
            AMQPValue::ShortString(text) => text.to_string(),
            AMQPValue::Boolean(value) => value.to_string(),
            AMQPValue::ShortShortInt(value) => value.to_string(),
            AMQPValue::ShortShortUInt(value) => value.to_string(),
            AMQPValue::ShortInt(value) => value.to_string(),
            AMQPValue::ShortUInt(value) => value.to_string(),
            AMQPValue::LongInt(value) => value.to_string(),
            AMQPValue::LongUInt(value) => value.to_string(),
            AMQPValue::LongLongInt(value) => value.to_string(),
            AMQPValue::Timestamp(value) => value.to_string(),
            AMQPValue::Float(value) => value.to_string(),
            AMQPValue::Double(value) => value.to_string(),
            _ => return None,
        })
    };
    headers
        .inner()
        .iter()
        .filter(|(name, _)| name.as_str() != DELIVERY_COUNT)
        .filter_map(|(name, value)| Some((name.to_string(), text(value)?)))
        .collect()
}
