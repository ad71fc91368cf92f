//! Digests: what may be collected, how much of it is read, and what is told of it.

use super::{Plan, Planner, WORDS, metadata, named};
use crate::board::keep::{keep, kept};
use crate::board::work::{Counts, Due};
use crate::{BoardError, Member, Occasion, Workflows};

/// How many events of a digest its templates see, the latest of them. All of them are counted.
pub(crate) const EVENTS: i64 = 100;

/// How many bytes of events are read for one digest: another is read while those before it are below this. It bounds
/// what one digest takes in memory, which is several times its text.
pub(crate) const EVENTS_BYTES: i64 = 4 * 1024 * 1024;

/// The longest text of an event that is collected. It is kept once for each user until it is told; this is twice of
/// what a request over HTTP may have.
pub(crate) const LARGEST: usize = 128 * 1024;

/// What a digest collected.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// As they are kept, the latest first.
    pub(crate) texts: Vec<String>,
    /// How many there are in all.
    pub(crate) count: i64,
}

impl<'a> Planner<'a> {
    /// For an occasion that is planned later. Whatever can be refused of it is refused now.
    pub(crate) fn later(workflows: &'a Workflows, occasion: &Occasion) -> Result<Self, BoardError> {
        let planner = Self::new(workflows, occasion)?;
        if planner.workflow.digest.is_some() {
            planner.collected(occasion, &[])?;
        }
        Ok(planner)
    }

    /// The text that is collected of an occasion, and for how many of the members now: in the end it is stored once for
    /// each of them.
    pub(crate) fn collected<'m>(
        &self,
        occasion: &Occasion,
        members: &'m [Member],
    ) -> Result<(String, &'m [Member]), BoardError> {
        let text = keep(occasion)?;
        if text.len() > LARGEST {
            let (name, bytes) = (&self.workflow.name, text.len());
            return Err(BoardError::Occasion(format!(
                "workflow {name:?}: the event has {bytes} bytes, and at most {LARGEST} are collected for a digest; \
                 leave out of its payload what no template needs, or take `digest` out of the workflow"
            )));
        }
        let most = (WORDS / text.len().max(1)).clamp(1, members.len().max(1));
        Ok((text, members.get(..most).unwrap_or(members)))
    }

    /// What is told of a digest to these. Events that fit one by one may be too much together: html has a longest
    /// length, and a template its fuel. Then the older half is left out of what templates see, until it fits; else
    /// whoever writes long texts could silence the digests of somebody. All of them are counted.
    pub(crate) fn tell(
        workflows: &'a Workflows,
        due: &Due,
        mut collected: Collected,
        members: &[Member],
    ) -> Result<(Self, Plan), BoardError> {
        loop {
            let told = Self::digest(workflows, due, &collected).and_then(|mut planner| {
                let plan = planner.plan(members)?;
                Ok((planner, plan))
            });
            match told {
                Err(BoardError::Occasion(_)) if collected.texts.len() > 1 => {
                    collected.texts.truncate(collected.texts.len() / 2);
                }
                told => return told,
            }
        }
    }

    /// For what a digest collected. There may have been more than is told of here.
    fn digest(workflows: &'a Workflows, due: &Due, collected: &Collected) -> Result<Self, BoardError> {
        let texts = collected.texts.iter().rev();
        let occasions: Result<Vec<Occasion>, _> = texts.map(|text| kept(text, "a digest")).collect();
        let workflow = named(workflows, &due.workflow)?;
        let mut planner = Self::bare(workflows, workflow, &occasions?, collected.count.unsigned_abs());
        planner.subject.event_id = format!("notification-digest-{}", due.id);
        planner.subject.metadata = metadata(&planner.subject, None, None);
        Ok(planner)
    }

    /// Looks whether a digest was stored. It is made once, so what is there in its place is another's.
    pub(crate) fn told(&self, counts: &Counts) -> Result<(), BoardError> {
        match counts.duplicates {
            0 => Ok(()),
            _ => Err(BoardError::Occasion(format!(
                "there is a notification of an event {:?}, which is an id of digests: remove it, and the digest is \
                 told a minute later",
                self.subject.event_id
            ))),
        }
    }
}
