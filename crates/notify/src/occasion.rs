//! What happened, as a listener reads it from a message: the business event, and whom it is for.

use postrider_core::{HandlerError, Received, Timestamp, header, inert, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::moment;

/// Whom an event is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// One person, by id.
    User(String),
    /// Whoever subscribed to a topic. The members of an audience are the subscribers of the topic of its name.
    Topic(String),
}

impl To {
    /// Everybody of an audience: its topic is its name in small letters.
    pub fn audience(name: &str) -> To {
        To::Topic(name.to_lowercase())
    }
}

/// A business event that may concern somebody. It is kept with a fan-out that is not finished, so it can be read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occasion {
    /// The id of the event: what notifications are unique by.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// The audience, by the name that is in `aggregate_type`.
    pub audience: String,
    /// The thing it happened to.
    pub aggregate_id: String,
    /// Whom it is for.
    pub to: To,
    /// When it happened, as far as the message tells, else when it was received.
    #[serde(with = "moment")]
    pub at: Timestamp,
    /// What the producer said of it: an object.
    pub payload: Map<String, Value>,
}

impl Occasion {
    /// Reads an event. Whom it is for is said by `recipientType` in the payload: `BROADCAST` means the whole audience,
    /// any other value (`USER`, `SINGLE_USER`, …) one person, whose id is `recipientId`, else `userId`, else the
    /// aggregate's. Without `recipientType` it is one person where the payload names one, and else everybody who
    /// subscribed to this aggregate (`restaurant/42`).
    ///
    /// A name that is there and cannot be read is never passed over: somebody else would be told what is not theirs.
    ///
    /// What can never be read is rejected, with a reason for the person who sees the dead letter.
    pub fn read(event: &Received) -> Result<Self, HandlerError> {
        let payload: Map<String, Value> = event.json()?;
        let (audience, aggregate_id) = (event.aggregate_type(), event.aggregate_id());
        let to = addressed(audience, aggregate_id, &payload).map_err(HandlerError::reject)?;
        let at = event.header(header::CREATED_AT).and_then(moment::parse);
        let occasion = Self {
            event_id: event.event_id().to_owned(),
            event_type: event.event_type().to_owned(),
            audience: audience.to_owned(),
            aggregate_id: aggregate_id.to_owned(),
            to,
            at: at.unwrap_or_else(Timestamp::now),
            payload,
        };
        match occasion.unfit() {
            Some(reason) => Err(HandlerError::reject(reason)),
            None => Ok(occasion),
        }
    }

    /// What two occasions with one id are told apart by: a hash of what happened, whom it is for, and the payload. It
    /// is kept in the metadata of every notification, so that a key which is used for something else can be refused.
    pub fn fingerprint(&self) -> String {
        let said = serde_json::json!([self.event_type, self.audience, self.to, self.payload]);
        let hash = Sha256::digest(said.to_string());
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Why nothing can be stored for it, if so: ids and types are parts of unique indexes, and are looked at before a
    /// database sees them.
    pub fn unfit(&self) -> Option<String> {
        let to = match &self.to {
            To::User(id) => ("the id of the recipient", id),
            To::Topic(topic) => ("the topic", topic),
        };
        let names = [
            ("the event id", &self.event_id),
            ("the event type", &self.event_type),
            ("the aggregate type, which names the audience,", &self.audience),
            to,
        ];
        let unfit = names
            .into_iter()
            .find_map(|(what, text)| Some(format!("{what} {}", unfit_name(text)?)));
        let ours =
            "the event id is one of those that notifications give to events of their own: give it another";
        unfit.or_else(|| is_ours(&self.event_id).then(|| ours.to_owned()))
    }
}

/// Whether an id is one that a delivery or a digest may have, or get: `notification-7-email`, `notification-digest-7`.
fn is_ours(id: &str) -> bool {
    let of = id
        .strip_prefix("notification-")
        .and_then(|rest| rest.split_once('-'));
    of.is_some_and(|(of, _)| of == "digest" || of.parse::<u64>().is_ok())
}

/// Why a text cannot be an id, a type or the name of a topic, if so.
pub(crate) fn unfit_name(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Some("has a control character".to_owned());
    }
    let is_long = text.len() > limits::ID && text.chars().count() > limits::ID;
    is_long.then(|| format!("has more than {} characters", limits::ID))
}

fn addressed(audience: &str, aggregate_id: &str, payload: &Map<String, Value>) -> Result<To, String> {
    let mut named = None;
    for field in ["recipientId", "userId"] {
        let one = id(field, payload.get(field))?;
        named = named.or(one);
    }
    match payload.get("recipientType") {
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("BROADCAST") => Ok(To::audience(audience)),
        Some(Value::String(kind)) => {
            let one = named.or_else(|| (!aggregate_id.is_empty()).then(|| aggregate_id.to_owned()));
            one.map(To::User).ok_or_else(|| {
                format!(
                    "recipientType is {:?} and nobody is named: give recipientId",
                    inert(kind, 50)
                )
            })
        }
        Some(Value::Null) | None => match named {
            Some(one) => Ok(To::User(one)),
            None if aggregate_id.is_empty() => Err(
                "the event names neither a recipientType, nor a recipientId, nor an aggregate id".to_owned(),
            ),
            None => Ok(To::Topic(format!("{}/{aggregate_id}", audience.to_lowercase()))),
        },
        Some(_) => Err("recipientType is not text: give BROADCAST or USER".to_owned()),
    }
}

/// An id as producers write it: text, or a whole number; None where the field is missing or null.
fn id(field: &str, value: Option<&Value>) -> Result<Option<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
        Some(_) => Err(format!(
            "{field} is neither text nor a whole number, or empty: give the id of one person, or leave it out"
        )),
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::{Address, Envelope, Event, Incoming, encode};

    use super::*;

    fn read(payload: &str) -> Result<Occasion, HandlerError> {
        let mut event = Event::builder("MenuChanged")
            .id("e-1")
            .aggregate("RESTAURANT", 42)
            .json(payload);
        if payload.is_empty() {
            event = event.text("", "text/plain");
        }
        let mut event = event.build().unwrap();
        event.created_at = Some(Timestamp(1_000_000));
        let message = encode(
            Envelope::Flat,
            &event,
            &event.order_key(),
            Address::default(),
            String::new(),
        );
        let incoming = Incoming {
            message: message.unwrap(),
            tag: 1,
            redelivered: 0,
        };
        Occasion::read(&Received::open(Envelope::Flat, &incoming).unwrap())
    }

    #[test]
    fn whom_it_is_for() {
        for (payload, to) in [
            (r#"{"recipientType":"BROADCAST"}"#, To::Topic("restaurant".into())),
            (
                r#"{"recipientType":"broadcast","userId":"u"}"#,
                To::Topic("restaurant".into()),
            ),
            (
                r#"{"recipientType":"USER","recipientId":"r","userId":"u"}"#,
                To::User("r".into()),
            ),
            (
                r#"{"recipientType":"SINGLE_USER","userId":7}"#,
                To::User("7".into()),
            ),
            (r#"{"recipientType":"USER"}"#, To::User("42".into())),
            (r#"{"userId":"u"}"#, To::User("u".into())),
            (r#"{"recipientType":null}"#, To::Topic("restaurant/42".into())),
        ] {
            assert_eq!(read(payload).unwrap().to, to, "{payload}");
        }
    }

    #[test]
    fn what_the_message_says_is_kept() {
        let occasion = read(r#"{"a":{"b":1}}"#).unwrap();
        assert_eq!(
            (
                &*occasion.event_id,
                &*occasion.event_type,
                &*occasion.audience,
                &*occasion.aggregate_id
            ),
            ("e-1", "MenuChanged", "RESTAURANT", "42")
        );
        assert_eq!(occasion.at, Timestamp(1_000_000));
        let text = serde_json::to_string(&occasion).unwrap();
        assert_eq!(serde_json::from_str::<Occasion>(&text).unwrap(), occasion);
    }

    #[test]
    fn what_can_never_be_read_is_rejected() {
        let long = format!(r#"{{"userId":"{}"}}"#, "u".repeat(256));
        for payload in [
            "[]",
            "null",
            "",
            r#"{"recipientType":1}"#,
            r#"{"userId":"a\u0000b"}"#,
            &long,
        ] {
            let error = read(payload).unwrap_err();
            assert!(!error.may_pass(), "{payload}: {error}");
        }
    }

    /// Passed over, it would be the aggregate's person who is told, or everybody who subscribed to it.
    #[test]
    fn a_recipient_that_cannot_be_read_is_rejected() {
        for id in [
            "7.0",
            "-0",
            "98765432109876543210987",
            "true",
            "\"\"",
            "[\"7\"]",
            "{\"id\":\"7\"}",
        ] {
            for payload in [
                format!(r#"{{"recipientId":{id}}}"#),
                format!(r#"{{"recipientId":{id},"userId":"u","recipientType":"USER"}}"#),
                format!(r#"{{"recipientId":"r","userId":{id}}}"#),
            ] {
                let error = read(&payload).unwrap_err();
                assert!(!error.may_pass(), "{payload}: {error}");
                assert!(
                    error.to_string().contains("the id of one person"),
                    "{payload}: {error}"
                );
            }
        }
        let null = read(r#"{"recipientId":null,"userId":"u"}"#).unwrap();
        assert_eq!(null.to, To::User("u".into()));
    }

    /// Whoever used one of these would be taken for the digest, or stand in the way of the mail.
    #[test]
    fn ids_of_our_own_are_refused() {
        let unfit = |id: &str| {
            let mut occasion = read("{}").unwrap();
            occasion.event_id = id.to_owned();
            occasion.unfit()
        };
        for id in ["notification-digest-7", "notification-12-email"] {
            let reason = unfit(id).expect("refused");
            assert!(reason.contains("give it another"), "{reason}");
        }
        for id in [
            "notification-7",
            "notification-sent-7",
            "digest-7",
            "notification",
        ] {
            assert_eq!(unfit(id), None, "{id}");
        }
    }
}
