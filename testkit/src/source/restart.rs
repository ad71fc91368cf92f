//! The broker goes away and comes back while a consumer works.

use std::collections::BTreeSet;

use postrider_core::Verdict;

use super::bench::{Bench, ids};

/// Messages of the load.
const MESSAGES: usize = 300;

pub(super) async fn a_restart_at_one_third_loses_nothing(bench: Bench) {
    restart_at(&bench, MESSAGES / 3).await;
}

pub(super) async fn a_restart_at_one_half_loses_nothing(bench: Bench) {
    restart_at(&bench, MESSAGES / 2).await;
}

/// Consumes a load, with the broker stopped and started while deliveries have no verdict. What a consumer is done with
/// may come again if the broker did not hear of it; what it is not done with must.
async fn restart_at(bench: &Bench, done_before: usize) {
    let wanted = bench.filled(MESSAGES).await;
    let source = bench.open().await;
    let mut done = Vec::new();
    let mut restarted = false;
    while done.iter().collect::<BTreeSet<_>>().len() < MESSAGES {
        let received = bench.receive(&source, 20).await;
        if done.len() >= done_before && !restarted {
            restarted = true;
            bench.queue.stop().await;
            bench.queue.start().await;
        }
        let verdicts = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
        // An answer that does not come leaves the messages with the broker: they are delivered again.
        if source.settle(verdicts).await.is_ok() {
            done.extend(ids(&received));
        }
    }
    assert!(restarted);
    let mut seen = BTreeSet::new();
    let firsts: Vec<String> = done.into_iter().filter(|id| seen.insert(id.clone())).collect();
    assert_eq!(firsts.len(), wanted.len(), "nothing lost, nothing made up");
    source.close().await;
}
