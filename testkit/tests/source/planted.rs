//! Each of these sources breaks one sentence of the contract, and the case that is named beside it must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};

use postrider_testkit::source;

use crate::desk::{Desks, Flaw};

fn caught(flaw: Flaw, case: &str) {
    let run = catch_unwind(AssertUnwindSafe(|| source::run(case, Desks::with(flaw))));
    assert!(run.is_err(), "{case} did not notice that a source {flaw:?}");
}

#[test]
fn lost_messages_are_caught() {
    caught(
        Flaw::SettlesAtDelivery,
        "verdicts::nothing_is_gone_before_its_verdict",
    );
    caught(Flaw::SettlesAllBefore, "verdicts::verdicts_may_come_in_any_order");
    caught(Flaw::KeepsWhatItHeld, "lost::close_gives_back_what_is_unsettled");
    caught(
        Flaw::TakesBeforeItWaits,
        "receive::a_dropped_receive_loses_nothing",
    );
    caught(
        Flaw::DropsRejected,
        "verdicts::reject_moves_it_to_the_dead_letters",
    );
}

#[test]
fn a_restart_that_loses_messages_is_caught() {
    caught(
        Flaw::ForgetsAtRestart,
        "restart::a_restart_at_one_half_loses_nothing",
    );
}

#[test]
fn verdicts_on_the_wrong_delivery_are_caught() {
    caught(
        Flaw::CountsTagsAnew,
        "lost::tags_of_a_cut_connection_mean_nothing",
    );
    caught(
        Flaw::FailsAtStrangeTags,
        "verdicts::unknown_and_repeated_tags_mean_nothing",
    );
}

#[test]
fn tags_that_become_void_in_silence_are_caught() {
    caught(
        Flaw::StartsAnewInSilence,
        "lost::a_settle_that_fails_is_told_before_anything_comes_again",
    );
    caught(
        Flaw::StartsAnewInSilence,
        "lost::a_cut_connection_is_told_before_anything_comes_again",
    );
}

#[test]
fn changed_messages_are_caught() {
    caught(Flaw::TrimsBodies, "receive::bodies_come_byte_exact");
    caught(Flaw::DropsHeaders, "receive::ids_headers_and_content_type_come");
    caught(Flaw::SkipsForeign, "receive::a_foreign_message_is_delivered");
}

#[test]
fn a_wrong_order_and_wrong_counts_are_caught() {
    caught(Flaw::TurnsRound, "receive::messages_come_in_order");
    caught(Flaw::CountsNothing, "verdicts::deliveries_are_counted");
    caught(Flaw::CountsNothing, "lost::a_cut_connection_delivers_again");
}

#[test]
fn a_source_without_bounds_or_end_is_caught() {
    caught(Flaw::HoldsEverything, "bounds::what_is_held_is_bounded");
    caught(
        Flaw::KeepsEveryVerdict,
        "bounds::what_is_done_behind_a_held_message_is_not_kept",
    );
    caught(Flaw::WaitsForEver, "lost::a_receive_under_way_ends_with_a_close");
}
