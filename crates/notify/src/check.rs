//! What must hold of workflows and audiences, so that a mistake shows when a program starts and not with an event.

use std::collections::BTreeSet;

use crate::occasion::unfit_name;
use crate::{Audience, Channel, Workflow, WorkflowError};

/// The parts that words may have.
pub(crate) const PARTS: [&str; 3] = ["title", "body", "html"];

/// The longest name of a view that every database takes.
const LONGEST_VIEW: usize = 63;

pub(crate) fn audiences(audiences: &[Audience]) -> Result<(), WorkflowError> {
    let (mut names, mut views) = (BTreeSet::new(), BTreeSet::new());
    for audience in audiences {
        let wrong = |text: String| {
            // It is no workflow, but the reader looks for it by its name all the same.
            let workflow = format!("audience {}", audience.name);
            Err(WorkflowError { workflow, text })
        };
        if let Some(reason) = unfit_name(&audience.name) {
            return wrong(format!("its name {reason}"));
        }
        if !is_identifier(&audience.view) {
            let view = &audience.view;
            return wrong(format!(
                "{view:?} cannot be the name of its view: use letters, digits and underscores"
            ));
        }
        // Views of names that differ in case only are one view in SQLite, and topics are in small letters.
        let new = names.insert(audience.name.to_lowercase());
        if !new || !views.insert(audience.view.to_ascii_lowercase()) {
            return wrong("its name or its view is there twice: give it one of its own".to_owned());
        }
    }
    Ok(())
}

pub(crate) fn names(workflows: &[Workflow]) -> Result<(), WorkflowError> {
    let mut seen = BTreeSet::new();
    match workflows.iter().find(|workflow| !seen.insert(&workflow.name)) {
        Some(twice) => Err(wrong(twice, "its name is there twice: give it one of its own")),
        None => Ok(()),
    }
}

pub(crate) fn workflow(workflow: &Workflow, audiences: &[Audience]) -> Result<(), WorkflowError> {
    let names = [
        ("name", &workflow.name),
        ("category", &workflow.category),
        ("locale", &workflow.locale),
    ];
    for (what, text) in names {
        if let Some(reason) = unfit_name(text) {
            return Err(wrong(workflow, format!("its {what} {reason}")));
        }
    }
    let unknown = |name: &&String| audiences.iter().all(|known| known.name != **name);
    if let Some(name) = workflow.audiences.iter().find(unknown) {
        return Err(wrong(
            workflow,
            format!("there is no audience {name:?}: add it, or correct the name"),
        ));
    }
    if workflow.period.is_some_and(|period| period.as_micros() == 0) {
        return Err(wrong(
            workflow,
            "its period is zero: leave it out for one notification ever",
        ));
    }
    if workflow.period.is_some() && workflow.resource.is_none() {
        return Err(wrong(
            workflow,
            "it has a period and no resource that it is for: give it one",
        ));
    }
    if workflow.digest.is_some() && (workflow.resource.is_some() || workflow.period.is_some()) {
        return Err(wrong(
            workflow,
            "it has a digest, which collects every event, and a resource, by which some would be left out: take the \
             resource and its period away, or the digest",
        ));
    }
    if workflow.digest.is_some_and(|digest| digest.window.is_zero()) {
        return Err(wrong(
            workflow,
            "the window of its digest is zero: leave the digest out",
        ));
    }
    channels(workflow)?;
    words(workflow)
}

fn channels(workflow: &Workflow) -> Result<(), WorkflowError> {
    let mut seen = BTreeSet::new();
    if workflow.channels.is_empty() {
        return Err(wrong(
            workflow,
            "it has no channel: give at least one of in_app, email and push",
        ));
    }
    match workflow.channels.iter().find(|channel| !seen.insert(**channel)) {
        Some(twice) => Err(wrong(
            workflow,
            format!("the channel {} is there twice", twice.as_str()),
        )),
        None => Ok(()),
    }
}

fn words(workflow: &Workflow) -> Result<(), WorkflowError> {
    for ((channel, locale), parts) in &workflow.templates {
        let word = channel.as_str();
        if !workflow.channels.contains(channel) {
            let text =
                format!("it has templates for {word}, which is none of its channels: add it, or remove them");
            return Err(wrong(workflow, text));
        }
        if let Some(part) = ["title", "body"]
            .into_iter()
            .find(|part| !parts.contains_key(*part))
        {
            let text = format!("the templates for {word} in {locale:?} have no {part}: add one");
            return Err(wrong(workflow, text));
        }
        let odd = |part: &&String| {
            !PARTS.contains(&part.as_str()) || (*part == "html" && *channel != Channel::Email)
        };
        if let Some(part) = parts.keys().find(odd) {
            let text = format!(
                "the templates for {word} have no part {part:?}: title and body, for email also html"
            );
            return Err(wrong(workflow, text));
        }
    }
    let default = |channel: &&Channel| {
        !workflow
            .templates
            .contains_key(&(**channel, workflow.locale.clone()))
    };
    match workflow.channels.iter().find(default) {
        Some(channel) => {
            let (word, locale) = (channel.as_str(), &workflow.locale);
            let text = format!(
                "there are no templates for {word} in {locale:?}, its default locale: add title and body"
            );
            Err(wrong(workflow, text))
        }
        None => Ok(()),
    }
}

pub(crate) fn wrong(workflow: &Workflow, text: impl Into<String>) -> WorkflowError {
    WorkflowError {
        workflow: workflow.name.clone(),
        text: text.into(),
    }
}

fn is_identifier(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    begins && plain && text.len() <= LONGEST_VIEW && !text.to_ascii_lowercase().starts_with("sqlite_")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::examples::{audience, followed};
    use crate::{Digest, Workflows};

    fn refused(change: impl FnOnce(&mut Workflow)) -> String {
        let mut workflow = followed();
        change(&mut workflow);
        let made = Workflows::new(vec![audience()], vec![workflow]);
        made.expect_err("it is refused").to_string()
    }

    #[test]
    fn a_mistake_is_named() {
        let en = || (Channel::InApp, "en".to_owned());
        for (said, expected) in [
            (refused(|w| w.name.clear()), "name is empty"),
            (refused(|w| w.category = "a\nb".into()), "control character"),
            (
                refused(|w| w.audiences = vec!["NOBODY".into()]),
                "no audience \"NOBODY\"",
            ),
            (refused(|w| w.channels.clear()), "no channel"),
            (refused(|w| w.channels.push(Channel::InApp)), "twice"),
            (
                refused(|w| w.channels.push(Channel::Push)),
                "no templates for push",
            ),
            (
                refused(|w| w.channels.retain(|one| *one == Channel::InApp)),
                "none of its channels",
            ),
            (refused(|w| w.period = Some(Duration::ZERO)), "period is zero"),
            (
                refused(|w| {
                    w.period = Some(Duration::from_secs(1));
                    w.resource = None
                }),
                "no resource",
            ),
            (
                refused(|w| {
                    w.digest = Some(Digest {
                        window: Duration::ZERO,
                    })
                }),
                "window",
            ),
            (
                refused(|w| {
                    w.resource = Some("{{ payload.who }}".into());
                    w.digest = Some(Digest {
                        window: Duration::from_secs(60),
                    })
                }),
                "take the resource and its period away",
            ),
            (
                refused(|w| {
                    w.templates.get_mut(&en()).unwrap().remove("body");
                }),
                "have no body",
            ),
            (
                refused(|w| {
                    w.templates
                        .get_mut(&en())
                        .unwrap()
                        .insert("html".into(), "".into());
                }),
                "no part",
            ),
            (
                refused(|w| {
                    w.templates
                        .get_mut(&en())
                        .unwrap()
                        .insert("body".into(), "{{ a".into());
                }),
                "body",
            ),
            (refused(|w| w.resource = Some("{% for %}".into())), "resource"),
            (
                refused(|w| {
                    w.templates
                        .get_mut(&en())
                        .unwrap()
                        .insert("body".into(), "{% include 'x' %}".into());
                }),
                "body",
            ),
        ] {
            assert!(said.contains(expected), "{said:?} does not say {expected:?}");
        }
    }

    #[test]
    fn names_and_views_are_there_once() {
        assert!(Workflows::new(vec![audience(), audience()], vec![]).is_err());
        assert!(Workflows::new(vec![audience()], vec![followed(), followed()]).is_err());
        for view in ["", "a b", "1a", "a;drop", "sqlite_x", "é"] {
            let odd = Audience {
                view: view.to_owned(),
                ..audience()
            };
            assert!(Workflows::new(vec![odd], vec![]).is_err(), "{view}");
        }
    }
}
