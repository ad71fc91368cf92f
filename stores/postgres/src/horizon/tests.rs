//! Samples as a server gives them, one after the other.

use super::*;

fn set(names: &[&str]) -> Sample {
    Sample {
        started: 1,
        writers: names.iter().map(|name| (*name).to_owned()).collect(),
        written: 0,
        flushed: 0,
    }
}

fn logged(names: &[&str], written: i64, flushed: i64) -> Sample {
    Sample {
        written,
        flushed,
        ..set(names)
    }
}

/// Fault A2. What is not on the disk may be taken back by a recovery.
#[test]
fn a_place_is_decided_when_the_log_is_flushed() {
    let horizon = Horizon::default();
    horizon.saw(10, Some(1));
    horizon.sampled(logged(&[], 500, 400));
    assert_eq!(horizon.decided(), 0);
    horizon.saw(20, Some(1));
    horizon.sampled(logged(&["3/1"], 700, 499));
    assert_eq!(horizon.decided(), 0, "still not as far");
    horizon.sampled(logged(&["3/1"], 900, 500));
    assert_eq!(horizon.decided(), 10, "what is written later is not waited for");
    horizon.sampled(logged(&[], 900, 600));
    assert_eq!(
        horizon.decided(),
        10,
        "they have ended, but the log is not flushed"
    );
    horizon.sampled(logged(&[], 950, 900));
    assert_eq!(horizon.decided(), 20);
}

/// Fault A6. Named after a while, not before, and not at every sample.
#[tokio::test(start_paused = true)]
async fn a_writer_that_stays_is_named_now_and_then() {
    let horizon = Horizon::default();
    horizon.saw(10, Some(1));
    assert_eq!(horizon.sampled(set(&["3/1", "4/7"])), None);
    tokio::time::advance(OVERDUE_AFTER / 2).await;
    assert_eq!(horizon.sampled(set(&["3/1"])), None);
    tokio::time::advance(OVERDUE_AFTER / 2).await;
    let named = horizon.sampled(set(&["3/1", "9/9"])).expect("it is named");
    assert_eq!(
        (named.writers, named.waited),
        (vec!["3/1".to_owned()], OVERDUE_AFTER)
    );
    tokio::time::advance(OVERDUE_EVERY / 2).await;
    assert_eq!(horizon.sampled(set(&["3/1"])), None);
    tokio::time::advance(OVERDUE_EVERY / 2).await;
    assert!(horizon.sampled(set(&["3/1"])).is_some(), "it is still there");
    horizon.sampled(set(&["9/9"]));
    assert_eq!(horizon.decided(), 10);
}

/// Fault A25.
#[test]
fn places_that_begin_anew_are_not_decided() {
    let horizon = Horizon::default();
    horizon.saw(50, Some(1));
    horizon.sampled(set(&[]));
    assert_eq!(horizon.decided(), 50);
    horizon.saw(3, Some(1));
    assert_eq!(horizon.decided(), 0);
    horizon.sampled(set(&["3/1"]));
    assert_eq!(horizon.decided(), 0, "somebody writes");
    horizon.sampled(set(&[]));
    assert_eq!(horizon.decided(), 3);
}

/// Fault A25. Emptied and filled again further than before, between two looks.
#[test]
fn places_of_another_file_are_not_decided() {
    let horizon = Horizon::default();
    horizon.saw(50, Some(1));
    horizon.sampled(set(&[]));
    assert_eq!(horizon.decided(), 50);
    horizon.saw(200, Some(2));
    assert_eq!(horizon.decided(), 0);
    horizon.saw(200, Some(2));
    horizon.sampled(set(&[]));
    assert_eq!(horizon.decided(), 200);
}

/// After a restart a prepared transaction has another number, so that it is not among the new ones proves nothing.
#[test]
fn a_sample_of_a_restarted_server_proves_nothing_of_the_last() {
    let horizon = Horizon::default();
    horizon.saw(10, Some(1));
    horizon.sampled(set(&["-1/7"]));
    horizon.sampled(Sample {
        started: 2,
        ..set(&["-1/9"])
    });
    assert_eq!(horizon.decided(), 0);
    horizon.saw(10, Some(1));
    horizon.sampled(Sample {
        started: 2,
        ..set(&["-1/9"])
    });
    assert_eq!(horizon.decided(), 0, "it is still open");
}

#[test]
fn a_writer_that_is_prepared_is_still_waited_for() {
    let horizon = Horizon::default();
    horizon.saw(7, Some(1));
    horizon.sampled(set(&["3/45", "-1/700"]));
    horizon.sampled(set(&["-1/812", "-1/700"]));
    assert_eq!(horizon.decided(), 0, "it is one of the prepared now");
    horizon.sampled(set(&["-1/812", "-1/900"]));
    assert_eq!(horizon.decided(), 0, "it has not ended");
    horizon.sampled(set(&["-1/900"]));
    assert_eq!(horizon.decided(), 7, "what was prepared later was not waited for");
}

#[test]
fn a_place_is_decided_when_all_who_could_have_it_have_ended() {
    let horizon = Horizon::default();
    horizon.saw(10, Some(1));
    horizon.sampled(set(&["3/1", "4/7"]));
    assert_eq!(horizon.decided(), 0);
    horizon.saw(20, Some(1));
    horizon.sampled(set(&["4/7", "5/1"]));
    assert_eq!(horizon.decided(), 0, "one of them is still there");
    horizon.sampled(set(&["5/1"]));
    assert_eq!(horizon.decided(), 10, "what came later was not waited for");
    horizon.sampled(set(&["6/1"]));
    assert_eq!(horizon.decided(), 20);
}

#[test]
fn without_writers_everything_given_is_decided() {
    let horizon = Horizon::default();
    horizon.saw(7, Some(1));
    horizon.sampled(set(&[]));
    assert_eq!(horizon.decided(), 7);
}
