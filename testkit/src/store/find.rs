//! Finding events: by filter, from either end, and by what their failures have in common.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{
    Act, ErrorKind, Event, EventRecord, Failure, Filter, Leaves, List, Park, Settled, Status, Timestamp, Verb,
};

use super::bench::Bench;
use super::words::{dead, decided, event, parks_as, refused, sent, to, waiting};

const HOUR: Duration = Duration::from_secs(3_600);

/// Whatever index a store goes by: a listing is what `Filter::matches` says of every event.
pub(super) async fn every_filter_finds_what_it_says(bench: Bench) {
    let all = variety(&bench).await;
    assert_eq!(all.len(), 9);
    let now = Timestamp(all.iter().map(|record| record.created_at.0).max().unwrap_or(0) + 60_000_000);
    for filter in filters(&all) {
        let meant: Vec<_> = all
            .iter()
            .filter(|record| {
                record
                    .routes
                    .iter()
                    .any(|route| filter.matches(record, route, now))
            })
            .map(|record| record.event_id.to_string())
            .collect();
        let mut found = listed(&bench, filter.clone(), 4, false).await;
        assert_eq!(found, meant, "{filter:?}");
        found.reverse();
        assert_eq!(
            listed(&bench, filter.clone(), 2, true).await,
            found,
            "newest first: {filter:?}"
        );
    }
}

pub(super) async fn newest_first_is_the_reverse(bench: Bench) {
    let events: Vec<_> = (0..10).map(|n| event(&format!("e{n}"), "k")).collect();
    let (relay, rows) = bench.queued(&events).await;
    for row in &rows[..6] {
        relay.settle_one(sent(row, &["d"])).await;
    }
    relay.settle_one(parks_as(&rows[6], vec![dead(Some("d"))])).await;
    for limit in [3, 10, 100] {
        let mut newest = listed(&bench, Filter::default(), limit, true).await;
        newest.reverse();
        assert_eq!(
            newest,
            listed(&bench, Filter::default(), limit, false).await,
            "{limit} a page"
        );
        assert_eq!(newest.len(), 10);
    }
}

pub(super) async fn failures_are_grouped_by_fingerprint(bench: Bench) {
    let failing = |text: &str| Park::dead(Some(to("d")), Failure::new(ErrorKind::Rejected, text));
    let parks = [
        (event("a", "a"), failing("no stock for order 17")),
        (event("b", "b"), failing("no stock for order 4711")),
        (event("c", "c"), failing("no such customer")),
        (
            event("e", "e"),
            Park {
                dead: false,
                ..failing("no stock for order 5")
            },
        ),
    ];
    bench.parked(&parks).await;
    let groups = bench.console().groups().await.expect("groups");
    let counts: Vec<_> = groups.iter().map(|group| (group.count, group.dead)).collect();
    assert_eq!(counts, [(3, 2), (1, 1)], "the most frequent first");
    assert!(groups[0].example.starts_with("no stock"), "{}", groups[0].example);
    assert!(groups[0].seen.0 <= groups[0].seen.1);
    let alike = Failure::new(ErrorKind::Rejected, "no stock for order 0");
    assert_eq!(groups[0].name, alike.group(Some(&to("d"))));
    let of_group = Filter {
        error_group: Some(groups[0].name.clone()),
        ..Filter::default()
    };
    assert_eq!(listed(&bench, of_group, 10, false).await, ["a", "b", "e"]);
}

/// Whoever throws a group away has looked at one line: its name means that line and nothing beside it.
pub(super) async fn a_group_is_of_one_destination_and_kind(bench: Bench) {
    let failing = |name: Option<&str>, kind| Park::dead(name.map(to), Failure::new(kind, "not wanted"));
    let parks = [
        (event("a", "a"), failing(Some("d"), ErrorKind::Rejected)),
        (event("b", "b"), failing(Some("e"), ErrorKind::Rejected)),
        (event("c", "c"), failing(Some("d"), ErrorKind::TooLarge)),
        (event("n", "n"), failing(None, ErrorKind::Rejected)),
        (event("z", "z"), failing(Some("d"), ErrorKind::Rejected)),
    ];
    bench.parked(&parks).await;
    let console = bench.console();
    let groups = console.groups().await.expect("groups");
    let names: BTreeSet<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((groups.len(), names.len()), (4, 4), "{groups:?}");
    for group in &groups {
        let discard = Act {
            verb: Verb::Discard("looked at".to_owned()),
            filter: Filter {
                error_group: Some(group.name.clone()),
                ..Filter::default()
            },
            dry_run: true,
            actor: "ann".to_owned(),
            limit: 100,
            from: None,
        };
        let would = console.act(discard).await.expect("counted");
        assert_eq!(would.touched, group.count, "{group:?}");
    }
}

/// A redriven row keeps its group until it fails in another way.
pub(super) async fn a_group_follows_the_last_failure(bench: Bench) {
    let (relay, _) = bench
        .parked(&[(event("a", "k"), refused("d", Duration::ZERO))])
        .await;
    let due = relay.due().await.remove(0);
    let other = Park {
        failure: Some(Failure::new(ErrorKind::AddressNotFound, "no such queue")),
        ..refused("d", HOUR)
    };
    let then = postrider_core::Then::Again(other);
    assert_eq!(relay.settle_parked(&due, then).await, Settled::Done);
    let groups = bench.console().groups().await.expect("groups");
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].error_kind, "address_not_found");
    let alike = Failure::new(ErrorKind::AddressNotFound, "no such queue");
    assert_eq!(groups[0].name, alike.group(Some(&to("d"))));
}

/// One event in every state, and some more.
async fn variety(bench: &Bench) -> Vec<EventRecord> {
    let typed = Event {
        event_type: "Other".to_owned(),
        key: Some("Key/With/Slashes".to_owned()),
        ..event("typed%_", "x")
    };
    let parks = [
        (event("dead", "k"), dead(Some("d"))),
        (event("waiting", "k"), waiting("d")),
        (event("retrying", "l"), refused("e", HOUR)),
        (event("unrouted", "m"), dead(None)),
        (typed, refused("d", HOUR)),
        (event("held", "n"), waiting("e")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    bench
        .commit(&[event("sent", "k"), event("thrown", "o"), event("queued", "k")])
        .await;
    let rows = relay.queued().await;
    let both = Leaves::Decided {
        sent: vec![(to("d"), Default::default())],
        parked: vec![waiting("e")],
    };
    let entries = vec![decided(&rows[0], both), parks_as(&rows[1], vec![dead(Some("d"))])];
    assert_eq!(relay.settle(entries, Vec::new()).await, [Settled::Done; 2]);
    let discard = crate::by_hand::act(postrider_core::Verb::Discard("no".into()), "thrown");
    assert_eq!(bench.console().act(discard).await.expect("discarded").touched, 1);
    let list = List::first(100, Filter::default());
    bench.console().list(list).await.expect("a listing").events
}

/// Each part alone, and each pair of parts: where planners choose.
fn filters(all: &[EventRecord]) -> Vec<Filter> {
    let routes = || all.iter().flat_map(|record| &record.routes);
    let mut parts = vec![Filter::default()];
    let mut part = |change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        parts.push(filter);
    };
    for status in routes().map(|route| route.status).collect::<BTreeSet<_>>() {
        part(&|filter| filter.status = vec![status, Status::Held]);
    }
    for text in ["typed%_", "TYPED", "k", "wanted", "d%d", "nobody", "slashes"] {
        part(&|filter| filter.text = Some(text.to_owned()));
    }
    for key in ["THING/k", "Key/With/Slashes", "nobody"] {
        part(&|filter| filter.key = vec![key.to_owned()]);
    }
    for name in ["d", "e", "nobody"] {
        part(&|filter| filter.destination = Some(to(name)));
    }
    for kind in ["rejected", "no_route"] {
        part(&|filter| filter.error_kind = Some(kind.to_owned()));
    }
    for (id, event_type) in [("sent", "Tested"), ("dead", "Other")] {
        part(&|filter| filter.event_id = vec![id.into()]);
        part(&|filter| filter.event_type = vec![event_type.to_owned()]);
    }
    let texts = |some: &[&str]| some.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    part(&|filter| filter.event_id = vec!["sent".into(), "nobody".into(), "dead".into()]);
    part(&|filter| filter.event_type = texts(&["Other", "Tested"]));
    part(&|filter| filter.key = texts(&["Key/With/Slashes", "THING/k"]));
    for age in [Duration::ZERO, HOUR] {
        part(&|filter| filter.failing_for = Some(age));
        part(&|filter| filter.newer_than = Some(HOUR + age));
        part(&|filter| filter.older_than = Some(age));
    }
    part(&|filter| filter.replay = Some("nobody".into()));
    let pairs: Vec<_> = parts
        .iter()
        .enumerate()
        .flat_map(|(n, one)| parts[n + 1..].iter().step_by(3).map(|other| joined(one, other)))
        .collect();
    parts.into_iter().chain(pairs).collect()
}

fn joined(one: &Filter, other: &Filter) -> Filter {
    let (one, other) = (one.clone(), other.clone());
    Filter {
        status: if one.status.is_empty() {
            other.status
        } else {
            one.status
        },
        event_id: either(one.event_id, other.event_id),
        event_type: either(one.event_type, other.event_type),
        key: either(one.key, other.key),
        destination: one.destination.or(other.destination),
        error_kind: one.error_kind.or(other.error_kind),
        error_group: one.error_group.or(other.error_group),
        text: one.text.or(other.text),
        replay: one.replay.or(other.replay),
        older_than: one.older_than.or(other.older_than),
        newer_than: one.newer_than.or(other.newer_than),
        failing_for: one.failing_for.or(other.failing_for),
    }
}

/// Ids of a whole listing, by pages. A store may answer a short page with a cursor, and even an empty one.
async fn listed(bench: &Bench, filter: Filter, limit: u32, newest_first: bool) -> Vec<String> {
    let mut list = List {
        newest_first,
        ..List::first(limit, filter)
    };
    let mut ids = Vec::new();
    for _ in 0..200 {
        let page = bench.console().list(list.clone()).await.expect("a listing");
        assert!(page.events.len() <= limit as usize);
        ids.extend(page.events.iter().map(|record| record.event_id.to_string()));
        list.from = page.next;
        if list.from.is_none() {
            return ids;
        }
    }
    panic!("the listing does not end");
}

fn either<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
    if one.is_empty() { other } else { one }
}
