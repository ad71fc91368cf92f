//! What one relay does for all, once a slot.

use std::time::Duration;

use postrider_core::{Claim, Duty, Filter, JobKind, PastDuty, RelayId, Restore, Timestamp};

use super::bench::{Bench, LONG, SHORT};
use super::job::begun;
use crate::wait::eventually;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_duty_is_done_once_a_slot(bench: Bench) {
    let (mine, theirs) = (duty("clean", "one", 1), duty("clean", "two", 1));
    assert_eq!(claim(&bench, &mine).await, Claim::Yours);
    assert_eq!(claim(&bench, &mine).await, Claim::Yours, "a renewal");
    assert_eq!(claim(&bench, &theirs).await, Claim::Held);
    assert_eq!(
        claim(&bench, &duty("other", "two", 1)).await,
        Claim::Yours,
        "another duty"
    );
    // Who has no claim ends nothing.
    finish(&bench, &theirs).await;
    assert_eq!(claim(&bench, &theirs).await, Claim::Held);
    finish(&bench, &mine).await;
    for done in [&mine, &theirs] {
        assert_eq!(claim(&bench, done).await, Claim::Done);
    }
    let next = duty("clean", "two", 2);
    assert_eq!(
        claim(&bench, &next).await,
        Claim::Yours,
        "the next slot is anyone's at once"
    );
    assert_eq!(claim(&bench, &mine).await, Claim::Done, "no slot comes back");
}

pub(super) async fn a_duty_of_the_dead_is_taken_over(bench: Bench) {
    let short = Duty {
        term: SHORT,
        ..duty("clean", "one", 1)
    };
    let heir = duty("clean", "two", 1);
    let asked = tokio::time::Instant::now();
    assert_eq!(claim(&bench, &short).await, Claim::Yours);
    let first = claim(&bench, &heir).await;
    assert!(first == Claim::Held || asked.elapsed() >= SHORT, "{first:?}");
    eventually("the claim ends", async || {
        (claim(&bench, &heir).await == Claim::Yours).then_some(())
    })
    .await;
    assert!(asked.elapsed() >= SHORT, "it was taken too early");
    assert_eq!(claim(&bench, &short).await, Claim::Held, "the dead one wakes up");
    finish(&bench, &short).await;
    assert_eq!(claim(&bench, &heir).await, Claim::Yours, "and ends nothing");
}

pub(super) async fn a_slot_ahead_of_the_database_is_early(bench: Bench) {
    let now = begun(&bench, JobKind::Restore(Restore::default()), Filter::default())
        .await
        .begun_at;
    let ahead = Duty {
        slot: Timestamp(now.0 + 3_600_000_000),
        ..duty("clean", "one", 1)
    };
    let Claim::Early(wait) = claim(&bench, &ahead).await else {
        panic!("the slot is an hour ahead");
    };
    assert!(wait > HOUR / 2 && wait <= HOUR, "{wait:?}");
    assert_eq!(claim(&bench, &duty("clean", "one", 1)).await, Claim::Yours);
}

pub(super) async fn duties_are_forgotten_by_prefix(bench: Bench) {
    let names = ["on_dead/a", "on_dead/b", "clean"];
    for name in names {
        let duty = duty(name, "one", 1);
        assert_eq!(claim(&bench, &duty).await, Claim::Yours);
        finish(&bench, &duty).await;
    }
    let upkeep = bench.upkeep();
    let mut seen = past(&bench).await;
    seen.retain(|duty| duty.name != "on_dead/b");
    assert_eq!(seen.len(), 1);
    assert_eq!(upkeep.forget_duties(seen).await.expect("forgotten"), 1);
    let again = async |name| claim(&bench, &duty(name, "one", 1)).await;
    assert_eq!(again("on_dead/a").await, Claim::Yours, "it may be done again");
    assert_eq!(again("on_dead/b").await, Claim::Done);
    assert_eq!(again("clean").await, Claim::Done);
}

/// What others did since somebody looked is not undone by what he saw.
pub(super) async fn a_duty_done_since_is_not_forgotten(bench: Bench) {
    let first = duty("on_dead/a", "one", 1);
    assert_eq!(claim(&bench, &first).await, Claim::Yours);
    assert!(past(&bench).await.is_empty(), "somebody is at it");
    finish(&bench, &first).await;
    let seen = past(&bench).await;
    assert_eq!(seen.len(), 1);
    let new = duty("on_dead/b", "two", 1);
    assert_eq!(claim(&bench, &new).await, Claim::Yours);
    finish(&bench, &new).await;
    let renewed = duty("on_dead/a", "two", 2);
    assert_eq!(claim(&bench, &renewed).await, Claim::Yours);
    let forgotten = bench.upkeep().forget_duties(seen).await;
    assert_eq!(forgotten.expect("forgotten"), 0);
    assert_eq!(claim(&bench, &new).await, Claim::Done);
    assert_eq!(claim(&bench, &duty("on_dead/a", "one", 2)).await, Claim::Held);
}

async fn past(bench: &Bench) -> Vec<PastDuty> {
    let past = bench.upkeep().past_duties("on_dead/".to_owned()).await;
    past.expect("looked at")
}

/// A duty whose slots have long come.
fn duty(name: &str, holder: &str, slot: i64) -> Duty {
    Duty {
        name: name.to_owned(),
        holder: RelayId(holder.into()),
        term: LONG,
        slot: Timestamp(slot * 1_000_000),
    }
}

async fn claim(bench: &Bench, duty: &Duty) -> Claim {
    bench
        .upkeep()
        .claim(duty.clone())
        .await
        .expect("a claim is answered")
}

async fn finish(bench: &Bench, duty: &Duty) {
    let upkeep = bench.upkeep();
    let finished = upkeep.finish(duty.clone(), "nothing to say".to_owned()).await;
    finished.expect("written down");
}
