//! The list of all cases.

use super::{
    Case, Feature, audit, blocked, console, content, control, crash, deeds, doorbell, duty, edit, edit_anew,
    faults, find, history, hold, job, keep, lease, level_one, lines, operate, order, pages, parked, read,
    replay, replayed, schedule, settle, share, takeover, versions, worded,
};

cases! { $ store_suite, store, "Store"
    lease {
        one_relay_owns_every_shard;
        a_renewal_keeps_the_token;
        a_renewal_names_the_keys_that_are_paused;
        a_repeated_heartbeat_changes_nothing;
        an_owned_shard_is_not_given_twice;
        a_release_hands_over_cleanly;
        a_release_under_an_old_token_is_ignored;
        a_shard_missing_from_memory_gets_a_new_token;
        a_shard_remembered_under_another_token_gets_a_new_one;
        a_relay_that_stops_claims_nothing;
        a_restarted_relay_is_somebody_else;
    }
    share {
        two_relays_come_to_equal_shares [SeveralShards];
        three_relays_divide_rounding_up [SeveralShards];
        a_stopping_relay_leaves_everything_to_the_others [SeveralShards];
        relays_that_claim_at_once_own_nothing_twice;
    }
    takeover {
        a_renewed_lease_is_never_taken;
        an_expired_lease_is_taken_with_a_raised_token;
        owners_that_end_without_a_settle_are_counted;
        a_settle_resets_the_count_and_the_suspect;
        a_release_resets_the_count_and_what_may_be_sent;
        a_suspect_is_handed_to_the_next_owner;
        a_second_takeover_forgets_nothing_that_may_be_sent;
        another_suspect_has_a_count_of_its_own;
        only_ends_on_trial_are_held_against_a_suspect;
        a_suspect_of_a_foreign_shard_is_not_written;
    }
    read {
        an_empty_outbox_gives_an_empty_page;
        only_rows_above_the_floor_are_read;
        skipped_rows_are_left_out_and_do_not_fill_the_limit;
        a_limit_pages_through_everything_once;
        what_is_read_to_hides_no_row;
        bytes_are_bounded_but_one_row_always_comes;
        headers_and_names_are_bytes_too;
        lanes_are_read_apart;
        shards_are_read_apart [SeveralShards];
    }
    content {
        events_come_back_byte_exact;
        a_key_stays_in_its_shard;
        a_scheduled_row_says_how_long;
        bad_rows_keep_their_place [BadRows];
        replayed_rows_keep_order_among_themselves [Replays];
    }
    order {
        a_transaction_keeps_its_order;
        rolled_back_rows_are_never_seen;
        open_transactions_are_not_seen;
        the_horizon_covers_what_is_decided [Horizon];
        the_horizon_stays_below_open_transactions [SeveralWriters Horizon];
        a_floor_by_the_rule_finds_late_commits [SeveralWriters];
        places_are_never_used_again;
        an_id_is_queued_once;
    }
    blocked {
        nothing_parked_blocks_nothing;
        a_parked_row_blocks_its_key_at_its_destination;
        other_keys_and_lanes_are_not_blocked;
        several_destinations_are_all_named;
        a_row_without_a_destination_blocks_everywhere;
        a_dead_row_blocks_unless_it_is_skipped;
        a_row_parked_alone_blocks_nobody;
        a_settled_row_blocks_no_more;
    }
    level_one {
        the_same_content_is_known_by_destination [LevelOne];
        headers_are_not_content_and_everything_else_is [LevelOne];
        other_content_is_told_apart [LevelOne];
        another_destination_is_another_matter [LevelOne];
        parked_and_discarded_rows_were_not_sent [LevelOne Console];
        a_parked_row_knows_it_too [LevelOne];
        what_is_routed_anew_knows_where_it_has_been [LevelOne];
        a_replay_is_not_checked [LevelOne Replays];
    }
    settle {
        an_empty_settle_answers_nothing;
        a_sent_row_leaves_the_outbox;
        duplicates_and_dropped_rows_leave_too;
        a_row_may_be_sent_here_and_parked_there;
        a_repeated_settle_finds_everything_gone;
        a_row_that_is_gone_is_not_parked;
        a_row_is_named_by_place_and_id;
        an_old_token_writes_nothing;
        a_shard_without_a_fence_is_not_written;
        each_shard_has_its_own_fence [SeveralShards];
        answers_come_queued_first_in_order;
        a_batch_of_thousands_is_one_settle;
        any_text_survives_the_way_into_parked;
    }
    parked {
        a_parked_row_comes_due_at_once;
        a_parked_row_comes_due_in_its_time;
        dead_rows_are_never_due;
        closed_destinations_are_left_out;
        heads_are_limited;
        shards_not_asked_for_are_left_out [SeveralShards];
        bad_rows_stay_bad_when_parked [BadRows];
        parked_bytes_are_bounded_but_one_row_always_comes;
        many_lines_that_wait_are_left_alone;
    }
    lines {
        only_heads_are_due_and_followers_are_counted;
        a_dead_head_holds_its_key;
        skipped_dead_rows_are_passed_over;
        a_dead_follower_holds_those_behind_it;
        a_follower_whose_time_has_not_come_holds_those_behind_it;
        destinations_do_not_wait_for_each_other;
        lanes_do_not_wait_for_each_other;
        busy_rows_keep_their_line_out;
        rows_without_a_destination_hold_later_ones_only;
        rows_without_a_destination_are_due_among_themselves;
    }
    versions {
        a_row_that_stays_is_changed_and_versioned;
        a_repeated_change_is_written_once;
        an_old_version_changes_nothing;
        a_confirmed_row_leaves_whatever_its_version;
        a_duplicate_leaves_whatever_its_version;
        a_row_is_split_over_destinations;
        two_rows_of_an_event_are_split_over_the_same_destinations_in_turn;
        a_row_is_led_whatever_becomes_of_its_event_elsewhere;
        a_row_that_is_routed_anew_leads_the_next_of_its_line;
        what_is_routed_anew_keeps_its_last_failure [Console];
        a_split_by_an_old_version_changes_nothing;
        failures_are_timed_by_the_database;
        a_change_without_a_failure_keeps_the_error;
    }
    doorbell {
        a_commit_after_arming_rings [Doorbell];
        it_can_be_armed_again_after_a_ring [Doorbell];
        a_dropped_ring_leaves_nothing_behind [Doorbell];
        a_commit_through_another_handle_rings [Doorbell];
        a_release_rings [Doorbell];
        two_that_sleep_are_each_rung_for [Doorbell];
        one_that_wakes_leaves_the_other_asleep [Doorbell];
    }
    faults {
        another_handle_sees_the_same_outbox;
        a_dropped_call_leaves_the_store_usable;
        a_dropped_settle_may_be_repeated;
        two_copies_of_a_settle_at_once_count_once;
        reads_and_settles_beside_writers_lose_nothing;
        a_taken_over_relay_settles_nothing;
    }
    console {
        stats_count_what_there_is [Console];
        stats_tell_who_is_alive_with_what [Console];
        the_history_is_read_from_its_end_and_followed [Console];
        the_history_is_read_by_type [Console];
        a_listing_pages_through_everything_once [Console];
        a_listing_shows_the_worst_state [Console];
        a_reused_id_shows_every_record [Console];
        a_bad_row_shows_its_payload [BadRows Console];
        what_was_sent_is_enough_for_its_address [Console];
        failures_are_grouped_by_destination_and_kind [Console];
        what_fails_for_long_is_found [Console];
        a_purge_keeps_the_count_of_published [Console];
    }
    operate {
        a_redriven_row_comes_due_with_a_new_version [Console];
        a_redriven_row_waits_behind_its_head [Console];
        a_row_that_only_waits_is_not_redriven [Console];
        a_discarded_row_never_comes_back [Console];
        a_verb_for_a_destination_is_refused_by_its_state [Console];
        a_dry_run_only_counts [Console];
        a_bulk_verb_goes_on_where_it_stopped [Console];
        a_pause_reaches_every_relay [Console];
    }
    find {
        every_filter_finds_what_it_says [Console Lists];
        newest_first_is_the_reverse [Console Lists];
        failures_are_grouped_by_fingerprint [Console Groups];
        a_group_is_of_one_destination_and_kind [Console Groups];
        a_group_follows_the_last_failure [Console Groups];
    }
    pages {
        pages_of_any_state_give_every_event_once_and_come_further [Console Lists];
        an_event_of_many_destinations_is_found_by_any_of_them [Console Lists Edits];
    }
    job {
        a_job_goes_on_where_it_was_killed [Console Jobs];
        two_who_step_one_job_touch_each_row_once [Console Jobs];
        a_job_leaves_later_rows_alone [Console Jobs];
        a_job_leaves_what_died_later_alone [Console Jobs];
        a_job_means_the_ages_of_its_beginning [Console Jobs];
        a_cancelled_job_touches_nothing_more [Console Jobs];
        each_step_is_audited_with_its_job [Console Jobs Audits];
        a_dry_run_makes_no_job [Console Jobs];
        a_thousand_dead_are_redriven_in_order [Console Jobs];
        a_job_says_what_it_refused [Console Jobs];
        jobs_are_listed_newest_first [Console Jobs];
    }
    schedule {
        a_scheduled_row_is_moved_and_cancelled [Console Schedules];
        a_scheduled_row_is_due_at_its_own_time [Console Schedules];
        a_row_whose_time_has_come_is_not_moved [Console Schedules];
        a_row_that_came_due_meanwhile_is_refused_with_its_state [Console Schedules];
        each_event_that_is_named_is_heard_of [Console Schedules];
        what_is_not_scheduled_is_refused_with_its_state [Console Schedules];
        a_due_row_is_found_among_many_scheduled [Schedules];
    }
    worded {
        every_word_is_the_same_everywhere [Console Lists KeyPauses Schedules];
        every_row_behind_another_names_the_head [Console Lists KeyPauses Schedules];
        other_lines_of_a_key_have_heads_of_their_own [Console];
    }
    edit {
        an_edit_keeps_the_original_and_the_order [Console Edits];
        an_edited_row_stays_edited_when_it_is_sent [Console Edits];
        an_edit_beside_an_attempt_is_sent_as_well [Console Edits Histories];
        an_edited_row_is_no_duplicate_of_what_it_was [Console Edits];
        an_edit_may_be_for_one_destination [Console Edits];
        an_edit_keeps_the_content_type [Console Edits];
        each_destination_shows_the_payload_that_goes_there [Console Edits];
        an_edit_is_told_of_the_event_that_was_edited [Console Edits];
        an_edit_of_another_state_is_refused_with_it [Console Edits];
        an_edit_that_makes_no_event_changes_nothing [Console Edits];
    }
    edit_anew {
        it_goes_along [Console Edits];
        it_goes_along_beside_an_attempt [Console Edits Histories];
        it_does_not_replace_an_edit [Console Edits];
        it_does_not_replace_an_edit_made_meanwhile [Console Edits];
        it_goes_along_once [Console Edits];
        what_it_replaces_does_not_follow_it [Console Edits LevelOne];
        the_original_is_what_the_producer_wrote [Console Edits];
    }
    control {
        a_pause_says_who [Console Controls];
        limits_reach_every_relay [Console Controls];
        a_limit_that_is_not_given_stays [Console Controls];
        who_paused_it_is_kept [Console Controls KeyPauses];
        a_paused_key_holds_its_key_only [Console KeyPauses];
        a_key_is_paused_as_people_see_it [Console Controls KeyPauses];
        a_paused_key_resumes_in_order [Console KeyPauses];
        a_pause_is_seen_by_nobody_as_an_event [Console KeyPauses];
        a_dead_row_of_a_paused_key_is_redriven_and_held [Console KeyPauses];
    }
    replay {
        a_replay_keeps_order_by_key [Console Copies];
        a_replay_blocks_and_waits_for_nobody [Console Copies];
        a_replay_resumes [Console Copies];
        two_who_step_one_replay_end_it_once [Console Copies];
        a_replay_that_nobody_drives_is_done [Console Copies];
        a_cancelled_replay_takes_its_copies_back [Console Copies];
        a_replay_keeps_its_pace [Console Copies];
        a_replay_is_bounded [Console Copies];
        a_replay_goes_on_beside_a_dead_copy [Console Copies];
        a_replay_of_a_queued_id_disturbs_no_producer [Console Copies LevelOne];
        a_copy_sent_elsewhere_is_no_delivery_of_the_event [Console Copies LevelOne];
    }
    replayed {
        a_replay_goes_to_where_it_was_sent_or_is_told [Console Copies];
        replayed_rows_are_not_replayed_again [Console Copies];
        a_replay_is_of_what_was_asked_for [Console Copies];
        a_replay_means_the_ages_of_its_beginning [Console Copies];
        a_restored_row_is_replayed_byte_exact [Console Copies Histories];
        events_of_one_place_are_all_replayed [Console Copies Histories];
        a_copy_is_what_went_last [Console Copies Histories];
        a_replay_that_filled_its_limit_is_seen_to_be_done [Console Copies];
        what_another_outbox_sent_is_replayed [Console Copies Histories];
    }
    audit {
        what_people_did_is_written_down [Console Audits];
        the_audit_has_no_payloads [Console Audits Edits];
        a_dry_run_is_not_written_down [Console Audits];
        a_timeline_is_in_order [Console Audits Edits];
        a_timeline_has_a_redrive_of_what_turned_out_to_be_sent [Console Audits];
        a_timeline_has_what_was_done_to_many [Console Audits Jobs];
        a_timeline_has_no_redrive_before_the_first_failure [Console Audits Jobs];
        a_timeline_has_the_jobs_of_its_own_group [Console Audits Jobs];
        a_timeline_keeps_what_was_done_to_many [Console Audits Jobs];
        what_is_done_to_a_copy_is_told_of_the_copy [Console Audits Edits Copies];
    }
    deeds {
        the_same_deeds_are_written_down_in_the_same_words [Console Audits Jobs Edits Copies Controls Purges];
    }
    crash {
        an_operator_that_dies_leaves_nothing_half_done [Console Crashes];
        a_job_whose_step_dies_goes_on [Console Crashes];
        a_replay_whose_step_dies_goes_on [Console Crashes];
        a_restore_that_dies_goes_on [Console Crashes];
    }
    duty {
        a_duty_is_done_once_a_slot [Console Duties];
        a_duty_of_the_dead_is_taken_over [Console Duties];
        a_slot_ahead_of_the_database_is_early [Console Duties Jobs];
        duties_are_forgotten_by_prefix [Console Duties];
        a_duty_done_since_is_not_forgotten [Console Duties];
    }
    hold {
        a_replay_that_has_still_to_read_what_is_old_is_told [Console Purges Histories Jobs];
        a_job_begins_once [Console Histories Jobs];
        a_replay_is_not_chosen_by_texts_or_failures [Console Histories Jobs];
        a_replay_that_begins_beside_removals_reads_all_that_is_there [Console Purges Histories Jobs];
    }
    keep {
        a_purge_touches_no_queued_or_parked_row [Console Purges];
        a_dry_purge_only_counts [Console Purges];
        a_purge_stops_at_the_end_of_the_archive [Console Purges Histories Jobs];
        an_inbox_that_is_not_there_holds_nothing [Console Purges];
        a_purge_leaves_what_a_replay_has_still_to_read [Console Purges Copies];
        a_replay_that_has_read_all_holds_nothing [Console Purges Copies];
        the_audit_has_its_own_term [Console Purges Audits Controls];
        only_jobs_that_have_ended_are_purged [Console Purges Jobs];
        an_original_stays_as_long_as_its_event [Console Purges Edits];
        the_original_of_a_discarded_event_stays_with_it [Console Purges Edits];
    }
    history {
        what_was_restored_has_its_own_term [Console Purges Histories Jobs];
        a_place_that_no_row_can_have_is_not_restored [Console Copies Histories];
        what_was_restored_is_written_down [Console Histories Jobs Audits];
        history_pages_give_every_row_once [Console Histories];
        history_is_asked_for_by_time [Console Histories];
        a_bad_row_that_was_discarded_is_in_the_history [BadRows Console Histories];
        what_is_restored_twice_is_there_once [Console Histories Jobs];
        what_another_database_held_is_restored [Console Histories Jobs];
        a_job_with_files_is_marked [Console Histories Jobs];
    }
}
