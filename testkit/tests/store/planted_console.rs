//! The same for operators and for the housekeeping: what they are told or what they ask for is spoiled on its way, and
//! the cases that are named beside it must notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider_core::*;
use postrider_testkit::forward::Answer;
use postrider_testkit::{MemoryStore, forward_console};

use crate::harness::Memory;
use crate::planted::noticed;

/// What is wrong: on the way in, or on the way out.
#[derive(Default)]
struct Broken {
    stats: Option<fn(&mut Stats)>,
    list: Option<fn(&mut List)>,
    listing: Option<fn(&mut Listing)>,
    shown: Option<fn(&mut Vec<EventRecord>)>,
    of_type: Option<fn(&mut Option<String>)>,
    groups: Option<fn(&mut Vec<Group>)>,
    act: Option<fn(&mut Act)>,
    chunk: Option<fn(&mut Chunk)>,
    edit: Option<fn(&mut Edit)>,
    begin: Option<fn(&mut NewJob)>,
    steps: Option<fn(&mut u32)>,
    steer: Option<fn(&mut JobVerb)>,
    control: Option<fn(&mut Control)>,
    in_force: Option<fn(&mut Vec<InForce>)>,
    audit: Option<fn(&mut AuditPage)>,
    claimed: Option<fn(&mut Claim)>,
    purge: Option<fn(&mut Purge)>,
    purged: Option<fn(&mut Purged)>,
    ask: Option<fn(&mut HistoryAsk)>,
    history: Option<fn(&mut HistoryPage)>,
    forgotten: Option<fn(&mut Option<JobId>)>,
    rows: Option<fn(&mut Vec<HistoryRow>)>,
    restored: Option<fn(&mut u64)>,
}

struct BrokenConsole(MemoryStore, Broken);

/// What is asked for, spoiled.
fn into<T>(mut asked: T, spoil: Option<fn(&mut T)>) -> T {
    if let Some(spoil) = spoil {
        spoil(&mut asked);
    }
    asked
}

/// What is answered, spoiled.
fn out<'a, T: 'a>(answer: Answer<'a, T>, spoil: Option<fn(&mut T)>) -> Answer<'a, T> {
    Box::pin(async move { Ok(into(answer.await?, spoil)) })
}

impl Console for BrokenConsole {
    fn stats(&self) -> Answer<'_, Stats> {
        out(self.0.stats(), self.1.stats)
    }

    fn list(&self, list: List) -> Answer<'_, Listing> {
        out(self.0.list(into(list, self.1.list)), self.1.listing)
    }

    fn show(&self, id: EventId) -> Answer<'_, Vec<EventRecord>> {
        out(self.0.show(id), self.1.shown)
    }

    fn sent(&self, event_type: Option<String>, limit: u32, after: Option<Cursor>) -> Answer<'_, SentPage> {
        self.0.sent(into(event_type, self.1.of_type), limit, after)
    }

    fn groups(&self) -> Answer<'_, Vec<Group>> {
        out(self.0.groups(), self.1.groups)
    }

    fn act(&self, act: Act) -> Answer<'_, Chunk> {
        out(self.0.act(into(act, self.1.act)), self.1.chunk)
    }

    fn edit(&self, edit: Edit) -> Answer<'_, Chunk> {
        self.0.edit(into(edit, self.1.edit))
    }

    fn begin(&self, job: NewJob) -> Answer<'_, Job> {
        Console::begin(&self.0, into(job, self.1.begin))
    }

    fn step(&self, job: JobId, limit: u32) -> Answer<'_, Step> {
        self.0.step(job, into(limit, self.1.steps))
    }

    fn steer(&self, job: JobId, verb: JobVerb, actor: String) -> Answer<'_, Job> {
        self.0.steer(job, into(verb, self.1.steer), actor)
    }

    fn control(&self, control: Control, actor: String) -> Answer<'_, ()> {
        self.0.control(into(control, self.1.control), actor)
    }

    fn controls(&self) -> Answer<'_, Vec<InForce>> {
        out(self.0.controls(), self.1.in_force)
    }

    fn audit(&self, limit: u32, from: Option<Cursor>) -> Answer<'_, AuditPage> {
        out(self.0.audit(limit, from), self.1.audit)
    }

    forward_console!(0: jobs, note);
}

impl Upkeep for BrokenConsole {
    fn claim(&self, duty: Duty) -> Answer<'_, Claim> {
        out(self.0.claim(duty), self.1.claimed)
    }

    fn finish(&self, duty: Duty, note: String) -> Answer<'_, ()> {
        self.0.finish(duty, note)
    }

    fn past_duties(&self, prefix: String) -> Answer<'_, Vec<PastDuty>> {
        self.0.past_duties(prefix)
    }

    fn forget_duties(&self, seen: Vec<PastDuty>) -> Answer<'_, u64> {
        self.0.forget_duties(seen)
    }

    fn purge(&self, purge: Purge) -> Answer<'_, Purged> {
        out(self.0.purge(into(purge, self.1.purge)), self.1.purged)
    }

    fn history(&self, ask: HistoryAsk) -> Answer<'_, HistoryPage> {
        out(self.0.history(into(ask, self.1.ask)), self.1.history)
    }

    fn mark(&self, job: JobId, cursor: Cursor, rows: u64, done: bool) -> Answer<'_, Job> {
        self.0.mark(job, cursor, rows, done)
    }

    fn forgotten(&self, older_than: std::time::Duration) -> Answer<'_, Option<JobId>> {
        out(self.0.forgotten(older_than), self.1.forgotten)
    }

    fn restore(&self, job: JobId, rows: Vec<HistoryRow>, cursor: Cursor) -> Answer<'_, Job> {
        self.0.restore(job, into(rows, self.1.rows), cursor)
    }

    fn restored(&self, job: JobId) -> Answer<'_, u64> {
        out(self.0.restored(job), self.1.restored)
    }
}

/// Makes one test of a flaw and of the cases that must notice it.
macro_rules! caught {
    ($($name:ident { $($flaw:tt)* } by $($case:literal),+;)+) => {
        $(#[test]
        fn $name() {
            let broken = Memory {
                console: |store| Arc::new(BrokenConsole(store, Broken { $($flaw)*, ..Broken::default() })),
                upkeep: |store| Arc::new(BrokenConsole(store, Broken { $($flaw)*, ..Broken::default() })),
                ..Memory::plain(8)
            };
            noticed(broken, &[$($case),+]);
        })+
    };
}

caught! {
    stats_forget_what_is_parked { stats: Some(|stats| stats.parked.clear()) }
        by "console::stats_count_what_there_is";
    everything_is_listed { list: Some(|list| list.filter = Filter::default()) }
        by "find::every_filter_finds_what_it_says",
           "pages::pages_of_any_state_give_every_event_once_and_come_further";
    the_oldest_come_first { list: Some(|list| list.newest_first = false) }
        by "find::newest_first_is_the_reverse";
    pages_begin_anew { list: Some(|list| list.from = None) }
        by "pages::pages_of_any_state_give_every_event_once_and_come_further";
    pages_end_too_early { listing: Some(|listing| listing.next = None) }
        by "pages::pages_of_any_state_give_every_event_once_and_come_further",
           "console::a_listing_pages_through_everything_once";
    an_event_is_listed_without_its_last_state {
        listing: Some(|listing| listing.events.iter_mut().for_each(|record| drop(record.routes.remove(0))))
    } by "console::a_listing_shows_the_worst_state";
    one_record_is_shown { shown: Some(|records| records.truncate(1)) }
        by "console::a_reused_id_shows_every_record";
    originals_are_not_shown { shown: Some(|records| records.iter_mut().for_each(|record| record.original = None)) }
        by "edit::an_edit_keeps_the_original_and_the_order";
    nothing_is_told_of_an_event { shown: Some(|records| records.iter_mut().for_each(|record| record.timeline.clear())) }
        by "audit::a_timeline_is_in_order", "audit::a_timeline_has_what_was_done_to_many";
    the_history_is_of_any_type { of_type: Some(|event_type| *event_type = None) }
        by "console::the_history_is_read_by_type";
    failures_are_one_group { groups: Some(|groups| groups.truncate(1)) }
        by "console::failures_are_grouped_by_destination_and_kind", "find::failures_are_grouped_by_fingerprint";
    dry_runs_are_done { act: Some(|act| act.dry_run = false) }
        by "operate::a_dry_run_only_counts", "audit::a_dry_run_is_not_written_down";
    verbs_mean_everything { act: Some(|act| act.filter = Filter::default()) }
        by "operate::a_redriven_row_waits_behind_its_head";
    steps_are_not_bounded { act: Some(|act| act.limit = u32::MAX) }
        by "operate::a_bulk_verb_goes_on_where_it_stopped";
    verbs_end_where_they_stopped { chunk: Some(|chunk| chunk.next = None) }
        by "operate::a_bulk_verb_goes_on_where_it_stopped";
    refusals_are_not_told { chunk: Some(|chunk| chunk.refused.clear()) }
        by "operate::a_row_that_only_waits_is_not_redriven",
           "operate::a_verb_for_a_destination_is_refused_by_its_state",
           "schedule::what_is_not_scheduled_is_refused_with_its_state";
    edits_are_for_every_destination { edit: Some(|edit| edit.destination = None) }
        by "edit::an_edit_may_be_for_one_destination";
    nobody_did_it { edit: Some(|edit| edit.actor.clear()) }
        by "edit::an_edit_keeps_the_original_and_the_order";
    jobs_begin_twice { begin: Some(another_id) }
        by "hold::a_job_begins_once";
    jobs_mean_everything { begin: Some(|job| job.filter = Filter::default()) }
        by "replayed::a_replay_is_of_what_was_asked_for";
    jobs_are_done_in_one_step { steps: Some(|limit| *limit = u32::MAX) }
        by "job::a_job_goes_on_where_it_was_killed";
    jobs_are_never_cancelled { steer: Some(|verb| *verb = JobVerb::Resume) }
        by "job::a_cancelled_job_touches_nothing_more", "replay::a_cancelled_replay_takes_its_copies_back";
    a_key_is_paused_with_all_others { control: Some(pause_all) }
        by "control::a_paused_key_holds_its_key_only";
    a_paused_key_stays_paused { control: Some(never_resume) }
        by "control::a_paused_key_resumes_in_order";
    nobody_paused_it { in_force: Some(|all| all.iter_mut().for_each(|one| one.actor.clear())) }
        by "control::a_pause_says_who", "control::who_paused_it_is_kept";
    the_audit_forgets_how_many { audit: Some(|page| page.entries.iter_mut().for_each(|entry| entry.touched = 0)) }
        by "audit::what_people_did_is_written_down", "job::each_step_is_audited_with_its_job";
    the_audit_forgets_who { audit: Some(|page| page.entries.iter_mut().for_each(|entry| entry.actor.clear())) }
        by "audit::what_people_did_is_written_down";
    a_duty_is_everybodys { claimed: Some(|claim| *claim = Claim::Yours) }
        by "duty::a_duty_is_done_once_a_slot", "duty::a_slot_ahead_of_the_database_is_early";
    terms_are_ignored { purge: Some(|purge| purge.older_than = std::time::Duration::ZERO) }
        by "keep::the_audit_has_its_own_term", "history::what_was_restored_has_its_own_term";
    dry_purges_remove { purge: Some(|purge| purge.dry_run = false) }
        by "keep::a_dry_purge_only_counts";
    what_is_in_no_archive_goes { purge: Some(|purge| purge.before = None) }
        by "keep::a_purge_stops_at_the_end_of_the_archive";
    purges_do_not_say_what_holds_them { purged: Some(|purged| purged.held = None) }
        by "keep::a_purge_leaves_what_a_replay_has_still_to_read";
    the_history_is_of_any_time { ask: Some(|ask| ask.until = None) }
        by "history::history_is_asked_for_by_time";
    the_history_ends_too_early { history: Some(|page| page.next = None) }
        by "history::history_pages_give_every_row_once";
    forgotten_replays_are_not_told { forgotten: Some(|job| *job = None) }
        by "hold::a_replay_that_has_still_to_read_what_is_old_is_told";
    rows_are_restored_without_the_last { rows: Some(|rows| drop(rows.pop())) }
        by "replayed::a_restored_row_is_replayed_byte_exact";
    restored_rows_are_counted_as_written { restored: Some(|rows| *rows += 1) }
        by "history::what_was_restored_has_its_own_term";
}

/// From the second time on.
fn another_id(job: &mut NewJob) {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let number = GIVEN.fetch_add(1, Ordering::Relaxed);
    if number > 0 {
        job.id = JobId::from(format!("{}-{number}", job.id.as_str()).as_str());
    }
}

fn pause_all(control: &mut Control) {
    if let Control::Pause(Scope::Key(_)) = control {
        *control = Control::Pause(Scope::Outbox);
    }
}

fn never_resume(control: &mut Control) {
    if let Control::Resume(scope) = control {
        *control = Control::Pause(scope.clone());
    }
}
