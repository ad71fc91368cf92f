//! What cannot take effect is kept with its reason, whatever it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use postrider_core::{
    Answer, BoxFuture, Capabilities, ErrorKind, HandlerError, Message, Received, Sink, Source,
};
use postrider_listener::DeadLetters;
use postrider_testkit::effects::{MemoryHandler, Work};
use postrider_testkit::wait::until;
use tokio::sync::Semaphore;

use postrider_memory::MemorySink;

use crate::support::{Cut, Stage, dead_address, message, writes};

/// Fault D8, and the bad input that anybody may put into a queue.
#[tokio::test]
async fn what_is_no_event_is_a_dead_letter_and_the_listener_lives() {
    let changed = |change: fn(&mut Message)| {
        let mut message = message("bad", "k");
        change(&mut message);
        message
    };
    let deep = "[".repeat(1 << 20);
    for (bad, reason) in [
        (
            changed(|message| {
                message.event_id = "".into();
                message.body = Bytes::from_static(b"{\"payload\":1}");
            }),
            "event_id: is empty",
        ),
        (
            changed(|message| message.body = Bytes::from_static(b"{")),
            "body: is no flat envelope",
        ),
        (
            changed(|message| message.body = Bytes::new()),
            "body: is no flat envelope",
        ),
        (
            changed(|message| message.body = Bytes::from_static(b"\xff")),
            "body: is not UTF-8",
        ),
        (
            changed(|message| message.content_type = "text/xml".to_owned()),
            "content_type: is",
        ),
        (
            Message {
                body: format!("{{\"event_id\":\"bad\",\"payload\":{deep}").into(),
                ..message("bad", "k")
            },
            "body: is no flat envelope",
        ),
        (
            Message {
                body: format!("{{\"payload\":{deep}{}}}", "]".repeat(1 << 20)).into(),
                ..message("bad", "k")
            },
            "payload: calls itself JSON and is not: nested deeper",
        ),
        (
            Message {
                event_id: "x".repeat(256).into(),
                body: Bytes::from_static(b"{\"payload\":1}"),
                ..message("bad", "k")
            },
            "event_id: has 256 characters",
        ),
    ] {
        let stage = Stage::new();
        let body = bad.body.clone();
        stage.put([bad, message("e1", "k")]).await;
        let play = stage.play(writes(|_| Ok(())));
        let letters = stage.letters(1).await;
        assert_eq!(letters[0].1, "malformed");
        assert!(
            letters[0].2.starts_with(reason),
            "{} is not {reason}",
            letters[0].2
        );
        assert_eq!(stage.dead.messages()[0].body, body, "the letter is as it came");
        assert_eq!(stage.rows(1).await, ["e1"]);
        stage.empty().await;
        play.stop().await;
    }
}

/// Fault D11.
#[tokio::test]
async fn nothing_is_lost_while_dead_letters_cannot_be_published() {
    let stage = Stage::new();
    stage.dead.refuse_when(|_| Some(ErrorKind::AddressNotFound));
    stage
        .put([message("bad", "a"), message("a2", "a"), message("e1", "b")])
        .await;
    let handler = || {
        writes(|event| match event.event_id() {
            "bad" => Err(HandlerError::reject("bad")),
            _ => Ok(()),
        })
    };
    let play = stage.play(handler());
    until("the letter is refused", || {
        stage.notes.count("LettersFailed") == 1
    })
    .await;
    assert_eq!(stage.rows(1).await, ["e1"], "other keys flow");
    until("what flows is acknowledged", || stage.queue.messages().len() == 2).await;
    assert!(play.listener.health().letters.is_some());
    assert!(stage.dead.messages().is_empty());
    // Not even the end of the process loses it.
    play.stop().await;
    assert_eq!(stage.queue.messages().len(), 2);
    let play = stage.play(handler());
    until("it is refused again", || stage.notes.count("LettersFailed") == 2).await;
    stage.dead.accept_everything();
    stage.empty().await;
    assert_eq!(stage.letters(1).await.len(), 1);
    assert_eq!(stage.effects.rows(), ["e1", "a2"]);
    play.health("all is well", |health| health.is_well()).await;
    assert_eq!(stage.notes.count("LettersBack"), 1);
    play.stop().await;
}

#[tokio::test]
async fn the_broker_may_keep_them_itself() {
    let stage = Stage::new();
    stage.put([message("bad", "a"), message("a2", "a")]).await;
    let handler = writes(|event| match event.event_id() {
        "bad" => Err(HandlerError::reject("bad")),
        _ => Ok(()),
    });
    let play = stage.play_with(handler, |builder| builder.dead_letters(DeadLetters::Broker));
    stage.empty().await;
    assert_eq!(stage.queue.rejected()[0].event_id.as_str(), "bad");
    assert_eq!(stage.effects.rows(), ["a2"]);
    assert_eq!(play.stop().await.dead_letters, 1);
}

/// Fault D10: a message that ends the process is never charged by it.
#[tokio::test]
async fn what_was_delivered_too_often_is_a_dead_letter() {
    let stage = Stage::new();
    stage.put([message("bad", "a")]).await;
    for _ in 0..3 {
        let (_closed, gate) = tokio::sync::watch::channel(false);
        let play = stage.play(crate::support::gated(gate));
        play.health("it works on it", |health| health.held == 1).await;
        play.kill().await;
    }
    stage.put([message("a2", "a")]).await;
    let play = stage.play_with(writes(|_| Ok(())), |builder| builder.redelivery_limit(2));
    let letters = stage.letters(1).await;
    assert_eq!((&*letters[0].0, &*letters[0].1), ("bad", "redelivered"));
    assert_eq!(stage.rows(1).await, ["a2"]);
    play.stop().await;
}

/// Fault D10: what is held beside such a message comes as often as it does, and is not given up with it.
#[tokio::test]
async fn the_neighbours_of_what_ends_its_consumers_take_effect() {
    let stage = Stage::new();
    stage
        .put(["e1", "bad", "e2", "e3"].map(|id| message(id, "k")))
        .await;
    let mut lives = 0;
    while stage.dead.messages().is_empty() {
        lives += 1;
        assert!(lives < 8, "it is never given up");
        // As the end of a process: while it works on the bad one.
        let reached = std::sync::Arc::new(tokio::sync::Notify::new());
        let seen = std::sync::Arc::clone(&reached);
        let handler: std::sync::Arc<MemoryHandler> =
            std::sync::Arc::new(move |event: Received, work: Work| {
                let seen = std::sync::Arc::clone(&seen);
                Box::pin(async move {
                    if event.event_id() == "bad" {
                        seen.notify_one();
                        std::future::pending::<()>().await;
                    }
                    work.write(event.event_id());
                    Ok(())
                }) as BoxFuture<'static, _>
            });
        let play = stage.play_with(handler, |builder| {
            builder.redelivery_limit(2).concurrency(1).batch(10)
        });
        tokio::select! {
            () = reached.notified() => play.kill().await,
            _ = stage.letters(1) => {
                stage.empty().await;
                play.stop().await;
            }
        }
    }
    assert_eq!(lives, 4, "two as ever, one with care, one without it");
    assert_eq!(stage.letters(1).await[0].0, "bad");
    assert_eq!(stage.dead.messages().len(), 1);
    assert_eq!(stage.effects.rows(), ["e1", "e2", "e3"]);
}

/// A place for dead letters that takes them and never says so, as a broker does that is short of memory.
struct Silent(MemorySink);

impl Sink for Silent {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn publish(&self, _: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// Fault D10. Letters that nobody confirms keep no effect from happening.
#[tokio::test]
async fn letters_on_their_way_take_no_transactions_place() {
    let stage = Stage::new();
    stage
        .put((0..4).map(|n| message(&format!("bad{n}"), &format!("b{n}"))))
        .await;
    stage
        .put((0..40).map(|n| message(&format!("{n:02}"), &format!("{n}"))))
        .await;
    let handler = writes(|event| match event.event_id().starts_with("bad") {
        true => Err(HandlerError::reject("bad")),
        false => Ok(()),
    });
    let silent = DeadLetters::to(Arc::new(Silent(stage.dead.clone())), dead_address());
    let play = stage.play_with(handler, |builder| {
        builder.concurrency(2).batch(1).dead_letters(silent)
    });
    assert_eq!(stage.rows(40).await.len(), 40);
    play.kill().await;
}

/// A place for dead letters that refuses them, each when it is let go.
struct Refuses {
    sink: MemorySink,
    asked: AtomicUsize,
    answers: Semaphore,
}

impl Sink for Refuses {
    fn capabilities(&self) -> Capabilities {
        self.sink.capabilities()
    }

    fn publish(&self, messages: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answers.acquire().await.expect("the place is there").forget();
            let refused = |_: &Message| Answer::failed(ErrorKind::AddressNotFound, "no such queue");
            messages.iter().map(refused).collect()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.sink.close()
    }
}

/// Fault D11. A message that the broker took back may take effect, or be another listener's: whether its letter could
/// be published is of no importance any more, also where that was tried just then.
#[tokio::test]
async fn a_letter_that_is_taken_back_leaves_no_trouble_behind() {
    for under_way in [false, true] {
        let stage = Stage::new();
        stage.put([message("e1", "k")]).await;
        let accepts = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&accepts);
        let handler = writes(move |_| match seen.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::reject("bad")),
        });
        let refuses = Arc::new(Refuses {
            sink: stage.dead.clone(),
            asked: AtomicUsize::new(0),
            answers: Semaphore::new(1),
        });
        let letters = DeadLetters::to(Arc::clone(&refuses) as Arc<dyn Sink>, dead_address());
        let source = Arc::new(Cut::new(&stage.queue));
        let play = stage.play_on(Arc::clone(&source) as Arc<dyn Source>, handler, |builder| {
            builder.dead_letters(letters)
        });
        play.health("the letter is refused", |health| health.letters.is_some())
            .await;
        if under_way {
            until("it is asked again", || refuses.asked.load(Ordering::SeqCst) == 2).await;
        }
        accepts.store(true, Ordering::SeqCst);
        source.cut();
        until("it comes again", || stage.notes.count("SourceBack") == 1).await;
        refuses.answers.add_permits(1_000);
        assert_eq!(stage.rows(1).await, ["e1"]);
        stage.empty().await;
        play.health("all is well", |health| health.is_well()).await;
        play.stop().await;
    }
}
