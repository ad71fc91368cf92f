//! A suite that cannot fail proves nothing: each of these stores breaks one sentence of the contract, and the case
//! that is named beside it must notice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use postrider_core::{
    Blocked, BoxFuture, Doorbell, Heartbeat, Page, Payload, Read, Ring, Seq, Settle, Settled, Shard,
    Standing, Store, StoreError, Token,
};
use postrider_testkit::MemoryStore;
use postrider_testkit::store;

use crate::harness::Memory;

/// A store in memory with something wrong on the way in or on the way out.
#[derive(Default)]
struct Broken {
    beat: Option<fn(&MemoryStore, &mut Heartbeat)>,
    read: Option<fn(&mut Read)>,
    page: Option<fn(&mut Page)>,
    settle: Option<fn(&MemoryStore, &mut Settle)>,
    settled: Option<fn(&mut Vec<Settled>)>,
    bell: Option<fn() -> Ring>,
}

struct BrokenStore(MemoryStore, Broken);

impl Store for BrokenStore {
    fn heartbeat(&self, mut beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        if let Some(spoil) = self.1.beat {
            spoil(&self.0, &mut beat);
        }
        self.0.heartbeat(beat)
    }

    fn read(&self, mut read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        if let Some(spoil) = self.1.read {
            spoil(&mut read);
        }
        Box::pin(async move {
            let mut page = self.0.read(read).await?;
            if let Some(spoil) = self.1.page {
                spoil(&mut page);
            }
            Ok(page)
        })
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        let mut settle = Settle::clone(&settle);
        if let Some(spoil) = self.1.settle {
            spoil(&self.0, &mut settle);
        }
        Box::pin(async move {
            let mut settled = self.0.settle(Arc::new(settle)).await?;
            if let Some(spoil) = self.1.settled {
                spoil(&mut settled);
            }
            Ok(settled)
        })
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        match self.1.bell {
            Some(ring) => Some(Arc::new(Other(ring))),
            None => self.0.doorbell(),
        }
    }
}

/// A doorbell that knows nothing of commits.
struct Other(fn() -> Ring);

impl Doorbell for Other {
    fn arm(&self, _: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        Box::pin(async { Ok((self.0)()) })
    }
}

/// Each of these cases must fail.
pub(crate) fn noticed(broken: Memory, cases: &[&str]) {
    for case in cases {
        let is_known = store::CASES.iter().any(|known| known.name == *case);
        assert!(is_known, "there is no case {case}");
        let run = catch_unwind(AssertUnwindSafe(|| store::run(case, broken)));
        assert!(run.is_err(), "{case} did not notice");
    }
}

/// Makes one test of a flaw and of the cases that must notice it.
macro_rules! caught {
    ($($name:ident { $($flaw:tt)* } by $($case:literal),+;)+) => {
        $(#[test]
        fn $name() {
            let broken = Memory {
                store: |store| Arc::new(BrokenStore(store, Broken { $($flaw)*, ..Broken::default() })),
                ..Memory::plain(8)
            };
            noticed(broken, &[$($case),+]);
        })+
    };
}

caught! {
    rows_in_memory_are_read_again { read: Some(|read| read.ranges.iter_mut().for_each(|range| range.skip.clear())) }
        by "read::skipped_rows_are_left_out_and_do_not_fill_the_limit";
    floors_are_ignored { read: Some(|read| read.ranges.iter_mut().for_each(|range| range.floor = Seq(0))) }
        by "read::only_rows_above_the_floor_are_read";
    bytes_are_not_bounded { read: Some(|read| read.max_bytes = usize::MAX) }
        by "read::bytes_are_bounded_but_one_row_always_comes",
           "parked::parked_bytes_are_bounded_but_one_row_always_comes";
    the_end_is_claimed_too_early { page: Some(|page| page.read_to.iter_mut().for_each(|to| *to = Seq::MAX)) }
        by "read::what_is_read_to_hides_no_row";
    the_horizon_passes_open_transactions { page: Some(|page| page.horizon = Seq(u128::MAX - 1)) }
        by "order::the_horizon_stays_below_open_transactions", "order::a_floor_by_the_rule_finds_late_commits";
    bad_rows_are_left_out { page: Some(|page| page.queued.retain(|row| row.event.is_ok())) }
        by "content::bad_rows_keep_their_place";
    payloads_are_trimmed { page: Some(trim) }
        by "content::events_come_back_byte_exact";
    nobody_is_blocked { page: Some(|page| page.queued.iter_mut().for_each(|row| row.blocked = Blocked::Nowhere)) }
        by "blocked::a_parked_row_blocks_its_key_at_its_destination",
           "blocked::a_row_without_a_destination_blocks_everywhere";
    everything_sent_before_is_the_same {
        page: Some(|page| {
            let known = page.queued.iter_mut().flat_map(|row| &mut row.sent_before);
            known.for_each(|known| known.same_content = true);
        })
    } by "level_one::other_content_is_told_apart";
    dead_rows_hold_nobody { read: Some(|read| read.skip_dead = vec!["d".into(), "e".into()]) }
        by "lines::a_dead_head_holds_its_key", "blocked::a_dead_row_blocks_unless_it_is_skipped";
    busy_rows_are_read_again { read: Some(|read| read.parked.busy.clear()) }
        by "lines::busy_rows_keep_their_line_out", "parked::heads_are_limited";
    closed_destinations_are_asked { read: Some(|read| read.parked.not_for.clear()) }
        by "parked::closed_destinations_are_left_out";
    followers_are_forgotten { read: Some(|read| read.parked.followers = 0) }
        by "lines::only_heads_are_due_and_followers_are_counted";
    nothing_comes_due_by_time { page: Some(|page| page.next_due_in = None) }
        by "parked::a_parked_row_comes_due_in_its_time";
    no_fence { settle: Some(current_tokens) }
        by "settle::an_old_token_writes_nothing", "settle::each_shard_has_its_own_fence",
           "faults::a_taken_over_relay_settles_nothing";
    no_versions { settle: Some(current_versions) }
        by "versions::an_old_version_changes_nothing", "versions::a_repeated_change_is_written_once";
    confirmed_rows_need_their_version { settle: Some(only_current) }
        by "versions::a_confirmed_row_leaves_whatever_its_version";
    repeated_settles_say_done {
        settled: Some(|settled| settled.iter_mut().for_each(|one| if *one == Settled::Gone { *one = Settled::Done }))
    } by "settle::a_repeated_settle_finds_everything_gone";
    leases_end_at_once { beat: Some(|_, beat| beat.term = std::time::Duration::ZERO) }
        by "lease::an_owned_shard_is_not_given_twice", "takeover::a_renewed_lease_is_never_taken";
    leases_never_end { beat: Some(|_, beat| beat.term *= 100) }
        by "takeover::an_expired_lease_is_taken_with_a_raised_token";
    lost_answers_go_unnoticed { beat: Some(remember_everything) }
        by "lease::a_shard_missing_from_memory_gets_a_new_token";
    suspects_are_not_written { beat: Some(|_, beat| beat.suspects.clear()) }
        by "takeover::a_suspect_is_handed_to_the_next_owner";
    stopping_relays_keep_everything { beat: Some(|_, beat| beat.release.clear()) }
        by "lease::a_release_hands_over_cleanly";
    the_bell_is_deaf { bell: Some(|| Box::pin(std::future::pending())) }
        by "doorbell::a_commit_after_arming_rings", "doorbell::two_that_sleep_are_each_rung_for",
           "doorbell::one_that_wakes_leaves_the_other_asleep";
    the_bell_always_rings { bell: Some(|| Box::pin(std::future::ready(()))) }
        by "doorbell::a_dropped_ring_leaves_nothing_behind";
}

fn trim(page: &mut Page) {
    for row in &mut page.queued {
        if let Ok(event) = &mut row.event
            && let Payload::Text(text) = &mut Arc::make_mut(event).payload
        {
            *text = text.trim().to_owned();
        }
    }
}

fn current_tokens(store: &MemoryStore, settle: &mut Settle) {
    settle.fence = store.with_model(|model, _| {
        model
            .owners()
            .map(|(shard, state)| (shard, state.token))
            .collect()
    });
}

fn current_versions(store: &MemoryStore, settle: &mut Settle) {
    for entry in &mut settle.parked {
        store.with_model(|model, _| {
            if let Some(parked) = model.parked_row(entry.seq, entry.destination.as_ref()) {
                entry.version = parked.version;
            }
        });
    }
}

fn only_current(store: &MemoryStore, settle: &mut Settle) {
    for entry in &mut settle.parked {
        let found = store.with_model(|model, _| {
            let parked = model.parked_row(entry.seq, entry.destination.as_ref());
            parked.is_some_and(|parked| parked.version == entry.version)
        });
        if !found {
            entry.seq = Seq::MAX;
        }
    }
}

fn remember_everything(store: &MemoryStore, beat: &mut Heartbeat) {
    beat.held = store.with_model(|model, _| {
        let owned = model
            .owners()
            .filter(|(_, state)| state.owner.as_ref() == Some(&beat.relay));
        owned
            .map(|(shard, state)| (shard, Token(state.token.0)))
            .collect()
    });
}
