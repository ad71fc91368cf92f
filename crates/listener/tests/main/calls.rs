//! Effects outside of the database.

use std::sync::{Arc, Mutex};

use postrider_core::{Blame, BoxFuture, HandlerError, InboxConsole, Received, Records, StoreErrorKind};
use postrider_listener::{Call, CallError, Calls, DeadLetters, Listener, Report};
use postrider_testkit::wait::until;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{SOON, Stage, dead_address, message};

type Answer = dyn Fn(&Received) -> Result<(), CallError> + Send + Sync;

/// What is called, and what it answers.
struct Outside {
    called: Mutex<Vec<String>>,
    answer: Box<Answer>,
}

impl Outside {
    fn new(answer: impl Fn(&Received) -> Result<(), CallError> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            called: Mutex::default(),
            answer: Box::new(answer),
        })
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }
}

impl Call for Outside {
    fn call<'a>(&'a self, event: &'a Received) -> BoxFuture<'a, Result<(), CallError>> {
        self.called.lock().unwrap().push(event.event_id().to_owned());
        Box::pin(async { (self.answer)(event) })
    }
}

struct Play {
    listener: Listener<Calls>,
    token: CancellationToken,
    running: JoinHandle<Report>,
}

impl Play {
    fn new(stage: &Stage, outside: &Arc<Outside>) -> Self {
        let calls = Calls::new(Arc::new(stage.effects.clone()));
        let listener = Listener::builder(Arc::new(stage.queue.source()), calls)
            .consumer("test")
            .handler(Arc::clone(outside) as Arc<dyn Call>)
            .retry(SOON)
            .observer(stage.notes.clone())
            .dead_letters(DeadLetters::to(Arc::new(stage.dead.clone()), dead_address()))
            .build()
            .unwrap();
        let token = CancellationToken::new();
        let running = tokio::spawn({
            let (listener, token) = (listener.clone(), token.clone());
            async move { listener.run(token).await }
        });
        Self {
            listener,
            token,
            running,
        }
    }

    async fn stop(self) -> Report {
        self.token.cancel();
        self.running.await.unwrap()
    }
}

/// Faults D1 and D6.
#[tokio::test]
async fn what_is_recorded_is_not_called_for_again() {
    let stage = Stage::new();
    let outside = Outside::new(|_| Ok(()));
    let play = Play::new(&stage, &outside);
    stage.put([message("e1", "k"), message("e1", "k")]).await;
    stage.put([message("e2", "k")]).await;
    stage.empty().await;
    assert_eq!(outside.called(), ["e1", "e2"]);
    let report = play.stop().await;
    assert_eq!((report.effects, report.duplicates), (2, 1));
    assert_eq!(stage.effects.count(Records::of("test")).await.unwrap(), 2);
}

/// Fault D15. The call has happened: while it cannot be written down it is not made again.
#[tokio::test]
async fn a_call_whose_record_has_to_wait_is_made_once() {
    let stage = Stage::new();
    let effects = stage.effects.clone();
    let outside = Outside::new(move |_| {
        effects.set_away(Some(StoreErrorKind::Unreachable));
        Ok(())
    });
    let play = Play::new(&stage, &outside);
    stage.put([message("e1", "k")]).await;
    until("several attempts to record it", || stage.effects.refused() >= 3).await;
    stage.effects.set_away(None);
    stage.empty().await;
    assert_eq!(outside.called(), ["e1"]);
    play.stop().await;
}

#[tokio::test]
async fn whoever_is_away_pauses_consumption_and_costs_no_attempt() {
    let stage = Stage::new();
    let away = Arc::new(Mutex::new(true));
    let is_away = Arc::clone(&away);
    let outside = Outside::new(move |_| match *is_away.lock().unwrap() {
        true => Err(CallError::Away {
            text: "nobody there".to_owned(),
            advice: "start it",
        }),
        false => Ok(()),
    });
    let play = Play::new(&stage, &outside);
    stage.put((0..20).map(|n| message(&format!("{n:02}"), "k"))).await;
    until("more probes than attempts", || outside.called().len() > 5).await;
    assert!(play.listener.health().store.is_some());
    assert_eq!(stage.notes.count("WillRetry"), 0);
    *away.lock().unwrap() = false;
    stage.empty().await;
    assert!(stage.dead.messages().is_empty());
    assert!(outside.called().ends_with(&["18".to_owned(), "19".to_owned()]));
    play.stop().await;
}

/// While nothing works no event is to blame, and one that alone never works is.
#[tokio::test]
async fn a_failure_of_which_the_cause_is_unclear_is_charged_while_others_pass() {
    let stage = Stage::new();
    let outside = Outside::new(|event| match event.event_id() {
        "bad" => Err(CallError::Handler(
            HandlerError::retry("500").blame(Blame::Unclear),
        )),
        _ => Ok(()),
    });
    let play = Play::new(&stage, &outside);
    stage.put([message("bad", "k")]).await;
    until("more failures than attempts", || {
        stage.notes.count("WillRetry") > 5
    })
    .await;
    assert!(stage.dead.messages().is_empty());
    for n in 0..SOON.max_attempts {
        let (id, failures) = (format!("good-{n}"), stage.notes.count("WillRetry"));
        stage.put([message(&id, &id)]).await;
        until("it fails beside others, or is given up", || {
            stage.notes.count("WillRetry") > failures + 1 || !stage.dead.messages().is_empty()
        })
        .await;
    }
    let letters = stage.letters(1).await;
    assert_eq!(
        (letters[0].0.as_str(), letters[0].1.as_str()),
        ("bad", "attempts")
    );
    play.stop().await;
}

#[tokio::test]
async fn a_failure_that_nobody_is_to_blame_for_is_never_charged() {
    let stage = Stage::new();
    let outside = Outside::new(|event| match (event.event_id(), event.attempt) {
        ("slow", 1) => Err(CallError::Handler(
            HandlerError::retry("429").blame(Blame::Nobody),
        )),
        _ => Ok(()),
    });
    let play = Play::new(&stage, &outside);
    stage.put([message("slow", "k")]).await;
    for n in 0..10 {
        let (id, failures) = (format!("good-{n}"), stage.notes.count("WillRetry"));
        stage.put([message(&id, &id)]).await;
        until("it fails beside others", || {
            stage.notes.count("WillRetry") > failures + 1
        })
        .await;
    }
    assert!(stage.dead.messages().is_empty());
    play.stop().await;
}

/// Calls cannot be undone: those beside one that fails are done, and count as done.
#[tokio::test]
async fn one_that_is_refused_costs_its_neighbours_nothing() {
    let stage = Stage::new();
    let outside = Outside::new(|event| match event.event_id() {
        "25" => Err(CallError::Handler(HandlerError::reject("422"))),
        _ => Ok(()),
    });
    let ids: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
    stage.put(ids.iter().map(|id| message(id, "k"))).await;
    let play = Play::new(&stage, &outside);
    stage.empty().await;
    assert_eq!(outside.called(), ids, "each once");
    let report = play.stop().await;
    assert_eq!(
        (report.effects, report.duplicates, report.dead_letters),
        (49, 0, 1)
    );
}
