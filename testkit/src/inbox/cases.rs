//! The list of all cases.

use super::{Case, Feature, batch, elsewhere, forget, once, refused, reused};

cases! { $ inbox_suite, inbox, "Effects"
    once {
        twice_in_sequence;
        twice_at_once;
        the_second_takes_effect_when_the_first_fails;
        a_dropped_call_takes_effect_once_with_its_repetition;
        many_deliveries_of_many_events_at_once;
        consumers_do_not_know_of_each_other;
        ids_are_told_apart_byte_by_byte;
        the_handler_sees_the_delivery;
    }
    refused {
        a_handler_that_fails_leaves_nothing_behind;
        a_panic_leaves_nothing_behind;
        one_that_fails_undoes_its_batch;
        an_error_that_is_passed_over_is_an_error [Trips];
        a_transaction_that_a_handler_rolls_back_is_an_error [Ends];
        a_transaction_that_a_handler_commits_is_an_error [Ends];
        an_id_that_cannot_be_recorded_is_rejected;
    }
    reused {
        another_payload_under_one_id_is_an_error;
        without_a_hash_nothing_is_compared;
        a_reused_id_within_a_batch;
    }
    batch {
        handlers_run_in_order;
        an_event_twice_in_a_batch_takes_effect_once;
        some_took_effect_before;
        batches_that_overlap_in_another_order_do_not_stand_still;
        as_many_as_it_takes_are_all_or_nothing;
        nothing_is_nothing;
    }
    elsewhere {
        what_happened_elsewhere_is_known [Forget];
        what_happened_elsewhere_is_compared [Forget];
    }
    forget {
        a_forgotten_event_takes_effect_again [Forget];
        every_part_that_is_given_must_hold [Forget];
        old_records_are_purged_in_steps [Forget];
        a_purge_for_one_consumer_leaves_the_others [Forget];
    }
}
