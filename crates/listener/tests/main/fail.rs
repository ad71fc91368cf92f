//! A handler that fails is a matter of its event only.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider_core::{Blame, HandlerError};
use postrider_testkit::wait::until;

use crate::support::{SOON, Stage, message, writes};

/// Fault D10.
#[tokio::test]
async fn after_its_attempts_an_event_is_a_dead_letter_and_the_queue_flows() {
    let stage = Stage::new();
    stage.put(["e1", "bad", "e2"].map(|id| message(id, "k"))).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let handler = writes(move |event| match event.event_id() {
        "bad" => {
            seen.lock().unwrap().push(event.attempt);
            Err(HandlerError::retry("no such account"))
        }
        _ => Ok(()),
    });
    let play = stage.play_with(handler, |builder| builder.batch(1));
    let letters = stage.letters(1).await;
    assert_eq!((&*letters[0].0, &*letters[0].1), ("bad", "attempts"));
    assert_eq!(letters[0].2, "failed 3 times; the last time: no such account");
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["e1", "e2"]);
    assert_eq!(*calls.lock().unwrap(), [1, 2, 3]);
    let report = play.stop().await;
    assert_eq!((report.retries, report.dead_letters), (2, 1));
    let letter = &stage.dead.messages()[0];
    assert_eq!(letter.body, message("bad", "k").body, "the body is untouched");
    assert_eq!(letter.header("postrider-dead-consumer"), Some("test"));
    assert_eq!(letter.header("postrider-dead-attempts"), Some("3"));
    assert_eq!(letter.address, crate::support::dead_address());
}

#[tokio::test]
async fn what_the_handler_rejects_is_not_tried_again() {
    let stage = Stage::new();
    stage.put(["bad", "e1"].map(|id| message(id, "k"))).await;
    let calls = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&calls);
    let handler = writes(move |event| match event.event_id() {
        "bad" => {
            seen.fetch_add(1, Ordering::Relaxed);
            Err(HandlerError::reject("not a number"))
        }
        _ => Ok(()),
    });
    let play = stage.play_with(handler, |builder| builder.batch(1));
    let letters = stage.letters(1).await;
    assert_eq!(
        letters[0],
        ("bad".to_owned(), "rejected".to_owned(), "not a number".to_owned())
    );
    assert_eq!(stage.rows(1).await, ["e1"]);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    play.stop().await;
}

#[tokio::test]
async fn one_that_fails_in_a_batch_does_not_take_the_others_with_it() {
    let stage = Stage::new();
    stage
        .put((0..20).map(|n| message(&format!("{n:02}"), &format!("{}", n % 3))))
        .await;
    let handler = writes(|event| match event.event_id() {
        "07" => Err(HandlerError::reject("bad")),
        "11" => panic!("the handler has a bug"),
        _ => Ok(()),
    });
    let play = stage.play_with(handler, |builder| builder.concurrency(1).batch(20));
    let mut letters = stage.letters(2).await;
    letters.sort();
    assert_eq!((&*letters[0].0, &*letters[0].1), ("07", "rejected"));
    assert_eq!((&*letters[1].0, &*letters[1].1), ("11", "attempts"));
    assert!(
        letters[1]
            .2
            .ends_with("the handler panicked: the handler has a bug"),
        "{}",
        letters[1].2
    );
    stage.empty().await;
    assert_eq!(stage.effects.rows().len(), 18);
    play.stop().await;
}

#[tokio::test]
async fn a_handler_may_say_when_to_come_back_within_the_longest_pause() {
    let stage = Stage::new();
    stage.put([message("e1", "k")]).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let handler = writes(move |event| {
        seen.lock().unwrap().push(Instant::now());
        match event.attempt {
            1 => Err(HandlerError::retry("busy").not_before(Duration::from_secs(3_600))),
            _ => Ok(()),
        }
    });
    let retry = postrider_core::RetryPolicy {
        max: Duration::from_millis(50),
        ..SOON
    };
    let play = stage.play_with(handler, |builder| builder.retry(retry));
    stage.empty().await;
    let times = times.lock().unwrap().clone();
    assert!(times[1] - times[0] >= Duration::from_millis(50));
    play.stop().await;
}

/// Fault D15. A repetition calls no handler: that it goes well says nothing about whether one can work.
#[tokio::test]
async fn repetitions_are_no_sign_that_others_take_effect() {
    let stage = Stage::new();
    stage.put([message("done", "k")]).await;
    let handler = writes(|event| match event.event_id() {
        "done" => Ok(()),
        _ => Err(HandlerError::retry("nothing works").blame(Blame::Unclear)),
    });
    let play = stage.play_with(handler, |builder| builder.batch(1));
    stage.empty().await;
    stage.put([message("waits", "w")]).await;
    for n in 1..=8 {
        until("another failure", || stage.notes.count("WillRetry") >= n).await;
        let before = play.listener.report().duplicates;
        stage.put([message("done", "k")]).await;
        until("a repetition", || play.listener.report().duplicates > before).await;
    }
    let failures = stage.notes.count("WillRetry");
    until("it goes on", || stage.notes.count("WillRetry") > failures + 1).await;
    assert!(stage.dead.messages().is_empty(), "nothing was charged to it");
    play.stop().await;
}

/// Fault D10. Its handler breaks its own connection, which looks as if the database were away; others show that it is
/// not.
#[tokio::test]
async fn an_event_that_looks_like_an_outage_is_a_dead_letter_when_others_pass() {
    let stage = Stage::new();
    stage.put(["e0", "bad"].map(|id| message(id, id))).await;
    let handler = writes(|event| match event.event_id() {
        "bad" => Err(HandlerError::retry("connection closed").blame(Blame::Unclear)),
        _ => Ok(()),
    });
    let play = stage.play(handler);
    let mut n = 0;
    while stage.dead.messages().is_empty() {
        n += 1;
        let id = format!("e{n}");
        stage.put([message(&id, &id)]).await;
        stage.rows(n + 1).await;
    }
    assert_eq!(stage.letters(1).await[0].0, "bad");
    stage.empty().await;
    play.stop().await;
}
