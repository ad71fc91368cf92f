//! Heads and followers: who goes first among the parked rows of a key, lane and destination.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Event, Lane, Park, ParkedRow, Receipt, Settled, Then};

use super::bench::{Bench, Relay};
use super::words::{dead, event, event_in, names, pairs, parks_as, refused, to, waiting};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn only_heads_are_due_and_followers_are_counted(bench: Bench) {
    let (relay, _) = bench.parked(&line("k", 5, "d")).await;
    assert_eq!(
        relay.due_names().await,
        pairs(&[("k0", "d")]),
        "only the head is due"
    );
    assert_eq!(
        with_followers(&relay, 2).await,
        pairs(&[("k0", "d"), ("k1", "d"), ("k2", "d")])
    );
    assert_eq!(with_followers(&relay, 100).await.len(), 5);
    let head = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&head, Then::Sent(Receipt::default())).await,
        Settled::Done
    );
    assert_eq!(
        relay.due_names().await,
        pairs(&[("k1", "d")]),
        "the next is the head then"
    );
}

pub(super) async fn a_dead_head_holds_its_key(bench: Bench) {
    let mut parks = line("k", 3, "d");
    parks[0].1 = dead(Some("d"));
    parks.extend(line("l", 1, "d"));
    let (relay, _) = bench.parked(&parks).await;
    assert_eq!(
        relay.due_names().await,
        pairs(&[("l0", "d")]),
        "its own key and no other"
    );
}

pub(super) async fn skipped_dead_rows_are_passed_over(bench: Bench) {
    let mut parks = line("k", 4, "d");
    parks[0].1 = dead(Some("d"));
    parks[2].1 = dead(Some("d"));
    parks.push((event("m0", "m"), dead(Some("e"))));
    parks.push((event("m1", "m"), waiting("e")));
    let (relay, _) = bench.parked(&parks).await;
    let mut read = relay.everything();
    read.skip_dead = vec![to("d")];
    read.parked.followers = 10;
    assert_eq!(relay.due_names_of(read).await, pairs(&[("k1", "d"), ("k3", "d")]));
}

pub(super) async fn a_dead_follower_holds_those_behind_it(bench: Bench) {
    let mut parks = line("k", 4, "d");
    parks[2].1 = dead(Some("d"));
    let (relay, _) = bench.parked(&parks).await;
    assert_eq!(
        with_followers(&relay, 10).await,
        pairs(&[("k0", "d"), ("k1", "d")])
    );
}

pub(super) async fn a_follower_whose_time_has_not_come_holds_those_behind_it(bench: Bench) {
    let mut parks = line("k", 4, "d");
    parks[2].1 = refused("d", HOUR);
    let (relay, _) = bench.parked(&parks).await;
    assert_eq!(
        with_followers(&relay, 10).await,
        pairs(&[("k0", "d"), ("k1", "d")])
    );
}

pub(super) async fn destinations_do_not_wait_for_each_other(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    let entries = vec![
        parks_as(&rows[0], vec![refused("d", HOUR), waiting("e")]),
        parks_as(&rows[1], vec![waiting("d"), waiting("f")]),
    ];
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        [Settled::Done, Settled::Done]
    );
    assert_eq!(relay.due_names().await, pairs(&[("a", "e"), ("b", "f")]));
}

pub(super) async fn lanes_do_not_wait_for_each_other(bench: Bench) {
    let parks = [
        (event("normal", "k"), refused("d", HOUR)),
        (event_in("high", "k", Lane::High), waiting("d")),
        (event_in("low", "k", Lane::Low), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    assert_eq!(relay.due_names().await, pairs(&[("high", "d"), ("low", "d")]));
}

pub(super) async fn busy_rows_keep_their_line_out(bench: Bench) {
    let mut parks = line("k", 3, "d");
    parks.push((event("other", "k"), waiting("e")));
    parks.extend(line("l", 1, "d"));
    let (relay, rows) = bench.parked(&parks).await;
    // The head is in flight; then a follower that was read with it.
    for busy in [rows[0].seq, rows[1].seq] {
        let mut read = relay.everything();
        read.parked.followers = 10;
        read.parked.busy = vec![(busy, Some(to("d")))];
        assert_eq!(
            relay.due_names_of(read).await,
            pairs(&[("other", "e"), ("l0", "d")])
        );
    }
}

pub(super) async fn rows_without_a_destination_hold_later_ones_only(bench: Bench) {
    let mut parks = line("k", 4, "d");
    parks[2].1 = dead(None);
    parks.push((event("e", "k"), waiting("e")));
    parks.extend(line("l", 1, "d"));
    let (relay, _) = bench.parked(&parks).await;
    // It holds its key at every destination, those that never saw its key included.
    let wanted = [("k0", "d"), ("k1", "d"), ("l0", "d")];
    assert_eq!(with_followers(&relay, 10).await, pairs(&wanted));
}

pub(super) async fn rows_without_a_destination_are_due_among_themselves(bench: Bench) {
    let unrouted = || Park {
        destination: None,
        ..refused("d", Duration::ZERO)
    };
    let parks = [
        (event("held", "k"), refused("d", HOUR)),
        (event("a", "k"), unrouted()),
        (event("b", "k"), unrouted()),
    ];
    let (relay, _) = bench.parked(&parks).await;
    assert_eq!(relay.due_names().await, pairs(&[("a", "-")]));
    assert_eq!(with_followers(&relay, 10).await, pairs(&[("a", "-"), ("b", "-")]));
}

/// Rows of one key that wait for one destination: k0, k1, …
fn line(key: &str, count: usize, destination: &str) -> Vec<(Event, Park)> {
    let name = |n| format!("{key}{n}");
    (0..count)
        .map(|n| (event(&name(n), key), waiting(destination)))
        .collect()
}

/// What is due with at most this many followers, exactly as the page orders it: each head, then those behind it.
async fn with_followers(relay: &Relay, followers: u32) -> Vec<(String, String)> {
    let mut read = relay.everything();
    read.parked.followers = followers;
    let rows = relay.read(read).await.parked;
    let mut previous: Option<&ParkedRow> = None;
    let mut lines = BTreeSet::new();
    for row in &rows {
        let line = (row.row.key.clone(), row.row.lane, row.destination.clone());
        let continues =
            previous.is_some_and(|p| (&p.row.key, p.row.lane, &p.destination) == (&line.0, line.1, &line.2));
        if continues {
            assert!(
                previous.is_some_and(|p| p.row.seq < row.row.seq),
                "a line is in order"
            );
        } else {
            assert!(lines.insert(line), "a line comes in one piece");
        }
        previous = Some(row);
    }
    let mut sorted = rows;
    sorted.sort_by_key(|row| (row.row.seq, row.destination.clone()));
    names(&sorted)
}
