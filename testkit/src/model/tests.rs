//! What only a model can show: places given out before commits, and the same answers at every run. Everything else of
//! the contract is in the conformance suite, which the model passes like any other store.

use std::time::Duration;

use postrider_core::{
    Event, Heartbeat, Kept, Lane, Leaves, Purge, Range, Read, Receipt, RelayId, Seq, Settle, SettleQueued,
    Settled, Shard,
};

use super::{InsertError, Model, TxId};

const NOW: Duration = Duration::from_secs(1_000);

fn event(id: &str, key: &str) -> Event {
    Event::builder("Tested")
        .id(id)
        .key(key)
        .json("{}")
        .build()
        .unwrap()
}

fn everything(model: &Model) -> Read {
    let ranges = (0..model.shards())
        .flat_map(|shard| Lane::ALL.map(|lane| (Shard(shard), lane)))
        .map(|(shard, lane)| Range {
            shard,
            lane,
            floor: Seq(0),
            skip: Vec::new(),
            limit: 100,
        });
    Read {
        ranges: ranges.collect(),
        max_bytes: usize::MAX,
        ..Read::default()
    }
}

fn ids(model: &Model) -> Vec<String> {
    let mut rows = model.read(NOW, &everything(model)).queued;
    rows.sort_by_key(|row| row.seq);
    rows.iter().map(|row| row.event_id.to_string()).collect()
}

fn beat(relay: &str) -> Heartbeat {
    Heartbeat {
        relay: RelayId(relay.into()),
        term: Duration::from_secs(10),
        held: Vec::new(),
        release: Vec::new(),
        claim: true,
        window: 8,
        suspects: Vec::new(),
    }
}

#[test]
fn places_are_given_out_at_the_insert_and_the_horizon_waits_for_the_oldest_writer() {
    let mut model = Model::new(4);
    let (slow, quick) = (model.begin(), model.begin());
    assert_eq!(
        model.horizon(),
        Seq(0),
        "a transaction without rows holds nothing"
    );
    assert_eq!(model.insert(NOW, slow, event("a", "k")), Ok(Seq(1)));
    assert_eq!(model.insert(NOW, quick, event("b", "k")), Ok(Seq(2)));
    assert!(model.commit(quick));
    assert_eq!(ids(&model), ["b"]);
    assert_eq!(model.horizon(), Seq(0));
    assert!(model.commit(slow));
    assert_eq!(ids(&model), ["a", "b"]);
    assert_eq!(model.horizon(), Seq(2));
    assert!(!model.commit(slow), "a transaction ends once");
}

#[test]
fn a_rolled_back_row_leaves_its_place_empty_and_its_id_free() {
    let mut model = Model::new(1);
    let tx = model.begin();
    model.insert(NOW, tx, event("a", "k")).unwrap();
    let other = model.begin();
    let twice = model.insert(NOW, other, event("a", "k"));
    assert_eq!(twice, Err(InsertError::DuplicateId("a".into())));
    assert!(model.rollback(tx));
    assert_eq!(model.horizon(), Seq(1));
    assert_eq!(model.insert(NOW, other, event("a", "k")), Ok(Seq(2)));
    assert_eq!(
        model.insert(NOW, TxId(99), event("c", "k")),
        Err(InsertError::NoTransaction(TxId(99)))
    );
}

#[test]
#[should_panic(expected = "it would be lost")]
fn a_settle_that_sends_a_row_nowhere_ends_the_run() {
    let mut model = Model::new(1);
    let tx = model.begin();
    let seq = model.insert(NOW, tx, event("a", "k")).unwrap();
    model.commit(tx);
    let lease = model.heartbeat(NOW, &beat("r")).leases.remove(0);
    model.settle(
        NOW,
        &Settle {
            fence: vec![(lease.shard, lease.token)],
            queued: vec![SettleQueued {
                shard: lease.shard,
                seq,
                event_id: "a".into(),
                key: "k".into(),
                leaves: Leaves::Decided {
                    sent: Vec::new(),
                    parked: Vec::new(),
                },
            }],
            parked: Vec::new(),
        },
    );
}

#[test]
fn a_relay_that_stops_does_not_keep_shards_from_the_others() {
    let mut model = Model::new(4);
    let first = model.heartbeat(NOW, &beat("one"));
    assert_eq!(first.leases.len(), 4);
    assert_eq!(model.heartbeat(NOW, &beat("two")).share, 2);
    let stop = Heartbeat {
        claim: false,
        release: first
            .leases
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect(),
        ..beat("one")
    };
    assert!(model.heartbeat(NOW, &stop).leases.is_empty());
    let second = model.heartbeat(NOW, &beat("two"));
    assert_eq!((second.share, second.leases.len()), (4, 4));
    assert_eq!(model.relays().count(), 1);
}

#[test]
fn history_is_kept_in_the_order_of_publication_and_purged_from_the_oldest() {
    let mut model = Model::new(1);
    let lease = model.heartbeat(NOW, &beat("r")).leases.remove(0);
    for (id, after) in [("a", 0), ("b", 10)] {
        let tx = model.begin();
        let seq = model.insert(NOW, tx, event(id, "k")).unwrap();
        model.commit(tx);
        let settled = model.settle(
            NOW + Duration::from_secs(after),
            &Settle {
                fence: vec![(lease.shard, lease.token)],
                queued: vec![SettleQueued {
                    shard: lease.shard,
                    seq,
                    event_id: id.into(),
                    key: "k".into(),
                    leaves: Leaves::Decided {
                        sent: vec![("d".into(), Receipt::default())],
                        parked: Vec::new(),
                    },
                }],
                parked: Vec::new(),
            },
        );
        assert_eq!(settled, [Settled::Done]);
    }
    let sent = |model: &Model| -> Vec<String> {
        model
            .sent_to(&"d".into())
            .map(|r| r.row.event_id().to_string())
            .collect()
    };
    assert_eq!(sent(&model), ["a", "b"]);
    let old = Purge::of(Kept::History, Duration::from_secs(10), 100);
    let purged = model.purge(NOW + Duration::from_secs(15), &old);
    assert_eq!(purged.rows, 1);
    assert_eq!(sent(&model), ["b"]);
    assert_eq!(model.counters().sent, 2, "counters survive a purge");
}
