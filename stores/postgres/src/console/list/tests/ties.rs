//! Events that share a place.

use super::*;

/// A sequence that was set back gives places out again: two events have one place, and either may be the last of a page
/// or of a look. Of each pair one half is parked, or both are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_one_place_are_all_listed() {
    let outbox = Outbox::new().await;
    let first_look = WORDED / 10;
    outbox.publish("SELECT n, 'k' || n, 'T' FROM generate_series(1, 60) n", 0);
    outbox.publish("SELECT n, 'k' || n, 'T' FROM generate_series(1, 30) n", 1);
    outbox.sql(
        "UPDATE outbox_sent SET event_id = 'again' || seq WHERE published_at < now() - interval '12 hours'",
    );
    outbox.park("SELECT n, 'd', 'k' || n, interval '0' FROM generate_series(31, 60) n");
    outbox.sql("UPDATE outbox_parked SET event_id = 'again' || seq");
    // One event a place, behind those: pages and looks are longer than a tie.
    outbox.park(&format!(
        "SELECT n, 'd', 'k' || n, interval '0' FROM generate_series(61, {first_look} + 61) n"
    ));
    let every_second: Vec<u128> = (1..=60).flat_map(|place| [place, place]).collect();
    let filter = Filter {
        newer_than: Some(Duration::from_secs(86_400)),
        text: Some("k".to_owned()),
        ..Filter::default()
    };
    for (filter, most) in [
        (Filter::default(), u128::MAX),
        (filter, u128::MAX),
        (with(Status::Published), 30),
    ] {
        for newest_first in [false, true] {
            for patience in [Duration::from_secs(60), Duration::ZERO] {
                let (mut places, _) = outbox.places(filter.clone(), newest_first, patience).await;
                places.sort_unstable();
                places.retain(|place| *place <= most.min(60));
                let wanted = every_second.iter().copied().filter(|place| *place <= most);
                assert_eq!(
                    places,
                    wanted.collect::<Vec<_>>(),
                    "{filter:?}, newest first: {newest_first}"
                );
            }
        }
    }
}
