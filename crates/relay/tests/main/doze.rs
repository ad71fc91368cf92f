//! Going to sleep: what an engine fed by hand believes of its doorbell.

use std::time::Duration;

use postrider_relay::engine::{Call, Command, Fact};
use postrider_testkit::model::Model;

use crate::desk::{Desk, is_read};

/// Lets time pass until the doorbell is to be armed.
fn until_arming(desk: &mut Desk, model: &mut Model, now: &mut Duration) -> Call {
    for _ in 0..100 {
        desk.tick(model, *now);
        let arms = |command: &Command| matches!(command, Command::Arm(..));
        if let Some(index) = desk.asked.iter().position(arms)
            && let Command::Arm(call, _) = desk.asked.remove(index)
        {
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
