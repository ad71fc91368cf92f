//! Text with places that an event fills in: `notification.{aggregate_type|lower}`.
//!
//! | written | becomes |
//! |---|---|
//! | `{aggregate_type}` `{aggregate_id}` `{event_type}` `{event_id}` | that field of the event |
//! | `{key}` | what order is kept by: the key given, or `type/id` of the aggregate |
//! | `{header.NAME}` | the header called `NAME`, exactly so written |
//! | `{…\|lower}` `{…\|upper}` | the same in lower or upper case |
//! | `{…\|default:TEXT}` | `TEXT` where the value is missing or empty |
//! | `{{` `}}` | a brace |
//!
//! Filters apply from left to right. A place whose value is missing or empty is an error and not an empty text: an
//! event must never go to `notification.` because a producer forgot a field. What the values may contain is for the
//! broker to say, which knows its own wildcards and separators.

use std::borrow::Cow;

use crate::{Event, inert, nearest};

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

/// Why a template cannot be parsed or filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl Template {
    /// Parses a template. The error says at which character it is wrong and what may have been meant.
    ///
    /// ```
    /// use postrider_core::{Event, Template};
    ///
    /// let template = Template::parse("notification.{aggregate_type|lower}.{header.tenant|default:all}")?;
    /// let event = Event::builder("OrderPlaced").aggregate("ORDER", 42).build()?;
    /// assert_eq!(template.render(&event)?, "notification.order.all");
    ///
    /// let error = Template::parse("{agregate_type}").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     r#"character 2: there is no "agregate_type"; did you mean "aggregate_type"?"#
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut chars = source.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let doubled = matches!(c, '{' | '}') && chars.next_if(|(_, next)| *next == c).is_some();
            match c {
                '{' if !doubled => {
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    }
                    let inside = &source[at + 1..];
                    let length = inside
                        .find(['{', '}'])
                        .filter(|&end| inside[end..].starts_with('}'))
                        .ok_or_else(|| wrong(source, at, "this { is not closed; write {{ for a brace"))?;
                    pieces.push(place(source, at + 1, &inside[..length])?);
                    while chars.next_if(|(next, _)| *next <= at + 1 + length).is_some() {}
                }
                '}' if !doubled => {
                    return Err(wrong(source, at, "this } closes nothing; write }} for a brace"));
                }
                _ => text.push(c),
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Template {
            source: source.to_owned(),
            pieces,
        })
    }

    /// Fills it in. The error names what the event lacks.
    pub fn render(&self, event: &Event) -> Result<String, TemplateError> {
        let mut out = String::with_capacity(self.source.len() + 16);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Place { field, filters } => {
                    let value = filters
                        .iter()
                        .fold(field.value(event), |value, filter| filter.apply(value));
                    match value {
                        Some(value) if !value.is_empty() => out.push_str(&value),
                        value => return Err(field.lacking(value.is_none())),
                    }
                }
            }
        }
        Ok(out)
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Place { field: Field, filters: Vec<Filter> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    AggregateType,
    AggregateId,
    EventType,
    EventId,
    Key,
    Header(String),
}

impl Field {
    const NAMES: [&str; 6] = [
        "aggregate_type",
        "aggregate_id",
        "event_type",
        "event_id",
        "key",
        "header.NAME",
    ];

    fn parse(name: &str) -> Option<Field> {
        Some(match name {
            "aggregate_type" => Field::AggregateType,
            "aggregate_id" => Field::AggregateId,
            "event_type" => Field::EventType,
            "event_id" => Field::EventId,
            "key" => Field::Key,
            _ => Field::Header(
                name.strip_prefix("header.")
                    .filter(|name| !name.is_empty())?
                    .to_owned(),
            ),
        })
    }

    fn value<'a>(&self, event: &'a Event) -> Option<Cow<'a, str>> {
        Some(match self {
            Field::AggregateType => Cow::Borrowed(&*event.aggregate_type),
            Field::AggregateId => Cow::Borrowed(&*event.aggregate_id),
            Field::EventType => Cow::Borrowed(&*event.event_type),
            Field::EventId => Cow::Borrowed(event.id.as_str()),
            Field::Key => event.key_text(),
            Field::Header(name) => Cow::Borrowed(&**event.headers.get(name)?),
        })
    }

    fn lacking(&self, missing: bool) -> TemplateError {
        let state = if missing { "is missing" } else { "is empty" };
        let what = match self {
            Field::AggregateType => "aggregate_type",
            Field::AggregateId => "aggregate_id",
            Field::EventType => "event_type",
            Field::EventId => "event_id",
            Field::Key => "key",
            Field::Header(name) => {
                return TemplateError(format!(
                    "the event's header {name:?} {state}; {{header.{name}|default:TEXT}} would fill in a TEXT"
                ));
            }
        };
        TemplateError(format!(
            "the event's {what} {state}; {{{what}|default:TEXT}} would fill in a TEXT"
        ))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Lower,
    Upper,
    Default(String),
}

impl Filter {
    const NAMES: [&str; 3] = ["lower", "upper", "default:TEXT"];

    fn parse(text: &str) -> Option<Filter> {
        match text {
            "lower" => Some(Filter::Lower),
            "upper" => Some(Filter::Upper),
            _ => {
                let default = text.strip_prefix("default:").filter(|text| !text.is_empty())?;
                Some(Filter::Default(default.to_owned()))
            }
        }
    }

    fn apply<'a>(&'a self, value: Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
        match self {
            Filter::Lower => value.map(|value| value.to_lowercase().into()),
            Filter::Upper => value.map(|value| value.to_uppercase().into()),
            Filter::Default(text) => match value {
                Some(value) if !value.is_empty() => Some(value),
                _ => Some(Cow::Borrowed(text)),
            },
        }
    }
}

/// Parses what stands between two braces, `inside`, which begins at byte `at` of the source.
fn place(source: &str, at: usize, inside: &str) -> Result<Piece, TemplateError> {
    let mut parts = inside.split('|');
    let name = parts.next().unwrap_or_default();
    let field = Field::parse(name).ok_or_else(|| unknown(source, at, name, &Field::NAMES))?;
    let mut at = at + name.len();
    let mut filters = Vec::new();
    for part in parts {
        filters.push(Filter::parse(part).ok_or_else(|| unknown(source, at + 1, part, &Filter::NAMES))?);
        at += 1 + part.len();
    }
    Ok(Piece::Place { field, filters })
}

fn unknown(source: &str, at: usize, name: &str, known: &[&'static str]) -> TemplateError {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there are {}", known.join(", ")),
    };
    let name = inert(name, 80);
    wrong(source, at, &format!("there is no \"{name}\"; {hint}"))
}

fn wrong(source: &str, at: usize, what: &str) -> TemplateError {
    let character = source[..at].chars().count() + 1;
    TemplateError(format!("character {character}: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event() -> Event {
        Event::builder("OrderPlaced")
            .id("e-1")
            .aggregate("ORDER", "42")
            .header("tenant", "Acme")
            .header("none", "")
            .build()
            .unwrap()
    }

    fn render(source: &str) -> Result<String, String> {
        let template = Template::parse(source).map_err(|error| error.to_string())?;
        assert_eq!(template.source(), source);
        template.render(&event()).map_err(|error| error.to_string())
    }

    #[test]
    fn places_are_filled_in() {
        for (source, text) in [
            ("", ""),
            ("plain é", "plain é"),
            ("notification.{aggregate_type|lower}", "notification.order"),
            ("{event_type}/{event_id}/{aggregate_id}", "OrderPlaced/e-1/42"),
            ("{key}", "ORDER/42"),
            ("é{header.tenant|upper|lower}é", "éacmeé"),
            ("{header.region|default:EU|lower}", "eu"),
            ("{header.none|default:a:b}", "a:b"),
            ("{{{event_type}}}", "{OrderPlaced}"),
            ("{{event_type}}", "{event_type}"),
        ] {
            assert_eq!(render(source).as_deref(), Ok(text), "{source}");
        }
        let mut keyed = event();
        keyed.key = Some("k".to_owned());
        assert_eq!(Template::parse("{key}").unwrap().render(&keyed).unwrap(), "k");
    }

    #[test]
    fn mistakes_are_located_and_named() {
        for (source, error) in [
            ("a{", "character 2: this { is not closed; write {{ for a brace"),
            (
                "é{a{b}",
                "character 2: this { is not closed; write {{ for a brace",
            ),
            ("a}b", "character 2: this } closes nothing; write }} for a brace"),
            (
                "é{event_typ}",
                "character 3: there is no \"event_typ\"; did you mean \"event_type\"?",
            ),
            (
                "{key|lowr}",
                "character 6: there is no \"lowr\"; did you mean \"lower\"?",
            ),
            (
                "{key|lower|default:}",
                "character 12: there is no \"default:\"; did you mean \"default:TEXT\"?",
            ),
            (
                "{tenant}",
                "character 2: there is no \"tenant\"; there are aggregate_type, aggregate_id, event_type, event_id, \
                 key, header.NAME",
            ),
            (
                "{header.}",
                "character 2: there is no \"header.\"; there are aggregate_type, aggregate_id, event_type, event_id, \
                 key, header.NAME",
            ),
            (
                "{header.region}",
                "the event's header \"region\" is missing; {header.region|default:TEXT} would fill in a TEXT",
            ),
            (
                "{header.none|upper}",
                "the event's header \"none\" is empty; {header.none|default:TEXT} would fill in a TEXT",
            ),
        ] {
            assert_eq!(render(source), Err(error.to_owned()), "{source}");
        }
    }

    /// Braces at random, or almost a template.
    const SOURCES: &str =
        "[{}|:.a-zé_]{0,24}|(\\{(key|header\\.[a-z]{0,3})(\\|(lower|default:.?))?\\}?){0,3}";

    proptest! {
        #[test]
        fn no_source_makes_it_panic(source in SOURCES) {
            if let Ok(template) = Template::parse(&source) {
                let _ = template.render(&event());
            }
        }

        #[test]
        fn text_without_braces_is_itself(source in "[^{}]{0,40}") {
            prop_assert_eq!(render(&source), Ok(source));
        }
    }
}
