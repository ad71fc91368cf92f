//! How publishing is made to fail.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use postrider_core::{ErrorKind, Failure, Message};

/// A test's wish to have messages refused.
pub(crate) type Rule = Arc<dyn Fn(&Message) -> Option<ErrorKind> + Send + Sync>;

/// What is to go wrong.
#[derive(Default)]
pub(crate) struct Script {
    /// Of the next messages, one each.
    pub(crate) next: VecDeque<Next>,
    /// Of every message.
    pub(crate) rule: Option<Rule>,
    /// Of everything.
    pub(crate) unreachable: bool,
}

/// What is to happen to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is not taken.
    Fail(ErrorKind),
    /// It is taken, and the answer is lost.
    LoseAnswer,
}

/// What the script says of a message.
pub(crate) enum Fate {
    Taken,
    TakenUnanswered,
    Refused(Failure),
}

impl Script {
    /// Decides about one message. Every call uses up one of the scripted failures, if there are any.
    pub(crate) fn decide(&mut self, message: &Message) -> Fate {
        if self.unreachable {
            return Fate::Refused(Failure::new(
                ErrorKind::Unreachable,
                "the test made it unreachable",
            ));
        }
        match self.next.pop_front() {
            Some(Next::Fail(kind)) => Fate::Refused(Failure::new(kind, "the test had it fail")),
            Some(Next::LoseAnswer) => Fate::TakenUnanswered,
            None => match self.rule.as_ref().and_then(|rule| rule(message)) {
                Some(kind) => Fate::Refused(Failure::new(kind, "the test refuses such messages")),
                None => Fate::Taken,
            },
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("next", &self.next)
            .field("rule", &self.rule.is_some())
            .field("unreachable", &self.unreachable)
            .finish()
    }
}
