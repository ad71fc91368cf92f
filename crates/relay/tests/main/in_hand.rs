//! What a relay has in memory when people decide otherwise.

use std::time::Duration;

use postrider_testkit::model::Model;

use crate::desk::{Desk, LEASE, enqueue};

/// Four events that were held back and are let go. Two of them are on their way, two wait in memory for their turn.
fn in_hand(model: &mut Model, now: &mut Duration) -> (Desk, Vec<String>) {
    for key in ["k0", "k1", "k2", "k3"] {
        enqueue(model, *now, key);
    }
    let keys: Vec<String> = model
        .queued()
        .map(|row| row.event.key_text().into_owned())
        .collect();
    keys.iter().for_each(|key| model.pause_key(key, true));
    let mut desk = Desk::open("one");
    desk.tick(model, *now);
    *now += Duration::from_millis(100);
    desk.tick(model, *now);
    assert_eq!((model.parked().count(), model.queued().count()), (4, 0));
    keys.iter().for_each(|key| model.pause_key(key, false));
    for _ in 0..3 {
        *now += Duration::from_millis(100);
        desk.tick(model, *now);
    }
    let leaving: Vec<String> = desk.publishing().into_iter().flat_map(|(_, ids)| ids).collect();
    assert_eq!(leaving.len(), 2);
    assert!(
        model.parked().all(|row| row.maybe_sent),
        "all of them are started"
    );
    let ids = model.parked().map(|row| row.row.event.id.to_string());
    let waiting = ids.filter(|id| !leaving.contains(id)).collect();
    (desk, waiting)
}

/// What the two that were on their way make room for when they are confirmed, so much later.
fn goes_after(desk: &mut Desk, model: &mut Model, now: &mut Duration, later: Duration) -> Vec<String> {
    let end = *now + later;
    while *now < end {
        *now += LEASE / 6;
        desk.tick(model, *now);
    }
    for (call, _) in desk.publishing() {
        desk.confirm(*now, call);
    }
    desk.tick(model, *now);
    desk.publishing().into_iter().flat_map(|(_, ids)| ids).collect()
}

#[test]
fn what_was_discarded_does_not_leave_from_memory_later() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    let (mut desk, waiting) = in_hand(&mut model, &mut now);
    let [thrown, kept] = waiting.as_slice() else {
        panic!("two wait: {waiting:?}")
    };
    model.discard(now, "not wanted", |row| row.row.event.id.as_str() == thrown);
    let goes = goes_after(&mut desk, &mut model, &mut now, LEASE);
    assert_eq!(goes, std::slice::from_ref(kept));
}

#[test]
fn what_is_held_up_for_less_than_a_renewal_leaves_from_memory() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    let (mut desk, waiting) = in_hand(&mut model, &mut now);
    desk.asked.retain(|command| !crate::desk::is_read(command));
    for (call, _) in desk.publishing() {
        desk.confirm(now, call);
    }
    let goes: Vec<String> = desk.publishing().into_iter().flat_map(|(_, ids)| ids).collect();
    assert_eq!(goes, waiting, "nothing had to be read for that");
}

#[test]
fn what_is_in_memory_of_a_key_joins_its_pause() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    for key in ["k0", "k1", "k2", "k3"] {
        enqueue(&mut model, now, key);
    }
    let mut desk = Desk::open("one");
    desk.tick(&mut model, now);
    let leaving: Vec<String> = desk.publishing().into_iter().flat_map(|(_, ids)| ids).collect();
    let keys = |model: &Model| {
        let queued = model
            .queued()
            .filter(|row| !leaving.contains(&row.event.id.to_string()));
        let keys: Vec<String> = queued.map(|row| row.event.key_text().into_owned()).collect();
        keys
    };
    let waiting = keys(&model);
    assert_eq!(waiting.len(), 2);
    model.pause_key(&waiting[0], true);
    let goes = goes_after(&mut desk, &mut model, &mut now, LEASE);
    assert_eq!(goes.len(), 1, "only the other one");
    let held: Vec<String> = model
        .parked()
        .map(|row| row.row.event.key_text().into_owned())
        .collect();
    assert_eq!(held, [waiting[0].clone()], "and it is where people see it");
}

/// The relay before this one may have published what this one cannot route.
#[test]
fn what_dies_on_arrival_says_that_it_may_have_been_sent() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    enqueue(&mut model, now, "k");
    let mut desk = Desk::open("one");
    desk.tick(&mut model, now);
    assert_eq!(desk.publishing().len(), 1);
    drop(desk);
    now += 2 * LEASE;
    let mut desk = Desk::without_routes("two");
    desk.tick(&mut model, now);
    let parked: Vec<_> = model.parked().map(|row| (row.dead, row.maybe_sent)).collect();
    assert_eq!(parked, [(true, true)]);
    drop(desk);
    now += 2 * LEASE;
    model.redrive(now, |row| row.dead);
    let mut desk = Desk::open("three");
    desk.tick(&mut model, now);
    let parked: Vec<_> = model.parked().map(|row| (row.dead, row.maybe_sent)).collect();
    assert_eq!(parked, [(false, true)]);
}
