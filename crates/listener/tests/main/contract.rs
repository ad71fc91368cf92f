//! What a listener gives to effects, and what it makes of answers that no effects should give.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postrider_core::{Applied, ApplyError, BoxFuture, Effects, Received};
use postrider_listener::{DeadLetters, Listener};
use postrider_testkit::effects::{MemoryEffects, MemoryHandler};
use postrider_testkit::wait::until;
use tokio_util::sync::CancellationToken;

use crate::support::{SOON, Stage, dead_address, message, writes};

/// Effects in memory that take only so many at a time, and while they are short answer for all but the last.
#[derive(Clone)]
struct Odd {
    effects: MemoryEffects,
    most: usize,
    largest: Arc<AtomicUsize>,
    short: Arc<AtomicBool>,
}

impl Odd {
    fn new(stage: &Stage, most: usize, short: bool) -> Self {
        Self {
            effects: stage.effects.clone(),
            most,
            largest: Arc::default(),
            short: Arc::new(AtomicBool::new(short)),
        }
    }

    /// A listener on them, until the token is dropped.
    fn play(&self, stage: &Stage) -> tokio_util::sync::DropGuard {
        let listener = Listener::builder(Arc::new(stage.queue.source()), self.clone())
            .consumer("test")
            .handler(writes(|_| Ok(())))
            .concurrency(1)
            .retry(SOON)
            .observer(stage.notes.clone())
            .dead_letters(DeadLetters::to(Arc::new(stage.dead.clone()), dead_address()))
            .build()
            .expect("everything is given");
        let token = CancellationToken::new();
        let stop = token.clone();
        tokio::spawn(async move { listener.run(stop).await });
        token.drop_guard()
    }
}

impl Effects for Odd {
    type Handler = MemoryHandler;

    fn most(&self) -> usize {
        self.most
    }

    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<MemoryHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        self.largest.fetch_max(deliveries.len(), Ordering::SeqCst);
        let kept = match self.short.load(Ordering::SeqCst) {
            true => deliveries.len() - 1,
            false => deliveries.len(),
        };
        let answered = deliveries[..kept].into();
        self.effects.apply(consumer, answered, handler)
    }
}

/// Fault D4. Which of them took effect is not known, and to acknowledge all would lose one without a word.
#[tokio::test]
async fn answers_that_are_too_few_acknowledge_nothing() {
    let stage = Stage::new();
    let effects = Odd::new(&stage, usize::MAX, true);
    stage.put((0..5).map(|n| message(&format!("e{n}"), "k"))).await;
    let play = effects.play(&stage);
    until("the last of a line fails more often than it may", || {
        stage.notes.count("WillRetry") > 5
    })
    .await;
    assert_eq!(stage.queue.messages().len(), 5, "nothing is acknowledged");
    assert!(stage.dead.messages().is_empty());
    effects.short.store(false, Ordering::SeqCst);
    stage.empty().await;
    let mut rows = stage.effects.rows();
    rows.sort();
    assert_eq!(rows, ["e0", "e1", "e2", "e3", "e4"]);
    drop(play);
}

#[tokio::test]
async fn effects_are_given_no_more_than_they_take() {
    for (most, largest) in [(0, 1), (1, 1), (3, 3), (usize::MAX, 40)] {
        let stage = Stage::new();
        let effects = Odd::new(&stage, most, false);
        stage.put((0..40).map(|n| message(&format!("{n:02}"), "k"))).await;
        let play = effects.play(&stage);
        stage.empty().await;
        assert_eq!(stage.effects.rows().len(), 40);
        assert_eq!(effects.largest.load(Ordering::SeqCst), largest, "of {most}");
        drop(play);
    }
}
