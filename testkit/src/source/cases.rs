//! The list of all cases.

use super::{Case, Feature, bounds, lost, receive, restart, verdicts};

cases! { $ source_suite, source, "Source"
    receive {
        messages_come_in_order;
        a_receive_waits_for_a_message;
        no_more_than_asked_for_are_returned;
        bodies_come_byte_exact;
        ids_headers_and_content_type_come [Headers];
        a_foreign_message_is_delivered [Foreign];
        a_dropped_receive_loses_nothing;
    }
    verdicts {
        done_is_never_delivered_again;
        nothing_is_gone_before_its_verdict;
        verdicts_may_come_in_any_order;
        again_delivers_it_again;
        deliveries_are_counted [DeliveryCount];
        reject_moves_it_to_the_dead_letters [DeadLetters];
        unknown_and_repeated_tags_mean_nothing;
    }
    bounds {
        what_is_held_is_bounded [Prefetch];
        what_is_done_behind_a_held_message_is_not_kept;
        two_sources_share_a_queue;
    }
    lost {
        close_gives_back_what_is_unsettled;
        closing_twice_is_safe;
        a_receive_under_way_ends_with_a_close;
        a_cut_connection_delivers_again [Cut];
        a_cut_connection_is_told_before_anything_comes_again [Cut];
        tags_of_a_cut_connection_mean_nothing [Cut];
        a_settle_that_fails_is_told_before_anything_comes_again [SettleFault];
    }
    restart {
        a_restart_at_one_third_loses_nothing [Restart];
        a_restart_at_one_half_loses_nothing [Restart];
    }
}
