//! What is to be stored for a chunk of members, worked out before a database is asked: who gets a notification, by
//! which channels, in which words. Pure, so that every store stores the same.

pub(crate) mod digest;

use std::collections::HashMap;
use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{Value, context};
use postrider_core::{Event, InvalidEvent, Timestamp};

use crate::board::work::Counts;
use crate::occasion::unfit_name;
use crate::render::{RenderError, Words};
use crate::{BoardError, Channel, Dispatch, Member, Occasion, To, Workflow, Workflows, address, text};

/// The longest resource, in characters: it is part of a unique index.
const LONGEST_RESOURCE: usize = 255;

/// How many bytes of words are stored in one chunk: no other member is planned once there are as many. Whoever has a
/// letter of their own of a hundred kilobytes is one of eighty, and the chunk is kept in memory more than once.
pub(crate) const WORDS: usize = 8 * 1024 * 1024;

/// What all notifications of a chunk have in common: columns of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) audience: String,
    pub(crate) workflow: String,
    pub(crate) category: String,
    /// `EventType:resource`.
    pub(crate) resource_id: Option<String>,
    pub(crate) period: i64,
    /// JSON text.
    pub(crate) metadata: String,
}

/// What is stored for a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) notifications: Vec<Planned>,
    /// How many members wanted none.
    pub(crate) muted: u64,
    /// How many members were looked at: all, unless there are too many words.
    pub(crate) looked_at: usize,
}

impl Plan {
    /// What became of it, where this is what became of its notifications.
    pub(crate) fn counted(&self, notifications: Counts) -> Counts {
        Counts {
            muted: self.muted,
            looked_at: self.looked_at,
            ..notifications
        }
    }
}

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) user_id: String,
    pub(crate) name: String,
    /// What the row says.
    pub(crate) words: Arc<Words>,
    pub(crate) deliveries: Vec<PlannedDelivery>,
}

impl Planned {
    /// How much is kept for it until it is stored. Words that many share are stored for each of them.
    fn bytes(&self) -> usize {
        let sent: usize = self.deliveries.iter().map(|one| one.words.bytes()).sum();
        sent + self.words.title.len() + self.words.body.len()
    }
}

/// One channel of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedDelivery {
    pub(crate) channel: Channel,
    /// Empty where nothing has to be sent, or can be.
    pub(crate) address: String,
    /// Why it cannot be sent.
    pub(crate) problem: Option<&'static str>,
    pub(crate) words: Arc<Words>,
}

impl PlannedDelivery {
    /// The event in the outbox that delivers it; None where nothing has to be sent, or can be.
    pub(crate) fn event(
        &self,
        id: i64,
        (subject, planned): (&Subject, &Planned),
    ) -> Result<Option<Event>, InvalidEvent> {
        if self.problem.is_some() {
            return Ok(None);
        }
        let dispatch = Dispatch {
            notification_id: id,
            user_id: planned.user_id.clone(),
            name: planned.name.clone(),
            channel: self.channel,
            to: self.address.clone(),
            title: self.words.title.clone(),
            body: self.words.body.clone(),
            html: self.words.html.clone(),
            category: subject.category.clone(),
            event_id: subject.event_id.clone(),
            event_type: subject.event_type.clone(),
        };
        dispatch.event()
    }
}

/// Plans the chunks of one occasion, or of one digest.
pub(crate) struct Planner<'a> {
    workflows: &'a Workflows,
    workflow: &'a Workflow,
    subject: Subject,
    /// What templates see besides the recipient.
    event: Value,
    payload: Value,
    events: Value,
    count: u64,
    /// Words that are the same for everybody.
    cache: HashMap<(Channel, String), Arc<Words>>,
}

impl<'a> Planner<'a> {
    /// For an occasion, by the first workflow that matches it.
    pub(crate) fn new(workflows: &'a Workflows, occasion: &Occasion) -> Result<Self, BoardError> {
        let workflow = workflows.of(occasion).ok_or_else(|| {
            let kind = postrider_core::inert(&occasion.event_type, 100);
            let audience = postrider_core::inert(&occasion.audience, 100);
            BoardError::Occasion(format!(
                "no workflow is for {kind:?} of the audience {audience:?}: add one, or `ignore` the type, then deliver \
                 the event again (`postrider dead redrive`)"
            ))
        })?;
        Self::by(workflows, workflow, occasion)
    }

    /// For an occasion that was accepted before, by the workflow it was accepted with: a change of the configuration
    /// does not tell one half of the members something else.
    pub(crate) fn going_on(
        workflows: &'a Workflows,
        workflow: &str,
        occasion: &Occasion,
    ) -> Result<Self, BoardError> {
        Self::by(workflows, named(workflows, workflow)?, occasion)
    }

    fn by(workflows: &'a Workflows, workflow: &'a Workflow, occasion: &Occasion) -> Result<Self, BoardError> {
        if let Some(reason) = occasion.unfit() {
            return Err(BoardError::Occasion(reason));
        }
        let mut planner = Self::bare(workflows, workflow, std::slice::from_ref(occasion), 1);
        planner.about(occasion)?;
        planner.try_words(&occasion.to)?;
        Ok(planner)
    }

    /// What is collected, and what is told to the last of a million, is told when its event cannot be refused any more:
    /// so the words of every channel and language are tried now, for somebody with a name and for somebody without.
    /// Where it is for one person, it is tried with their id, because a payload may name them.
    fn try_words(&mut self, to: &To) -> Result<(), BoardError> {
        let id = match to {
            To::User(id) => id,
            To::Topic(_) => "somebody",
        };
        let workflow = self.workflow;
        for (channel, locale) in workflow.templates.keys() {
            for name in ["Somebody", ""] {
                let mut somebody = Member::default();
                somebody.recipient.id = id.to_owned();
                somebody.recipient.name = name.to_owned();
                somebody.recipient.locale = Some(locale.clone());
                self.words(&somebody, *channel)?;
            }
        }
        Ok(())
    }

    /// The texts of the last occasion, whatever it is about.
    fn bare(workflows: &'a Workflows, workflow: &'a Workflow, occasions: &[Occasion], count: u64) -> Self {
        let seen = |one: &Occasion| {
            context! {
                id => &*one.event_id, type => &*one.event_type, aggregate_id => &*one.aggregate_id,
                audience => &*one.audience, at => one.at.to_string(), payload => Value::from(Serde(&one.payload)),
            }
        };
        let events: Vec<Value> = occasions.iter().map(seen).collect();
        let event = events.last().cloned().unwrap_or_default();
        let last = occasions.last();
        let text = |of: fn(&Occasion) -> &String| last.map(of).cloned().unwrap_or_default();
        Self {
            workflows,
            workflow,
            subject: Subject {
                event_id: text(|one| &one.event_id),
                event_type: text(|one| &one.event_type),
                audience: text(|one| &one.audience),
                workflow: workflow.name.clone(),
                category: workflow.category.clone(),
                resource_id: None,
                period: 0,
                metadata: String::new(),
            },
            payload: event.get_attr("payload").unwrap_or_default(),
            event,
            events: Value::from(events),
            count,
            cache: HashMap::new(),
        }
    }

    /// Finds out what the occasion is about, and for how long that counts as the same.
    fn about(&mut self, occasion: &Occasion) -> Result<(), BoardError> {
        let resource = match self.workflow.resource.as_deref() {
            None => String::new(),
            Some("") => usual_resource(occasion),
            Some(_) => {
                let context = self.context(Value::UNDEFINED);
                let rendered = self.workflows.templates().resource(self.workflow, &context);
                rendered.map_err(occasion_error)?
            }
        };
        if resource.chars().nth(LONGEST_RESOURCE).is_some() {
            let (name, longest) = (&self.workflow.name, LONGEST_RESOURCE);
            return Err(BoardError::Occasion(format!(
                "workflow {name:?}: what the event is about has more than {longest} characters"
            )));
        }
        let resource = Some(resource).filter(|resource| !resource.is_empty());
        let fingerprint = occasion.fingerprint();
        self.subject.metadata = metadata(&self.subject, resource.as_deref(), Some(&fingerprint));
        // Two kinds of events about one thing are two notifications, so the type is part of it.
        self.subject.resource_id = resource.map(|resource| format!("{}:{resource}", occasion.event_type));
        self.subject.period = period(self.workflow, occasion.at);
        Ok(())
    }

    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(crate) fn workflow(&self) -> &Workflow {
        self.workflow
    }

    /// By which channels a member wants it.
    pub(crate) fn wanted(&self, member: &Member) -> Vec<Channel> {
        let allow = |channel: &Channel| member.preferences.allow(*channel, &self.workflow.category);
        self.workflow.channels.iter().copied().filter(allow).collect()
    }

    /// The notifications of a chunk: those of the first of these members, and of at least one.
    pub(crate) fn plan(&mut self, members: &[Member]) -> Result<Plan, BoardError> {
        let mut plan = Plan::default();
        let mut bytes = 0;
        for member in members {
            if bytes >= WORDS {
                break;
            }
            plan.looked_at += 1;
            let channels = self.wanted(member);
            if channels.is_empty() {
                plan.muted += 1;
                continue;
            }
            let planned = self.planned(member, &channels)?;
            bytes += planned.bytes();
            plan.notifications.push(planned);
        }
        Ok(plan)
    }

    fn planned(&mut self, member: &Member, channels: &[Channel]) -> Result<Planned, BoardError> {
        // The row is what a feed shows, also where the person wants mail only.
        let shown = match self.workflow.channels.contains(&Channel::InApp) {
            true => Channel::InApp,
            false => channels.first().copied().unwrap_or(Channel::InApp),
        };
        let mut deliveries = Vec::with_capacity(channels.len());
        for channel in channels {
            let (address, problem) = match address::of(&member.recipient, *channel) {
                // The event of a delivery carries the id.
                Ok(_) if *channel != Channel::InApp && unfit_name(&member.recipient.id).is_some() => {
                    let problem =
                        "the id of the recipient has a control character or more than 255 characters";
                    (String::new(), Some(problem))
                }
                Ok(address) => (address.to_owned(), None),
                Err(problem) => (String::new(), Some(problem)),
            };
            deliveries.push(PlannedDelivery {
                channel: *channel,
                address,
                problem,
                words: self.words(member, *channel)?,
            });
        }
        // Rendered once, where they are those of a delivery.
        let words = match deliveries.iter().find(|one| one.channel == shown) {
            Some(delivery) => Arc::clone(&delivery.words),
            None => self.words(member, shown)?,
        };
        Ok(Planned {
            user_id: member.recipient.id.clone(),
            name: text::one_line(&member.recipient.name, text::NAME),
            words,
            deliveries,
        })
    }

    /// The words of a channel for a member. Rendered once for all who read the same.
    fn words(&mut self, member: &Member, channel: Channel) -> Result<Arc<Words>, BoardError> {
        let templates = self.workflows.templates();
        let recipient = &member.recipient;
        let locale = templates.locale(self.workflow, channel, recipient.locale.as_deref());
        let key = (channel, locale);
        if let Some(words) = self.cache.get(&key) {
            return Ok(Arc::clone(words));
        }
        let name = text::one_line(&recipient.name, text::NAME);
        let seen = context! { id => &*recipient.id, name, locale => &*key.1 };
        let words = templates.words(self.workflow, (channel, &key.1), &self.context(seen));
        let words = Arc::new(words.map_err(occasion_error)?);
        if !templates.is_personal(self.workflow, channel, &key.1) {
            self.cache.insert(key, Arc::clone(&words));
        }
        Ok(words)
    }

    fn context(&self, recipient: Value) -> Value {
        context! {
            event => self.event.clone(), payload => self.payload.clone(), events => self.events.clone(),
            count => self.count, recipient,
        }
    }
}

fn named<'a>(workflows: &'a Workflows, name: &str) -> Result<&'a Workflow, BoardError> {
    workflows.named(name).ok_or_else(|| {
        BoardError::Occasion(format!(
            "there is no workflow {name:?} any more: put it back, and it goes on by itself"
        ))
    })
}

fn occasion_error(error: RenderError) -> BoardError {
    BoardError::Occasion(error.to_string())
}

/// What is taken where a workflow leaves it to the payload.
fn usual_resource(occasion: &Occasion) -> String {
    let fields = ["resourceId", "followerId", "postId"];
    let found = fields
        .into_iter()
        .find_map(|field| match occasion.payload.get(field)? {
            serde_json::Value::String(text) if !text.is_empty() => Some(text.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
    text::one_line(&found.unwrap_or_default(), usize::MAX)
}

/// Which window of the workflow a time is in: 0 where one is for ever, else counted from 1 on.
fn period(workflow: &Workflow, at: Timestamp) -> i64 {
    let Some(window) = workflow.period else { return 0 };
    let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX).max(1);
    at.0.max(0) / window + 1
}

fn metadata(subject: &Subject, resource: Option<&str>, fingerprint: Option<&str>) -> String {
    let metadata = serde_json::json!({
        "originalEvent": subject.event_type, "eventId": subject.event_id, "resourceId": resource,
        "fingerprint": fingerprint,
    });
    metadata.to_string()
}

#[cfg(test)]
mod tests;
