//! Stalled events among many others: a page of a listing ends with its time, whatever is behind it.

use std::time::Duration;

use postrider_admin::{Level, Thresholds, judge, look};
use postrider_testkit::paged::Paged;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn an_empty_page_is_not_the_end() {
    let seen = look(&Paged::new(8), Duration::from_secs(60)).await.unwrap();
    assert_eq!((seen.stalled, seen.more_stalled), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_search_that_does_not_end_is_given_up_in_time_and_said() {
    let begun = Instant::now();
    let seen = look(&Paged::new(1_000), Duration::from_secs(60)).await.unwrap();
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(3),
        "a client waits no longer: {took:?}"
    );
    assert_eq!(seen.stalled_known(), None);
    let health = judge(Ok(&seen), &[], &[], &Thresholds::default());
    assert_eq!(
        (health.level, health.reasons[0].word),
        (Level::Degraded, "stalled"),
        "{health:?}"
    );
}
