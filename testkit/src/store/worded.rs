//! The words that people see of parked rows. Stores write the rule down several times: a view for one event, counts
//! from indexes, filters. All of them have to say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{
    Act, Control, DestinationName, EventId, Filter, Lane, List, OrderKey, Park, QueuedRow, Scope,
    SettleQueued, Settled, Status, Verb,
};

use super::bench::Bench;
use super::job::ANN;
use super::words::{dead, event, event_in, parks_as, refusal, refused, to, waiting};
use crate::by_hand;

const HOUR: Duration = Duration::from_secs(3_600);

/// All that the word of a parked row hangs on.
#[derive(Clone, Copy, Debug)]
struct Row {
    number: u8,
    dead: bool,
    failed: bool,
    key_paused: bool,
    behind_another: bool,
    behind_one_without_destination: bool,
    later: bool,
    alone: bool,
}

impl Row {
    fn every() -> impl Iterator<Item = Row> {
        (0..128).map(|number: u8| {
            let is = |bit: u8| number >> bit & 1 == 1;
            Row {
                number,
                dead: is(0),
                failed: is(1),
                key_paused: is(2),
                behind_another: is(3),
                behind_one_without_destination: is(4),
                later: is(5),
                alone: is(6),
            }
        })
    }

    /// Each has a key of its own, and those that stand before it.
    fn key(self) -> String {
        format!("k{}", self.number)
    }

    fn id(self) -> String {
        format!("row-{self:?}")
    }

    fn park(self) -> Park {
        Park {
            dead: self.dead,
            next_attempt_in: if self.later { HOUR } else { Duration::ZERO },
            failures: u32::from(self.failed),
            failure: self.failed.then(refusal),
            ..waiting("d")
        }
    }

    /// The rule. A row that stands alone has left the line of its key.
    fn word(self) -> Status {
        let is_behind = self.behind_another || self.behind_one_without_destination;
        match self {
            Row { dead: true, .. } => Status::DeadLetter,
            Row { failed: true, .. } => Status::Retrying,
            Row {
                key_paused: true,
                alone: false,
                ..
            } => Status::Held,
            Row { alone: false, .. } if is_behind => Status::Waiting,
            Row { later: true, .. } => Status::Scheduled,
            Row { .. } => Status::Held,
        }
    }

    /// Who stands first in its line, if it is another.
    fn head(self) -> Option<(String, Option<DestinationName>, Status)> {
        let first = match self {
            Row { alone: true, .. } => return None,
            Row {
                behind_one_without_destination: true,
                ..
            } => (format!("none-{}", self.number), None, Status::DeadLetter),
            Row {
                behind_another: true, ..
            } => (format!("head-{}", self.number), Some(to("d")), Status::Retrying),
            Row { .. } => return None,
        };
        Some(first)
    }
}

type Words = BTreeMap<EventId, (Status, bool)>;

/// Parks a row of every kind, and whatever stands before it; answers the word of each and whether it stands alone.
async fn every_kind(bench: &Bench) -> Words {
    let (mut events, mut parks, mut words) = (Vec::new(), Vec::new(), Words::new());
    for row in Row::every() {
        let mut put = |id: String, park: Park, word: Status, alone: bool| {
            words.insert(id.as_str().into(), (word, alone));
            events.push(event(&id, &row.key()));
            parks.push((park, alone));
        };
        if row.behind_one_without_destination {
            let id = format!("none-{}", row.number);
            put(id, dead(None), Status::DeadLetter, false);
        }
        if row.behind_another {
            let id = format!("head-{}", row.number);
            put(id, refused("d", HOUR), Status::Retrying, false);
        }
        put(row.id(), row.park(), row.word(), row.alone);
    }
    let (relay, rows) = bench.queued(&events).await;
    let entries: Vec<_> = rows.iter().zip(parks).map(settled).collect();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; rows.len()]
    );
    for row in Row::every().filter(|row| row.key_paused) {
        let key = Scope::Key(format!("THING/{}", row.key()));
        let paused = bench.console().control(Control::Pause(key), ANN.to_owned()).await;
        paused.expect("paused");
    }
    words
}

fn settled((row, (park, alone)): (&QueuedRow, (Park, bool))) -> SettleQueued {
    let entry = parks_as(row, vec![park]);
    match alone {
        true => SettleQueued {
            key: OrderKey::alone(row.seq),
            ..entry
        },
        false => entry,
    }
}

pub(super) async fn every_word_is_the_same_everywhere(bench: Bench) {
    let words = every_kind(&bench).await;
    let console = bench.console();
    let all = listed(&bench, Vec::new()).await;
    assert_eq!(all.len(), words.len());
    for (id, (word, _)) in &words {
        assert_eq!(all[id], *word, "in a listing: {id}");
        let shown = console.show(id.clone()).await.expect("shown").remove(0);
        assert_eq!(shown.status(), *word, "alone: {id}");
    }
    let stats = console.stats().await.expect("stats");
    for status in [
        Status::DeadLetter,
        Status::Retrying,
        Status::Held,
        Status::Waiting,
        Status::Scheduled,
    ] {
        let wanted: BTreeSet<&EventId> = of(&words, |word, _| word == status);
        let found = listed(&bench, vec![status]).await;
        assert_eq!(found.keys().collect::<BTreeSet<_>>(), wanted, "{status:?}");
        let counted = match status {
            Status::DeadLetter => stats.dead,
            status => stats.parked_as(status),
        };
        assert_eq!(counted, wanted.len() as u64, "counted: {status:?}");
    }
    for verb in [Verb::Redrive, Verb::Discard("old".into()), Verb::Move(HOUR)] {
        let suits = of(&words, |word, alone| verb.suits(word, alone));
        let dry = Act {
            verb: verb.clone(),
            filter: Filter::default(),
            dry_run: true,
            actor: ANN.to_owned(),
            limit: 10_000,
            from: None,
        };
        let chunk = console.act(dry).await.expect("counted");
        assert_eq!(chunk.touched, suits.len() as u64, "{verb:?}");
        let said: BTreeMap<_, _> = chunk.refused.into_iter().collect();
        let others = words.iter().filter(|(id, _)| !suits.contains(id));
        let others: BTreeMap<_, _> = others.map(|(id, (word, _))| (id.clone(), *word)).collect();
        assert_eq!(said, others, "{verb:?}");
    }
    counted_one_by_one(&bench, words).await;
}

/// Also of one that is refused or dead, was redriven, or is held as well: it is not tried before the head has left.
pub(super) async fn every_row_behind_another_names_the_head(bench: Bench) {
    every_kind(&bench).await;
    let console = bench.console();
    let named = async |id: String| {
        let shown = console.show(id.as_str().into()).await.expect("shown").remove(0);
        let head = shown.routes[0].behind.clone();
        head.map(|head| (head.event_id.to_string(), head.destination, head.status))
    };
    for row in Row::every() {
        assert_eq!(named(row.id()).await, row.head(), "{row:?}");
        let redriven = console.act(by_hand::act(Verb::Redrive, &row.id())).await;
        redriven.expect("an act");
        assert_eq!(named(row.id()).await, row.head(), "redriven or not: {row:?}");
        if row.behind_one_without_destination {
            let first = format!("none-{}", row.number);
            assert_eq!(named(first).await, None, "the first itself: {row:?}");
        }
    }
    let listed = console.list(List::first(10_000, Filter::default())).await;
    let mut routes = listed.expect("a page").events.into_iter();
    let told = routes.any(|record| record.routes.iter().any(|route| route.behind.is_some()));
    assert!(!told, "a listing is short");
}

/// Rows of the same key in another lane, at another destination or of a replay are nobody's head.
pub(super) async fn other_lines_of_a_key_have_heads_of_their_own(bench: Bench) {
    let parked = [
        (event("dead", "k"), dead(Some("d"))),
        (event_in("low", "k", Lane::Low), refused("d", HOUR)),
        (event("elsewhere", "k"), refused("e", HOUR)),
        (event("third", "k"), refused("d", HOUR)),
        (event("fourth", "k"), refused("d", HOUR)),
    ];
    let (relay, rows) = bench.queued(&parked.clone().map(|(event, _)| event)).await;
    let parks: BTreeMap<EventId, Park> = parked.map(|(event, park)| (event.id, park)).into();
    let entries = rows
        .iter()
        .map(|row| parks_as(row, vec![parks[&row.event_id].clone()]));
    let settled = relay.settle(entries.collect(), Vec::new()).await;
    assert_eq!(settled, vec![Settled::Done; rows.len()]);
    for (id, head) in [
        ("dead", None),
        ("low", None),
        ("elsewhere", None),
        ("third", Some("dead")),
        ("fourth", Some("dead")),
    ] {
        let shown = bench.console().show(id.into()).await.expect("shown").remove(0);
        let named = shown.routes[0].behind.as_ref();
        assert_eq!(named.map(|head| head.event_id.as_str()), head, "{id}");
    }
}

/// There are as many of one kind as of another, so counts that are mixed up may add up. Nobody stands behind these.
async fn counted_one_by_one(bench: &Bench, mut words: Words) {
    for row in Row::every() {
        let discard = by_hand::act(Verb::Discard("old".into()), &row.id());
        let gone = bench.console().act(discard).await.expect("an act");
        assert_eq!(gone.touched, 1, "{row:?}");
        words.remove(&EventId::from(row.id().as_str()));
        let mut left: BTreeMap<&str, u64> = BTreeMap::new();
        for (word, _) in words.values() {
            *left.entry(word.as_str()).or_default() += 1;
        }
        let dead = left.remove(Status::DeadLetter.as_str()).unwrap_or(0);
        let mut stats = bench.console().stats().await.expect("stats");
        stats.parked.retain(|_, rows| *rows > 0);
        assert_eq!((stats.dead, stats.parked), (dead, left), "without {row:?}");
    }
}

fn of(words: &Words, is_meant: impl Fn(Status, bool) -> bool) -> BTreeSet<&EventId> {
    let meant = words.iter().filter(|(_, (word, alone))| is_meant(*word, *alone));
    meant.map(|(id, _)| id).collect()
}

/// What a listing says of the events that are in one of these states, by pages.
async fn listed(bench: &Bench, status: Vec<Status>) -> BTreeMap<EventId, Status> {
    let filter = Filter {
        status,
        ..Filter::default()
    };
    let mut next = Some(List::first(100, filter));
    let mut found = BTreeMap::new();
    while let Some(list) = next.take() {
        let page = bench.console().list(list.clone()).await.expect("a page");
        found.extend(
            page.events
                .iter()
                .map(|record| (record.event_id.clone(), record.status())),
        );
        next = page.next.map(|from| List {
            from: Some(from),
            ..list
        });
    }
    found
}
