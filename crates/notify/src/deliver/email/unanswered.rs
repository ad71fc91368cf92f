//! Letters whose content was handed over and that were not answered. The server may have taken them, so a repetition is
//! a second mail to a person: they are not what a relay asks with whether the server is well, and have an end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Answer, ErrorKind, Failure};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::RETRY;
use super::session::{Answered, Doorway, Waiting};

/// How long an answer to the content is waited for before the letter is sent again: servers look into a letter before
/// they take it, and a client that is impatient sends it twice (RFC 5321, 4.5.3.2.6).
const PATIENCE: Duration = Duration::from_secs(600);
/// On how many connections a late answer is waited for. Beyond that none is, which may cost a second mail.
const WAITING: usize = 32;
/// How many letters are remembered. Beyond that all are forgotten, which costs some of them more attempts.
const REMEMBERED: usize = 10_000;

/// What is known of them, by the id of their event.
#[derive(Default)]
pub(super) struct Unanswered(Mutex<HashMap<String, Case>>);

#[derive(Default)]
struct Case {
    /// How often the letter was handed over without an answer.
    times: u32,
    /// Where the answer is still waited for; None in the end where it never came.
    late: Option<JoinHandle<Option<Answered>>>,
}

impl Unanswered {
    /// What is to be said of a letter instead of sending it again: an answer that came late, or that it is still waited
    /// for.
    pub(super) async fn ask(&self, id: &str, doorway: &Doorway) -> Option<Answer> {
        let late = {
            let mut cases = self.cases();
            let case = cases.get_mut(id)?;
            match &case.late {
                Some(late) if !late.is_finished() => {
                    let still = "the answer to its content is still waited for";
                    return Some(Answer::Failed(maybe_sent(ErrorKind::Unknown, still)));
                }
                _ => case.late.take()?,
            }
        };
        let answered = late.await.ok().flatten()?;
        let answer = doorway.said(&answered).ok()?;
        self.cases().remove(id);
        Some(answer)
    }

    /// A letter was handed over and not answered. It is charged to this delivery alone, and after as many times as a
    /// refusal it is dead: a relay does not charge while nobody else's mail is taken, and would send it for ever.
    pub(super) fn add(&self, id: &str, why: &str, waiting: Option<Waiting>) -> Answer {
        let mut cases = self.cases();
        if cases.len() >= REMEMBERED {
            cases.clear();
        }
        let busy = |case: &&Case| case.late.as_ref().is_some_and(|late| !late.is_finished());
        let room = cases.values().filter(busy).count() < WAITING;
        let case = cases.entry(id.to_owned()).or_default();
        case.times += 1;
        if case.times >= RETRY.max_attempts {
            let text = format!("{why}, {} times", case.times);
            cases.remove(id);
            return Answer::Failed(maybe_sent(ErrorKind::Unanswered, &text));
        }
        case.late = waiting.filter(|_| room).map(|waiting| {
            tokio::spawn(async move {
                let answered = timeout(PATIENCE, waiting).await;
                answered.ok().map(|(_, answered)| answered)
            })
        });
        Answer::Failed(maybe_sent(ErrorKind::Unknown, why))
    }

    /// A letter was answered.
    pub(super) fn forget(&self, id: &str) {
        self.cases().remove(id);
    }

    /// Nothing is waited for any longer.
    pub(super) fn close(&self) {
        for (_, case) in self.cases().drain() {
            if let Some(late) = case.late {
                late.abort();
            }
        }
    }

    fn cases(&self) -> MutexGuard<'_, HashMap<String, Case>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn maybe_sent(kind: ErrorKind, why: &str) -> Failure {
    let text = format!("{why}; the content was handed over, so the mail may have been sent");
    Failure::new(kind, text).maybe_sent()
}
