//! `[[notify.workflow]]`: what becomes of some types of events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use postrider_notify::{Audience, Channel, Digest, Wording, Workflow, Workflows};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::Text;
use crate::config::duration::{Span, show};
use crate::config::error::Problem;
use crate::config::nearest::suggestion;
use crate::config::scalar::word;

/// The language of those who name none.
const DEFAULT_LOCALE: &str = "en";

/// The words of a channel: by language, the templates of their parts.
type Words = BTreeMap<Text, BTreeMap<String, String>>;

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowTable {
    name: Text,
    #[serde(default)]
    audiences: Vec<Text>,
    #[serde(default)]
    events: Vec<String>,
    category: Text,
    channels: Vec<Spanned<ChannelWord>>,
    resource: Option<String>,
    period: Option<Span>,
    digest: Option<Span>,
    locale: Option<String>,
    #[serde(default)]
    templates: BTreeMap<Text, Words>,
}

#[derive(Clone, Copy)]
struct ChannelWord(Channel);

impl<'de> Deserialize<'de> for ChannelWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &Channel::ALL.map(|channel| (channel.as_str(), channel)),
        )
        .map(Self)
    }
}

/// All workflows, each checked with those before it, so that an error has the line of the one that is wrong.
pub fn resolve(
    tables: Vec<Spanned<WorkflowTable>>,
    audiences: Vec<Audience>,
    (ways, keep): (&[(Channel, bool)], Option<Duration>),
    at: Range<usize>,
) -> Result<Workflows, Problem> {
    if tables.is_empty() {
        let help = "add one, for example:\n    [[notify.workflow]]\n    name = \"orders\"\n    events = \
                    [\"OrderPlaced\"]\n    category = \"orders\"\n    channels = [\"in_app\"]\n    \
                    [notify.workflow.templates.in_app.en]\n    title = \"Order {{ payload.orderId }}\"\n    body = \
                    \"Thank you, {{ recipient.name }}.\"";
        let text = "no workflow is configured, so no event would become a notification";
        return Err(Problem::new(text).at(at).help(help.to_owned()));
    }
    let mut workflows = Vec::new();
    let mut checked = None;
    for table in tables {
        let span = table.get_ref().name.span();
        remembered(table.get_ref(), keep)?;
        workflows.push(workflow(table.into_inner(), &audiences, ways)?);
        let all = Workflows::new(audiences.clone(), workflows.clone());
        checked = Some(all.map_err(|error| Problem::new(error.to_string()).at(span))?);
    }
    checked.ok_or_else(|| Problem::new("no workflow is configured"))
}

/// What was told is known for as long as its notification is kept, and no longer.
fn remembered(table: &WorkflowTable, keep: Option<Duration>) -> Result<(), Problem> {
    let (Some(period), Some(keep)) = (&table.period, keep) else {
        return Ok(());
    };
    if period.0 <= keep {
        return Ok(());
    }
    let (period, keep) = (show(period.0), show(keep));
    let text = format!(
        "its period is {period}, and notifications are kept for {keep}: what was told before that would be told again"
    );
    let help = format!("set `keep` in [notify] to at least \"{period}\", or give it a shorter period");
    Err(Problem::new(text).at(table.name.span()).help(help))
}

fn workflow(
    table: WorkflowTable,
    audiences: &[Audience],
    ways: &[(Channel, bool)],
) -> Result<Workflow, Problem> {
    let known: Vec<&str> = audiences.iter().map(|audience| audience.name.as_str()).collect();
    if let Some(stranger) = table
        .audiences
        .iter()
        .find(|name| !known.contains(&name.get_ref().as_str()))
    {
        let text = format!("there is no audience named {:?}", stranger.get_ref());
        let help = suggestion(stranger.get_ref(), &known);
        return Err(Problem::new(text).at(stranger.span()).help(help));
    }
    let no_way = |channel: &&Spanned<ChannelWord>| ways.contains(&(channel.get_ref().0, false));
    if let Some(channel) = table.channels.iter().find(no_way) {
        let word = channel.get_ref().0.as_str();
        let text = format!("there is no [notify.{word}], so nothing can be sent by {word}");
        return Err(Problem::new(text).at(channel.span()));
    }
    Ok(Workflow {
        templates: templates(table.templates)?,
        name: table.name.into_inner(),
        audiences: table.audiences.into_iter().map(Spanned::into_inner).collect(),
        event_types: table.events,
        category: table.category.into_inner(),
        channels: table.channels.iter().map(|channel| channel.get_ref().0).collect(),
        resource: table.resource,
        period: table.period.map(|span| span.0),
        digest: table.digest.map(|span| Digest { window: span.0 }),
        locale: table.locale.unwrap_or_else(|| DEFAULT_LOCALE.to_owned()),
    })
}

fn templates(tables: BTreeMap<Text, Words>) -> Result<Wording, Problem> {
    let known = Channel::ALL.map(Channel::as_str);
    let mut templates = BTreeMap::new();
    for (name, words) in tables {
        let Some(channel) = Channel::parse(name.get_ref()) else {
            let text = format!("there is no channel named {:?}", name.get_ref());
            let help = suggestion(name.get_ref(), &known);
            return Err(Problem::new(text).at(name.span()).help(help));
        };
        let words = words.into_iter();
        templates.extend(words.map(|(locale, parts)| ((channel, locale.into_inner()), parts)));
    }
    Ok(templates)
}
