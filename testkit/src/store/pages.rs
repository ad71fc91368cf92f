//! Small pages of events with several destinations: what a cursor must not cut apart, skip or repeat.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Edit, Filter, Leaves, List, Park, Payload, Settled, Status, Verb};

use super::bench::Bench;
use super::words::{dead, decided, event, refused, to, waiting};
use crate::by_hand;

const HOUR: Duration = Duration::from_secs(3_600);

/// How often each kind of event is there: more often than a page has room.
const ROUNDS: usize = 4;

/// Destinations of one event.
const WIDE: usize = 1_200;

/// An event, and the states in which it is at one of its destinations or another.
type Stands = (String, Vec<Status>);

/// Whatever the state that is asked for and however small the pages: each event that is in it anywhere is in one page,
/// no page ends where it or another began, and there are not many more pages than events.
pub(super) async fn pages_of_any_state_give_every_event_once_and_come_further(bench: Bench) {
    let all = several_each(&bench).await;
    let states = [
        Status::Pending,
        Status::Retrying,
        Status::Waiting,
        Status::Held,
        Status::Scheduled,
        Status::DeadLetter,
        Status::Published,
        Status::Discarded,
    ];
    for status in states {
        let meant = all.iter().filter(|(_, stands)| stands.contains(&status));
        let meant: Vec<&str> = meant.map(|(id, _)| id.as_str()).collect();
        assert!(meant.len() >= ROUNDS, "{status:?}: {meant:?}");
        follow(&bench, with(vec![status]), &meant).await;
    }
    let meant: Vec<&str> = all.iter().map(|(id, _)| id.as_str()).collect();
    follow(&bench, Filter::default(), &meant).await;
}

/// There are more of them than any store looks at in one go, and one is in another state than the rest, wherever it
/// stands among them.
pub(super) async fn an_event_of_many_destinations_is_found_by_any_of_them(bench: Bench) {
    let places = ["a", "n", "z"];
    let events: Vec<_> = places.iter().map(|id| event(id, id)).collect();
    let (relay, rows) = bench.queued(&events).await;
    let wide = rows.iter().zip(places).map(|(row, dead_at)| {
        let held = (0..WIDE).map(|number| waiting(&format!("m{number}")));
        let parked = held.chain([dead(Some(dead_at))]).collect();
        let sent = Vec::new();
        decided(row, Leaves::Decided { sent, parked })
    });
    let settled = relay.settle(wide.collect(), Vec::new()).await;
    assert_eq!(settled, [Settled::Done; 3]);
    follow(&bench, with(vec![Status::DeadLetter]), &places).await;
    for id in places {
        let filter = Filter {
            destination: Some(to(id)),
            ..Filter::default()
        };
        follow(&bench, filter, &[id]).await;
        let edit = Edit {
            event_id: id.into(),
            destination: Some(to(id)),
            payload: Payload::Text("{}".to_owned()),
            content_type: None,
            dry_run: false,
            actor: "ann".to_owned(),
        };
        let edited = bench.console().edit(edit).await.expect("an answer");
        assert_eq!((edited.touched, edited.refused), (1, Vec::new()), "{id}");
    }
}

fn with(status: Vec<Status>) -> Filter {
    Filter {
        status,
        ..Filter::default()
    }
}

/// Goes through all pages from either end.
async fn follow(bench: &Bench, filter: Filter, meant: &[&str]) {
    for (limit, newest_first) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut list = List {
            newest_first,
            ..List::first(limit, filter.clone())
        };
        let (mut found, mut cursors) = (Vec::new(), BTreeSet::new());
        loop {
            let page = bench.console().list(list.clone()).await.expect("a page");
            assert!(page.events.len() <= limit as usize);
            found.extend(page.events.iter().map(|record| record.event_id.to_string()));
            list.from = page.next;
            let Some(next) = &list.from else { break };
            let is_new = cursors.insert(next.0.clone());
            assert!(is_new, "{filter:?}, {limit} a page: {} again", next.0);
            assert!(cursors.len() < 100, "{filter:?}, {limit} a page: {cursors:?}");
        }
        if newest_first {
            found.reverse();
        }
        assert_eq!(
            found, meant,
            "{filter:?}, {limit} a page, newest first: {newest_first}"
        );
    }
}

/// Events of three destinations in every state, several times over, in the order of their places.
async fn several_each(bench: &Bench) -> Vec<Stands> {
    let later = Park {
        next_attempt_in: HOUR,
        ..waiting("e")
    };
    let kinds = [
        ("sent", vec!["d", "e", "f"], vec![], vec![Status::Published]),
        (
            "refused",
            vec!["d", "e"],
            vec![refused("f", HOUR)],
            vec![Status::Published, Status::Retrying],
        ),
        // Of the key of the one before.
        (
            "behind",
            vec![],
            vec![waiting("d"), later, waiting("f")],
            vec![Status::Held, Status::Scheduled, Status::Waiting],
        ),
        (
            "dead",
            vec!["d"],
            vec![dead(Some("e")), refused("f", HOUR)],
            vec![Status::Published, Status::DeadLetter, Status::Retrying],
        ),
        (
            "thrown",
            vec![],
            vec![dead(Some("d")), dead(Some("e")), waiting("f")],
            vec![Status::Discarded, Status::DeadLetter, Status::Held],
        ),
        ("queued", vec![], vec![], vec![Status::Pending]),
    ];
    let (mut events, mut leaves, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (kind, sent, parked, states) in &kinds {
            let id = format!("{kind}-{round}");
            let key = match *kind {
                "behind" => format!("refused-{round}"),
                _ => id.clone(),
            };
            events.push(event(&id, &key));
            leaves.push(Leaves::Decided {
                sent: sent.iter().map(|name| (to(name), Default::default())).collect(),
                parked: parked.clone(),
            });
            all.push((id, states.clone()));
        }
    }
    let (relay, rows) = bench.queued(&events).await;
    let settled = rows.iter().zip(leaves);
    let settled = settled.filter(|(row, _)| !row.event_id.as_str().starts_with("queued"));
    let entries: Vec<_> = settled.map(|(row, leaves)| decided(row, leaves)).collect();
    let count = entries.len();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; count]
    );
    for round in 0..ROUNDS {
        let mut discard = by_hand::act(Verb::Discard("no".into()), &format!("thrown-{round}"));
        discard.filter.destination = Some(to("d"));
        let gone = bench.console().act(discard).await.expect("discarded");
        assert_eq!(gone.touched, 1);
    }
    all
}
