//! Going to sleep: what an engine fed by hand believes of its doorbell.

use std::time::Duration;

use postrider_relay::engine::{Call, Command, Fact};
use postrider_testkit::model::Model;

use crate::desk::{Desk, LEASE, any, is_read};

/// The arming that is to be answered.
fn arming(desk: &mut Desk) -> Option<Call> {
    let arms = |command: &Command| matches!(command, Command::Arm(..));
    let index = desk.asked.iter().position(arms)?;
    match desk.asked.remove(index) {
        Command::Arm(call, _) => Some(call),
        _ => None,
    }
}

/// Lets time pass until the doorbell is to be armed.
fn until_arming(desk: &mut Desk, model: &mut Model, now: &mut Duration) -> Call {
    for _ in 0..100 {
        desk.tick(model, *now);
        if let Some(call) = arming(desk) {
            return call;
        }
        *now += Duration::from_millis(1);
    }
    panic!("the doorbell is never armed")
}

/// An arming is given up when something happens, and its answer may be on the way. Taken for that of the next one, the
/// relay would look for the last time before its locks are there, and a commit in between would ring for nobody.
#[test]
fn the_answer_to_an_arming_that_was_given_up_is_not_taken_for_the_next() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    let mut desk = Desk::open("a");
    let first = until_arming(&mut desk, &mut model, &mut now);
    desk.tell(now, Fact::Rang);
    let second = until_arming(&mut desk, &mut model, &mut now);
    desk.tell(now, Fact::Armed(first, true));
    assert!(!desk.asked.iter().any(is_read), "nothing is armed yet");
    desk.tell(now, Fact::Armed(second, true));
    assert!(
        desk.asked.iter().any(is_read),
        "it looks once more before it sleeps"
    );
}

/// So much time passes for two relays whose doorbells work.
fn pass(desks: &mut [Desk; 2], model: &mut Model, now: &mut Duration, time: Duration) {
    let end = *now + time;
    while *now < end {
        for desk in desks.iter_mut() {
            desk.tick(model, *now);
            while let Some(call) = arming(desk) {
                desk.tell(*now, Fact::Armed(call, true));
                desk.serve(model, *now, any);
            }
        }
        *now += Duration::from_millis(10);
    }
}

/// Whoever has its share and sleeps is rung for when others give something up, and need not ask for it all the time.
#[test]
fn relays_that_sleep_beside_each_other_beat_seldom_and_at_once_for_what_is_given_up() {
    let (mut model, mut now) = (Model::new(4), Duration::ZERO);
    let mut desks = [Desk::open("a"), Desk::open("b")];
    pass(&mut desks, &mut model, &mut now, 3 * LEASE);
    let before = [desks[0].beats, desks[1].beats];
    pass(&mut desks, &mut model, &mut now, 3 * LEASE);
    for (desk, before) in desks.iter().zip(before) {
        let beats = desk.beats - before;
        assert!((8..=10).contains(&beats), "three a lease, not {beats} in three");
    }
    // Just after a heartbeat the next one is a third of the lease away, unless something rings.
    let [_, b] = &mut desks;
    let before = b.beats;
    while b.beats == before {
        now += Duration::from_millis(10);
        b.tick(&mut model, now);
    }
    b.tell(now, Fact::Rang);
    for _ in 0..50 {
        now += Duration::from_millis(10);
        b.tick(&mut model, now);
    }
    assert_eq!(b.beats, before + 2, "half a second after a ring it has asked");
}
