//! The order of a key, and batches beside each other.

use std::future::poll_fn;
use std::task::Poll;

use postrider_core::{Answer, Class, Message};

use crate::suite::say_skipped;

use super::bench::{Bench, first_arrivals, is_confirmed, publish, publish_all};

pub(super) async fn a_batch_keeps_the_order_of_a_key(bench: Bench) {
    let sink = bench.open().await;
    // A sink that may confirm a follower of a failed message is only ever given one message a key.
    let keys = if sink.capabilities().ordered_batches {
        7
    } else {
        300
    };
    let batch = bench.numbered("m", 300, keys);
    publish_all(&sink, &batch).await;
    assert_order(&bench, &batch).await;
}

pub(super) async fn batches_keep_the_order_of_a_key(bench: Bench) {
    let sink = bench.open().await;
    let all = bench.numbered("m", 60, 6);
    // Each batch has every key once; a key's next message goes only after the one before it was confirmed.
    for batch in all.chunks(6) {
        publish_all(&sink, batch).await;
    }
    assert_order(&bench, &all).await;
}

pub(super) async fn batches_under_way_together_all_arrive(bench: Bench) {
    let sink = bench.open().await;
    let together = sink.capabilities().concurrent_batches.min(16);
    let mut all = Vec::new();
    for round in 0..5 {
        let batches: Vec<Vec<Message>> = (0..together)
            .map(|n| bench.numbered(&format!("r{round}b{n}-"), 20, 20))
            .collect();
        let calls: Vec<_> = batches
            .iter()
            .map(|batch| {
                let (sink, batch) = (sink.clone(), batch.clone());
                tokio::spawn(async move { sink.publish(batch.into()).await })
            })
            .collect();
        for (batch, call) in batches.iter().zip(calls) {
            let answers = call.await.expect("a publish does not panic");
            assert_eq!(answers.len(), batch.len());
            assert!(answers.iter().all(is_confirmed), "{answers:?}");
        }
        all.extend(batches.into_iter().flatten());
    }
    bench.until_arrived(&all).await;
}

pub(super) async fn two_sinks_write_beside_each_other(bench: Bench) {
    let sinks = [bench.open().await, bench.open().await];
    let mut all = Vec::new();
    // One after the other first: each may make what it needs, and a broker may refuse what comes to a queue that
    // somebody else is making at that moment.
    for (n, sink) in sinks.iter().enumerate() {
        let first = bench.numbered(&format!("first{n}-"), 1, 1);
        publish_all(sink, &first).await;
        all.extend(first);
    }
    for round in 0..10 {
        let batches = [0, 1].map(|n| bench.numbered(&format!("r{round}s{n}-"), 10, 10));
        tokio::join!(
            publish_all(&sinks[0], &batches[0]),
            publish_all(&sinks[1], &batches[1])
        );
        all.extend(batches.into_iter().flatten());
    }
    let arrived = bench.until_arrived(&all).await;
    assert_eq!(arrived.len(), all.len());
}

pub(super) async fn a_dropped_publish_leaves_the_sink_usable(bench: Bench) {
    let sink = bench.open().await;
    let mut kept = Vec::new();
    for polls in 0..12 {
        let dropped = bench.numbered(&format!("dropped-{polls}-"), 20, 20);
        {
            let mut call = sink.publish(dropped.into());
            for _ in 0..polls {
                let ready = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
                if ready {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let batch = bench.numbered(&format!("kept-{polls}-"), 20, 20);
        publish_all(&sink, &batch).await;
        kept.extend(batch);
    }
    let arrived = bench.until_arrived(&kept).await;
    let known = |id: &str| id.starts_with("kept-") || id.starts_with("dropped-");
    assert!(arrived.iter().all(|message| known(&message.event_id)));
    let repeated = arrived.len() - first_arrivals(&arrived, |_| true).len();
    assert_eq!(repeated, 0, "a dropped call is not tried again by the sink");
}

pub(super) async fn a_failed_message_is_not_passed_by_its_key(bench: Bench) {
    let sink = bench.open().await;
    if !sink.capabilities().ordered_batches {
        let reason = "the engine gives a sink without ordered batches one message a key at a time";
        say_skipped("sink", "order::a_failed_message_is_not_passed_by_its_key", reason);
        return;
    }
    let missing = bench.broker.missing_address().expect("checked by the suite");
    let mut batch = bench.numbered("m", 30, 3);
    batch[6].address = missing;
    let key = batch[6].order_key.clone();
    let answers = publish(&sink, &batch).await;
    for (n, (message, answer)) in batch.iter().zip(&answers).enumerate() {
        let passes = n > 6 && message.order_key == key && is_confirmed(answer);
        assert!(
            !passes,
            "{} was confirmed although an earlier message of its key failed",
            message.event_id
        );
        if let (true, Answer::Failed(failure)) = (n > 6 && message.order_key == key, answer) {
            let class = failure.kind.policy().class;
            assert!(
                matches!(class, Class::NotAttempted | Class::Unavailable),
                "{failure:?}"
            );
        }
    }
}

/// Checks that the reader saw the messages of each key in the order of the batch.
async fn assert_order(bench: &Bench, batch: &[Message]) {
    let arrived = bench.until_arrived(batch).await;
    for message in batch {
        let of_key: Vec<_> = batch
            .iter()
            .filter(|other| other.order_key == message.order_key)
            .collect();
        let wanted: Vec<&str> = of_key.iter().map(|message| message.event_id.as_str()).collect();
        let got = first_arrivals(&arrived, |id| wanted.contains(&id));
        assert_eq!(got, wanted, "the order of {:?}", message.order_key);
    }
}
