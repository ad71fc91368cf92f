//! Events that were in a lost call go alone, and nobody waits for those that are gone.

use std::time::Duration;

use postrider_core::{Heartbeat, RelayId, Shard};
use postrider_relay::engine::Fact;
use postrider_testkit::model::Model;

use crate::desk::{Desk, LEASE, enqueue, is_beat, key_of};

/// Another relay asks for its share.
fn joins(model: &mut Model, now: Duration) {
    model.heartbeat(
        now,
        &Heartbeat {
            relay: RelayId("other".into()),
            term: 10 * LEASE,
            held: Vec::new(),
            release: Vec::new(),
            claim: true,
            window: 1,
            suspects: Vec::new(),
        },
    );
}

/// Fault B10. The calls of a destination go two at a time again when whoever was in the lost one has left with its
/// shard.
#[test]
fn suspects_that_left_with_their_shard_hold_nobody_up() {
    let (mut model, mut now) = (Model::new(2), Duration::ZERO);
    let given_up = key_of(&model, Shard(1), 0);
    enqueue(&mut model, now, &given_up);
    let mut desk = Desk::open("a");
    desk.tick(&mut model, now);
    let publishing = desk.publishing();
    assert_eq!(publishing.len(), 1);
    joins(&mut model, now);
    desk.lose(now, publishing[0].0);
    // Of two shards one is the other relay's: the one that is given up is the last.
    now += LEASE / 2;
    desk.tell(now, Fact::Tick);
    desk.serve(&mut model, now, is_beat);
    for call in desk.publishing() {
        // It may be tried alone once more before the share is known.
        desk.lose(now, call.0);
    }
    now += LEASE / 10;
    desk.tick(&mut model, now);
    let owned = |model: &Model| {
        model
            .owners()
            .filter(|(_, state)| state.owner.as_ref() == Some(&RelayId("a".into())))
            .count()
    };
    assert_eq!(owned(&model), 1, "the shard of the suspect is given up");
    for number in 0..6 {
        let key = key_of(&model, Shard(0), number);
        enqueue(&mut model, now, &key);
    }
    // The circuit is open: one event goes alone and closes it.
    now += LEASE / 10;
    desk.tick(&mut model, now);
    now += LEASE / 10;
    desk.tick(&mut model, now);
    let probe = desk.publishing();
    assert_eq!(probe.len(), 1);
    desk.confirm(now, probe[0].0);
    // The next call finds out that the suspects are gone.
    let next = desk.publishing();
    assert_eq!(next.len(), 1);
    desk.confirm(now, next[0].0);
    for _ in 0..2 {
        let both = desk.publishing();
        assert_eq!(both.len(), 2, "both calls of the destination are used");
        desk.confirm(now, both[0].0);
    }
}
