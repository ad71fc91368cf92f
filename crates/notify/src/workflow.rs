//! What is to become of an event: who is an audience, which channels, which words, what counts as the same.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::check;
use crate::render::Templates;
use crate::{Channel, Occasion};

/// People of one kind: the aggregate type of their events, and the view that shows their notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    /// What is in `aggregate_type`, for example `RESTAURANT`. Its topic is the name in small letters.
    pub name: String,
    /// The view with what document 004's table has, for example `restaurant_user_notification`.
    pub view: String,
}

/// Events of one user and category are collected for a while and become one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How long, from the first event on.
    pub window: Duration,
}

/// Templates by channel and locale, and there by part.
pub type Wording = BTreeMap<(Channel, String), BTreeMap<String, String>>;

/// What becomes of some types of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Its name, in tables and errors.
    pub name: String,
    /// Of these audiences; empty: of any.
    pub audiences: Vec<String>,
    /// These types of events; empty: any.
    pub event_types: Vec<String>,
    /// What people mute it by.
    pub category: String,
    /// By which channels, in this order.
    pub channels: Vec<Channel>,
    /// What it is about, as a template over the event (`{{ payload.followerId }}`). Two events of one type about the
    /// same are one notification of a user and category. None: every event is one of its own, and so is one whose
    /// resource comes out empty. `Some("")` is the rule of those who have none of their own: `resourceId` of the
    /// payload, else `followerId`, else `postId`.
    pub resource: Option<String>,
    /// For how long that holds, in windows that begin at multiples of it since 1970; None: for ever.
    pub period: Option<Duration>,
    /// Collected instead of told at once.
    pub digest: Option<Digest>,
    /// The language of people who name none, and the one that is fallen back to.
    pub locale: String,
    /// The words: by channel and locale, the templates of their parts (`title`, `body`; for mail also `html`).
    pub templates: Wording,
}

/// All workflows and audiences; the first workflow that matches counts. Checked when it is made: every template is
/// parsed, and every channel has words in the default locale.
///
/// ```
/// use std::collections::BTreeMap;
/// use postrider_notify::{Audience, Channel, Workflow, Workflows};
///
/// let words = |title: &str, body: &str| {
///     BTreeMap::from([("title".to_owned(), title.to_owned()), ("body".to_owned(), body.to_owned())])
/// };
/// let followed = Workflow {
///     name: "followed".to_owned(),
///     audiences: vec![],
///     event_types: vec!["UserFollowed".to_owned()],
///     category: "social".to_owned(),
///     channels: vec![Channel::InApp],
///     resource: Some("{{ payload.followerId }}".to_owned()),
///     period: None,
///     digest: None,
///     locale: "en".to_owned(),
///     templates: BTreeMap::from([(
///         (Channel::InApp, "en".to_owned()),
///         words("A new follower", "{{ payload.followerName }} follows you, {{ recipient.name }}."),
///     )]),
/// };
/// let customers = Audience { name: "CUSTOMER".to_owned(), view: "customer_notification".to_owned() };
/// let workflows = Workflows::new(vec![customers], vec![followed])?;
/// assert!(workflows.named("followed").is_some());
/// # Ok::<(), postrider_notify::WorkflowError>(())
/// ```
#[derive(Debug)]
pub struct Workflows {
    audiences: Vec<Audience>,
    workflows: Vec<Workflow>,
    templates: Templates,
    ignored: Vec<String>,
}

/// A workflow that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workflow {workflow:?}: {text}")]
pub struct WorkflowError {
    /// Which.
    pub workflow: String,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Workflows {
    /// Checks and parses everything.
    pub fn new(audiences: Vec<Audience>, workflows: Vec<Workflow>) -> Result<Self, WorkflowError> {
        check::audiences(&audiences)?;
        check::names(&workflows)?;
        workflows
            .iter()
            .try_for_each(|workflow| check::workflow(workflow, &audiences))?;
        let templates = Templates::parse(&workflows)?;
        Ok(Self {
            audiences,
            workflows,
            templates,
            ignored: Vec::new(),
        })
    }

    /// Events of these types concern nobody: a listener passes over them, before any workflow is asked. Those that no
    /// workflow is for are dead letters otherwise.
    pub fn ignoring(mut self, event_types: Vec<String>) -> Self {
        self.ignored = event_types;
        self
    }

    /// The types that are passed over.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    pub(crate) fn ignores(&self, event_type: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == event_type)
    }

    /// The first that matches an occasion.
    pub fn of(&self, occasion: &Occasion) -> Option<&Workflow> {
        let fits = |given: &[String], one: &String| given.is_empty() || given.contains(one);
        self.workflows.iter().find(|workflow| {
            fits(&workflow.audiences, &occasion.audience) && fits(&workflow.event_types, &occasion.event_type)
        })
    }

    /// The one of a name.
    pub fn named(&self, name: &str) -> Option<&Workflow> {
        self.workflows.iter().find(|workflow| workflow.name == name)
    }

    /// The names of all.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.workflows.iter().map(|workflow| &*workflow.name).collect()
    }

    /// All of them, in their order.
    pub fn all(&self) -> &[Workflow] {
        &self.workflows
    }

    /// The audiences.
    pub fn audiences(&self) -> &[Audience] {
        &self.audiences
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }
}
