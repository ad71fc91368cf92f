//! Rows of shards whose owners keep ending are tried alone, and judged by nothing else.

use std::time::Duration;

use postrider_core::Shard;
use postrider_relay::engine::Fact;
use postrider_testkit::model::Model;

use crate::desk::{Desk, LEASE, any, enqueue, is_beat, is_read, key_of};

/// A relay that starts, does what it can without an answer from the broker, and dies. Gives what it tried to publish.
fn lived(name: &str, model: &mut Model, now: &mut Duration) -> usize {
    let mut desk = Desk::open(name);
    desk.tick(model, *now);
    *now += 2 * LEASE;
    desk.publishing().len()
}

/// So many owners end that the next one is careful.
fn make_careful(model: &mut Model, now: &mut Duration) {
    for name in ["a", "b", "c"] {
        assert!(lived(name, model, now) > 0);
    }
}

fn on_trial(model: &Model) -> usize {
    model.owners().filter(|(_, state)| state.on_trial).count()
}

/// Fault C9. Somebody pauses the outbox to look at it, and processes end that never tried the row.
#[test]
fn ends_in_a_pause_find_nobody_guilty() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    enqueue(&mut model, now, "k");
    make_careful(&mut model, &mut now);
    assert_eq!(lived("tries it", &mut model, &mut now), 1);
    model.pause(None, true);
    for name in ["d", "e", "f", "g"] {
        assert_eq!(lived(name, &mut model, &mut now), 0);
    }
    model.pause(None, false);
    assert_eq!(lived("tries it again", &mut model, &mut now), 1);
    assert_eq!(
        model.parked().count(),
        0,
        "it was tried alone twice, not three times"
    );
    assert_eq!(lived("tries it once more", &mut model, &mut now), 1);
    assert_eq!(lived("finds it guilty", &mut model, &mut now), 0);
    assert!(model.parked().all(|row| row.dead) && model.parked().count() == 1);
}

/// Fault C9. A pause that comes between a read and its answer leaves a row in memory that is not about to leave.
#[test]
fn nobody_is_put_on_trial_in_a_pause() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    enqueue(&mut model, now, "k");
    make_careful(&mut model, &mut now);
    let mut desk = Desk::open("d");
    desk.tell(now, Fact::Tick);
    desk.serve(&mut model, now, is_beat);
    model.pause(None, true);
    now += LEASE / 2;
    desk.tell(now, Fact::Tick);
    desk.serve(&mut model, now, is_beat);
    desk.serve(&mut model, now, is_read);
    desk.serve(&mut model, now, any);
    assert_eq!((on_trial(&model), desk.publishing().len()), (0, 0));
    model.pause(None, false);
    now += LEASE / 2;
    desk.tick(&mut model, now);
    assert_eq!((on_trial(&model), desk.publishing().len()), (1, 1));
}

/// Fault C9. With two rows on the way, the one that ends the relay would not be known.
#[test]
fn one_row_is_on_trial_at_a_time() {
    let (mut model, mut now) = (Model::new(4), Duration::ZERO);
    let keys: Vec<String> = (0..4).map(|shard| key_of(&model, Shard(shard), 0)).collect();
    for key in &keys {
        enqueue(&mut model, now, key);
    }
    make_careful(&mut model, &mut now);
    let mut desk = Desk::open("d");
    for left in (1..=keys.len()).rev() {
        desk.tick(&mut model, now);
        let publishing = desk.publishing();
        assert_eq!((on_trial(&model), publishing.len()), (1, 1), "{left} left");
        desk.confirm(now, publishing[0].0);
        now += LEASE / 10;
    }
    desk.tick(&mut model, now);
    assert!(model.is_empty());
}
