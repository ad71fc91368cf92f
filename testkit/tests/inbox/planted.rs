//! Each of these breaks one sentence of the contract, and the case that is named beside it must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use postrider_testkit::inbox;

use crate::desk::{Desks, Flaw};

fn caught(flaw: Flaw, case: &str) {
    let run = catch_unwind(AssertUnwindSafe(|| inbox::run(case, Desks::with(flaw))));
    assert!(run.is_err(), "{case} did not notice that an inbox {flaw:?}");
}

/// Fault D2.
#[test]
fn an_effect_that_happens_twice_is_caught() {
    caught(Flaw::LooksFirst, "once::twice_at_once");
    caught(
        Flaw::RunsRepetitionsOfABatch,
        "batch::an_event_twice_in_a_batch_takes_effect_once",
    );
}

/// Fault D4.
#[test]
fn an_effect_that_is_lost_is_caught() {
    let failing = "refused::a_handler_that_fails_leaves_nothing_behind";
    caught(Flaw::SwallowsErrors, failing);
    caught(Flaw::RecordsFailures, failing);
    caught(Flaw::MixesConsumers, "once::consumers_do_not_know_of_each_other");
    caught(Flaw::IgnoresCase, "once::ids_are_told_apart_byte_by_byte");
}

/// Faults D8 and D9.
#[test]
fn ids_that_are_taken_for_good_are_caught() {
    caught(
        Flaw::IgnoresHashes,
        "reused::another_payload_under_one_id_is_an_error",
    );
    caught(
        Flaw::TakesAnyId,
        "refused::an_id_that_cannot_be_recorded_is_rejected",
    );
}

#[test]
fn a_batch_that_is_none_is_caught() {
    caught(
        Flaw::OneAfterTheOther,
        "batch::as_many_as_it_takes_are_all_or_nothing",
    );
    caught(Flaw::OneAfterTheOther, "refused::one_that_fails_undoes_its_batch");
    caught(
        Flaw::AnswersShort,
        "batch::as_many_as_it_takes_are_all_or_nothing",
    );
}

#[test]
fn a_wrong_order_is_caught() {
    caught(Flaw::TurnsRound, "batch::handlers_run_in_order");
}
