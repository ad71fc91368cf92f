//! `[[route]]`: which destinations an event goes to. The first that matches wins.

use std::collections::BTreeMap;
use std::fmt;

use postrider_core::{Condition, DeadLetter, Envelope, Template};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::relay::RetryTable;
use super::scalar::{Scalar, Whole, scalar, word};

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    #[serde(default)]
    pub when: WhenTable,
    #[serde(deserialize_with = "destinations")]
    pub to: Vec<Spanned<ToTable>>,
}

/// A list of tables; anything else is told what one looks like.
fn destinations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<ToTable>>, D::Error> {
    struct Tables;

    impl<'de> Visitor<'de> for Tables {
        type Value = Vec<Spanned<ToTable>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of tables such as [{ broker = \"events\" }]")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut tables = Vec::new();
            while let Some(table) = list.next_element()? {
                tables.push(table);
            }
            Ok(tables)
        }
    }

    deserializer.deserialize_any(Tables)
}

/// What a route asks of an event.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhenTable {
    pub outbox: Option<Spanned<Words>>,
    aggregate_type: Option<Words>,
    event_type: Option<Words>,
    #[serde(default)]
    header: BTreeMap<String, Words>,
}

impl WhenTable {
    pub fn condition(self) -> Condition {
        let words = |words: Option<Words>| words.map_or_else(Vec::new, |words| words.0);
        Condition {
            outbox: words(self.outbox.map(Spanned::into_inner)),
            aggregate_type: words(self.aggregate_type),
            event_type: words(self.event_type),
            header: self
                .header
                .into_iter()
                .map(|(name, words)| (name, words.0))
                .collect(),
        }
    }
}

/// One word or a list of them.
#[derive(Clone, Debug)]
pub struct Words(pub Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes or a list of it")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Words, E> {
                Ok(Words(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                match words.is_empty() {
                    true => Err(A::Error::custom(
                        "an empty list matches nothing: leave the key out to match all",
                    )),
                    false => Ok(Words(words)),
                }
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

/// A template, checked where it stands.
#[derive(Clone, Debug)]
pub struct Text(pub Template);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "text in quotes", |value| match value {
            Scalar::Text(text) => Template::parse(text).map(Self).map_err(|error| error.to_string()),
            _ => Err("must be text in quotes".to_owned()),
        })
    }
}

/// One destination. Keys that are not ours are parts of the address; which ones there may be is the broker's to say.
pub struct ToTable {
    pub broker: Spanned<String>,
    pub name: Option<Spanned<String>>,
    pub envelope: Envelope,
    pub message_key: Option<Text>,
    pub dead_letter: DeadLetter,
    pub retry: RetryTable,
    pub max_in_flight: Option<u32>,
    pub max_rate: Option<u32>,
    /// In alphabetical order, whatever their order in the file: names are derived from it.
    pub address: BTreeMap<Spanned<String>, Text>,
}

/// The keys of a destination that are not parts of an address.
pub const TO_KEYS: [&str; 8] = [
    "broker",
    "name",
    "envelope",
    "message_key",
    "dead_letter",
    "retry",
    "max_in_flight",
    "max_rate",
];

type Positive = Whole<1, { u32::MAX as u64 }>;

fn positive(number: Positive) -> Option<u32> {
    u32::try_from(number.0).ok()
}

struct EnvelopeName(Envelope);

impl<'de> Deserialize<'de> for EnvelopeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("flat", Envelope::Flat), ("raw", Envelope::Raw)]).map(Self)
    }
}

struct DeadLetterName(DeadLetter);

impl<'de> Deserialize<'de> for DeadLetterName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &[("hold", DeadLetter::Hold), ("skip", DeadLetter::Skip)],
        )
        .map(Self)
    }
}

impl<'de> Deserialize<'de> for ToTable {
    // By hand instead of `flatten`, which loses the places of everything inside.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ToVisitor)
    }
}

struct ToVisitor;

impl<'de> Visitor<'de> for ToVisitor {
    type Value = ToTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with `broker` and the parts of an address")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToTable, A::Error> {
        let mut broker = None;
        let mut to = ToTable {
            broker: Spanned::new(0..0, String::new()),
            name: None,
            envelope: Envelope::default(),
            message_key: None,
            dead_letter: DeadLetter::default(),
            retry: RetryTable::default(),
            max_in_flight: None,
            max_rate: None,
            address: BTreeMap::new(),
        };
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            match key.get_ref().as_str() {
                "broker" => broker = Some(map.next_value()?),
                "name" => to.name = Some(map.next_value()?),
                "envelope" => to.envelope = map.next_value::<EnvelopeName>()?.0,
                "message_key" => to.message_key = Some(map.next_value()?),
                "dead_letter" => to.dead_letter = map.next_value::<DeadLetterName>()?.0,
                "retry" => to.retry = map.next_value()?,
                "max_in_flight" => to.max_in_flight = positive(map.next_value()?),
                "max_rate" => to.max_rate = positive(map.next_value()?),
                _ => {
                    let value = map.next_value()?;
                    to.address.insert(key, value);
                }
            }
        }
        to.broker = broker.ok_or_else(|| A::Error::missing_field("broker"))?;
        Ok(to)
    }
}
