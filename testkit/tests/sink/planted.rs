//! Each of these sinks breaks one sentence of the contract, and the case that is named beside it must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use postrider_testkit::sink;

use crate::shelf::{Flaw, Shelves};

fn caught(flaw: Flaw, cases: &[&str]) {
    for case in cases {
        let run = catch_unwind(AssertUnwindSafe(|| sink::run(case, Shelves::with(flaw))));
        assert!(run.is_err(), "{case} did not notice that a sink {flaw:?}");
    }
}

#[test]
fn wrong_answers_are_caught() {
    caught(Flaw::AnswersTooFew, &["answers::every_message_is_answered_for"]);
    caught(
        Flaw::ConfirmsTheMissing,
        &["answers::a_missing_address_is_never_confirmed"],
    );
    caught(
        Flaw::BlamesNeighbours,
        &["answers::a_missing_address_is_never_confirmed"],
    );
    caught(
        Flaw::PublishesAfterClose,
        &["answers::a_publish_after_close_is_unavailable"],
    );
    caught(
        Flaw::CallsOutagesRejections,
        &["restart::a_stopped_broker_is_unavailable"],
    );
}

#[test]
fn lost_messages_are_caught() {
    caught(
        Flaw::ConfirmsBeforeStoring,
        &["answers::confirmed_means_readable"],
    );
    caught(
        Flaw::ForgetsAtRestart,
        &["restart::what_was_confirmed_survives_a_restart"],
    );
}

#[test]
fn a_restart_that_loses_messages_is_caught() {
    caught(
        Flaw::ForgetsAtRestart,
        &["restart::a_restart_at_one_third_loses_nothing"],
    );
}

#[test]
fn changed_messages_are_caught() {
    caught(Flaw::TrimsBodies, &["answers::bodies_arrive_byte_exact"]);
    caught(Flaw::DropsHeaders, &["answers::ids_and_headers_arrive"]);
}

#[test]
fn a_turned_order_is_caught() {
    caught(
        Flaw::TurnsBatchesRound,
        &["order::a_batch_keeps_the_order_of_a_key"],
    );
    caught(
        Flaw::PassesFailedMessages,
        &["order::a_failed_message_is_not_passed_by_its_key"],
    );
    caught(
        Flaw::TriesDroppedCallsAgain,
        &["order::a_dropped_publish_leaves_the_sink_usable"],
    );
}
