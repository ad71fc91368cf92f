//! The list of all cases.

use super::{Case, Feature, answers, order, restart};

cases! { $ sink_suite, sink, "Sink"
    answers {
        an_empty_batch_answers_nothing;
        every_message_is_answered_for;
        confirmed_means_readable;
        bodies_arrive_byte_exact;
        ids_and_headers_arrive [Headers];
        a_big_batch_arrives;
        a_missing_address_is_never_confirmed [MissingAddress];
        capabilities_do_not_change;
        closing_twice_is_safe;
        a_publish_after_close_is_unavailable;
        what_was_confirmed_before_a_close_is_there;
    }
    order {
        a_batch_keeps_the_order_of_a_key;
        batches_keep_the_order_of_a_key;
        batches_under_way_together_all_arrive;
        two_sinks_write_beside_each_other;
        a_dropped_publish_leaves_the_sink_usable;
        a_failed_message_is_not_passed_by_its_key [MissingAddress];
    }
    restart {
        what_was_confirmed_survives_a_restart [Restart];
        a_stopped_broker_is_unavailable [Restart];
        a_restart_at_one_third_loses_nothing [Restart];
        a_restart_at_one_half_loses_nothing [Restart];
    }
}
