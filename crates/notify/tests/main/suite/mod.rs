//! The conformance suite of the `Board`, `Directory` and `Feed` contracts.
//!
//! A store implements [`Bench`] over a private database and names it in `board_suite!`, which makes one test of every
//! case. Statements that the cases run themselves are understood by every database.

pub(crate) mod about;
pub(crate) mod digest;
pub(crate) mod directory;
pub(crate) mod fanout;
pub(crate) mod feed;
pub(crate) mod keys;
pub(crate) mod once;
pub(crate) mod outage;
pub(crate) mod own;
pub(crate) mod preferences;
pub(crate) mod purge;
pub(crate) mod schema;
pub(crate) mod stage;
pub(crate) mod states;
pub(crate) mod whole;
pub(crate) mod worker;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Applied, ApplyError, BoxFuture, Console, Received, Store};
use postrider_notify::{Board, People, Workflows};

/// How a store lends itself to the suite: one fresh database, with the tables of an inbox and of an outbox named
/// `outbox` in it, and nothing of a board yet. Dropped at the end of the case.
pub(crate) trait Bench: Send + Sync {
    /// A board with connections of its own, as another process has it. It is not migrated by this.
    fn open(&self, workflows: Arc<Workflows>) -> BoxFuture<'_, Arc<dyn Board>>;

    /// What a listener does: lets deliveries take effect through the board's handler, in the inbox's transaction.
    fn deliver(
        &self,
        workflows: Arc<Workflows>,
        deliveries: Vec<Received>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>>;

    /// The same as `open`, with people who are kept elsewhere.
    fn open_own(&self, workflows: Arc<Workflows>, people: Arc<dyn People>) -> BoxFuture<'_, Arc<dyn Board>>;

    /// The same as `deliver`, with people who are kept elsewhere.
    fn deliver_own(
        &self,
        workflows: Arc<Workflows>,
        people: Arc<dyn People>,
        deliveries: Vec<Received>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>>;

    /// Runs statements, with a connection of its own.
    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, ()>;

    /// The number that a query answers.
    fn number<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, i64>;

    /// The texts that a query of one column answers.
    fn texts<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Vec<String>>;

    /// Makes every time in this column so much older.
    fn age<'a>(&'a self, table: &'a str, column: &'a str, by: Duration) -> BoxFuture<'a, ()>;

    /// The outbox of the deliveries, as a relay sees it.
    fn store(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// The same as an operator sees it.
    fn console(&self) -> BoxFuture<'_, Arc<dyn Console>>;
}

/// Makes one test of every case. The argument is an expression of a future that gives a fresh bench.
macro_rules! board_suite {
    ($bench:expr) => {
        $crate::suite::cases! { $bench;
            once {
                the_same_event_twice_is_one_notification
                the_same_resource_under_another_id_is_one_notification
                of_two_at_once_one_is_stored_and_both_succeed
                the_second_channel_is_no_duplicate
                an_event_of_another_user_is_no_duplicate
                a_listener_stores_with_its_inbox
                what_is_ignored_is_passed_over
            }
            about {
                another_type_of_event_is_another_thing
                a_second_comment_is_told_again
                after_the_window_it_is_told_again
                without_a_resource_every_event_is_told
            }
            whole {
                another_constraint_is_an_error_and_no_duplicate
                an_error_in_the_deliveries_leaves_nothing
                an_error_in_the_outbox_leaves_nothing
                an_error_of_the_fan_out_leaves_nothing
                an_occasion_without_words_is_refused_whole
                an_id_that_no_event_can_have_leaves_nothing_half_stored
                hostile_names_and_unknown_languages_are_told_all_the_same
            }
            preferences {
                what_is_not_wanted_is_not_stored
                a_change_counts_for_what_is_stored_after_it
                what_cannot_be_sent_is_said_and_holds_up_nothing
            }
            fanout {
                a_small_topic_is_stored_at_once
                a_large_one_goes_on_in_chunks
                long_words_make_short_chunks
                a_crash_between_chunks_loses_and_repeats_nothing
                two_that_work_on_it_share_it
                what_others_know_is_left_to_them
                one_that_fails_holds_up_no_other
                one_that_the_database_refuses_holds_up_no_other
                one_that_stands_aside_is_resumed
                a_worker_goes_on_beside_what_stands_aside
                accepting_again_changes_nothing
            }
            digest {
                events_are_collected_into_one_notification
                a_repeated_event_is_collected_once
                it_is_closed_once
                who_mutes_it_meanwhile_is_not_told
                the_next_window_is_another_digest
                one_that_cannot_be_told_is_put_off
                one_that_the_database_refuses_is_put_off_whole
                one_whose_id_is_taken_is_not_lost
                what_comes_while_one_is_told_is_in_the_next
                of_long_events_the_latest_are_told
                a_long_event_for_many_is_collected_in_chunks
            }
            directory {
                people_are_kept_and_replaced
                ids_that_no_event_can_have_are_refused
                topics_have_members_in_the_order_of_bytes
                nobody_is_a_member_who_is_not_known
                preferences_are_replaced
            }
            keys {
                the_first_that_counts_is_known_again
                of_two_at_once_one_counts
                a_key_for_nobody_is_free
                it_is_known_as_long_as_notifications_are
            }
            outage {
                a_worker_says_when_it_is_well_again
                what_stands_aside_is_counted
            }
            own {
                it_is_asked_instead_of_the_tables
                preferences_are_kept_here
                a_listener_does_not_wait_for_it
                while_it_fails_nothing_is_stored
                long_words_make_short_chunks
                what_the_database_refuses_stands_aside
                it_may_change_between_pages
                two_that_ask_store_each_page_once
                a_digest_waits_for_it
            }
            feed {
                nobody_sees_anothers
                pages_go_back_in_time
                marks_imply_those_before
                what_is_archived_is_out_of_the_way
                what_is_recent_comes_oldest_first
                only_what_goes_in_app_is_in_the_feed
                notifications_are_found_by_event_and_by_resource
            }
            states {
                a_delivery_stands_where_its_event_is
                what_the_history_forgot_is_settled
                what_was_thrown_away_is_said
            }
            purge {
                old_ones_go_in_steps
                what_is_not_settled_stays
                finished_fan_outs_go_in_steps
                digests_that_were_told_go_in_steps
            }
            worker {
                what_fails_holds_up_no_other
                one_that_is_dropped_in_the_middle_is_gone_on_from
                resuming_beside_another_changes_nothing
            }
            schema {
                migrating_again_changes_nothing
                duplicates_are_listed_and_nothing_is_changed
                a_table_without_its_key_is_given_one
                each_rule_is_made_over_what_is_there
                an_index_that_is_not_unique_is_no_rule
                tables_of_the_version_before_are_taken_over
                each_audience_has_its_view
            }
        }
    };
}

/// One test a case.
macro_rules! cases {
    ($bench:expr; $($file:ident { $($case:ident)+ })+) => {
        $(mod $file {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let bench = $bench.await;
                $crate::suite::$file::$case(&bench).await;
            })+
        })+
    };
}

pub(crate) use {board_suite, cases};
