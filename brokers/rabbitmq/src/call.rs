//! One publish call: who waits for it, and what is known so far.

use postrider_core::{Answer, Failure};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::returns::lost;

/// Who waits for an answer, with what is known already.
pub(crate) struct Call {
    asked: Option<oneshot::Sender<Vec<Answer>>>,
    answers: Vec<Option<Answer>>,
    over: CancellationToken,
}

impl Call {
    /// `over` is cancelled by whoever asked, when it no longer waits.
    pub(crate) fn new(count: usize, asked: oneshot::Sender<Vec<Answer>>, over: CancellationToken) -> Call {
        Call {
            asked: Some(asked),
            answers: vec![None; count],
            over,
        }
    }

    /// Cancelled as soon as nobody waits for the answer: it was given, or the call was dropped. Nothing more of it may
    /// be handed to the broker from then on, because the engine may have given the events to another relay.
    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) fn settle(&mut self, place: usize, answer: Answer) {
        if let Some(known) = self.answers.get_mut(place) {
            *known = Some(answer);
        }
    }

    pub(crate) fn fail(&mut self, places: &[usize], failure: &Failure) {
        for place in places {
            self.settle(*place, Answer::Failed(failure.clone()));
        }
    }

    /// Answers with what is known, and with this failure for the rest.
    pub(crate) fn end_with(&mut self, failure: Failure) {
        self.end(&Answer::Failed(failure));
    }

    /// Answers; everything should be known by now.
    pub(crate) fn answer(&mut self) {
        self.end(&lost("the client gave no answer"));
    }

    fn end(&mut self, rest: &Answer) {
        self.over.cancel();
        let answers = std::mem::take(&mut self.answers);
        let fill = |known: Option<Answer>| known.unwrap_or_else(|| rest.clone());
        if let Some(asked) = self.asked.take() {
            // Nobody may be waiting any more, which is fine.
            let _ = asked.send(answers.into_iter().map(fill).collect());
        }
    }
}
