//! Templates become words.
//!
//! Templates come from whoever configures a service, and values from anybody. So a template reads no file and includes
//! no other, what it names must be there, it has fuel for so many instructions, and the part `html` escapes values.

use std::collections::BTreeMap;
use std::fmt;

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};

use crate::check::{PARTS, wrong};
use crate::{Channel, Workflow, WorkflowError, text};

/// What a template may do: far more than a letter of many pages needs, and done within milliseconds.
const FUEL: u64 = 100_000;

/// The words of one channel, safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) html: Option<String>,
}

impl Words {
    pub(crate) fn bytes(&self) -> usize {
        self.title.len() + self.body.len() + self.html.as_deref().map_or(0, str::len)
    }
}

/// Why a template gave no words. It names the place and the fields, never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderError {
    workflow: String,
    place: String,
    text: String,
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            workflow,
            place,
            text,
        } = self;
        write!(f, "workflow {workflow:?}, {place}: {text}")
    }
}

/// Every template of every workflow, parsed.
#[derive(Debug)]
pub(crate) struct Templates {
    environment: Environment<'static>,
    /// By workflow, channel and locale in small letters: whether the words depend on who reads them.
    personal: BTreeMap<(String, Channel, String), bool>,
}

impl Templates {
    pub(crate) fn parse(workflows: &[Workflow]) -> Result<Self, WorkflowError> {
        let mut parsed = Self {
            environment: environment(),
            personal: BTreeMap::new(),
        };
        workflows.iter().try_for_each(|workflow| parsed.add(workflow))?;
        Ok(parsed)
    }

    /// The locale of a workflow's words that is nearest to the one wished: `de-AT`, else `de`, else the default.
    pub(crate) fn locale(&self, workflow: &Workflow, channel: Channel, wished: Option<&str>) -> String {
        let mut wished = normal(wished.unwrap_or(&workflow.locale));
        loop {
            let key = (workflow.name.clone(), channel, wished);
            if self.personal.contains_key(&key) {
                return key.2;
            }
            match key.2.rsplit_once('-') {
                Some((general, _)) => wished = general.to_owned(),
                None => return normal(&workflow.locale),
            }
        }
    }

    /// Whether the words of a channel and locale depend on who reads them.
    pub(crate) fn is_personal(&self, workflow: &Workflow, channel: Channel, locale: &str) -> bool {
        let key = (workflow.name.clone(), channel, locale.to_owned());
        self.personal.get(&key).copied().unwrap_or(true)
    }

    /// The words of a channel in a locale that [`Templates::locale`] gave.
    pub(crate) fn words(
        &self,
        workflow: &Workflow,
        (channel, locale): (Channel, &str),
        context: &Value,
    ) -> Result<Words, RenderError> {
        let render = |part| self.render(workflow, &Place::Words(channel, locale, part), context);
        let template = |part| name(workflow, &Place::Words(channel, locale, part));
        let html = match self.environment.get_template(&template("html")) {
            Ok(_) => Some(text::all_lines(&render("html")?)),
            Err(_) => None,
        };
        if html
            .as_ref()
            .is_some_and(|html| html.chars().nth(text::HTML).is_some())
        {
            let place = Place::Words(channel, locale, "html");
            return Err(failed(
                workflow,
                &place,
                format!("it is longer than {} characters", text::HTML),
            ));
        }
        Ok(Words {
            title: text::one_line(&render("title")?, text::TITLE),
            body: text::lines(&render("body")?, text::BODY),
            html,
        })
    }

    /// What an event is about, by the workflow's template; empty where it says nothing.
    pub(crate) fn resource(&self, workflow: &Workflow, context: &Value) -> Result<String, RenderError> {
        let rendered = self.render(workflow, &Place::Resource, context)?;
        Ok(text::one_line(&rendered, usize::MAX))
    }

    fn add(&mut self, workflow: &Workflow) -> Result<(), WorkflowError> {
        for ((channel, locale), parts) in &workflow.templates {
            let locale = normal(locale);
            let mut personal = false;
            for part in PARTS {
                let Some(source) = parts.get(part) else { continue };
                let template = self.add_one(workflow, &Place::Words(*channel, &locale, part), source)?;
                personal |= template;
            }
            let key = (workflow.name.clone(), *channel, locale);
            if self.personal.insert(key, personal).is_some() {
                let text = format!("the templates for {} have one locale twice", channel.as_str());
                return Err(wrong(workflow, text));
            }
        }
        if let Some(source) = &workflow.resource {
            let personal = self.add_one(workflow, &Place::Resource, source)?;
            if personal {
                let text =
                    "its resource names the recipient: it is about the event, and unique for a user anyway";
                return Err(wrong(workflow, text));
            }
        }
        Ok(())
    }

    /// Parses one; answers whether it names the recipient.
    fn add_one(
        &mut self,
        workflow: &Workflow,
        place: &Place<'_>,
        source: &str,
    ) -> Result<bool, WorkflowError> {
        let name = name(workflow, place);
        let added = self
            .environment
            .add_template_owned(name.clone(), source.to_owned());
        let explained = |error: minijinja::Error| {
            let line = error.line().unwrap_or(1);
            wrong(
                workflow,
                format!("{place} is no template, by its line {line}: {error}"),
            )
        };
        added.map_err(explained)?;
        let template = self.environment.get_template(&name).map_err(explained)?;
        Ok(template.undeclared_variables(false).contains("recipient"))
    }

    fn render(&self, workflow: &Workflow, place: &Place<'_>, context: &Value) -> Result<String, RenderError> {
        let template = self.environment.get_template(&name(workflow, place));
        let template =
            template.map_err(|_| failed(workflow, place, "there is no such template".to_owned()))?;
        template.render(context).map_err(|error| {
            let line = error.line().unwrap_or(1);
            let text = match error.kind() {
                ErrorKind::UndefinedError => {
                    let mut named: Vec<String> = template.undeclared_variables(true).into_iter().collect();
                    named.retain(|path| is_missing(context, path));
                    named.sort();
                    match named.is_empty() {
                        true => format!("something that line {line} names is not there"),
                        false => format!("the event has no {}", named.join(", ")),
                    }
                }
                ErrorKind::OutOfFuel => "it does too much: it may not loop over this many things".to_owned(),
                // The kind alone: the details may quote a value.
                kind => format!("line {line}: {kind}"),
            };
            failed(workflow, place, text)
        })
    }
}

/// Where a template stands.
enum Place<'a> {
    Words(Channel, &'a str, &'a str),
    Resource,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Words(channel, locale, part) => {
                write!(f, "channel {}, locale {locale:?}, part {part}", channel.as_str())
            }
            Place::Resource => f.write_str("its resource"),
        }
    }
}

/// Names are data of the configuration; the part comes last, and decides whether values are escaped.
fn name(workflow: &Workflow, place: &Place<'_>) -> String {
    match place {
        Place::Words(channel, locale, part) => {
            format!(
                "{}\u{1f}{}\u{1f}{locale}\u{1f}{part}",
                workflow.name,
                channel.as_str()
            )
        }
        Place::Resource => format!("{}\u{1f}resource", workflow.name),
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|name| match name.ends_with("\u{1f}html") {
        true => AutoEscape::Html,
        false => AutoEscape::None,
    });
    environment
}

/// `de_AT` and `de-at` are one locale.
fn normal(locale: &str) -> String {
    locale.replace('_', "-").to_lowercase()
}

fn is_missing(context: &Value, path: &str) -> bool {
    let found = path
        .split('.')
        .try_fold(context.clone(), |value, field| value.get_attr(field));
    found.map_or(true, |value| value.is_undefined())
}

fn failed(workflow: &Workflow, place: &Place<'_>, text: String) -> RenderError {
    RenderError {
        workflow: workflow.name.clone(),
        place: place.to_string(),
        text,
    }
}

#[cfg(test)]
mod tests;
