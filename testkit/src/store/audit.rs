//! What people did, as the database remembers it.

use std::time::Duration;

use postrider_core::{
    Act, AuditEntry, Control, Cursor, Edit, ErrorKind, EventId, Failure, Filter, JobKind, Kept, Leaves,
    Moment, Park, Payload, Purge, Replay, Restore, Scope, Settled, Then, Verb, What,
};

use super::bench::Bench;
use super::job::{ANN, begun, clock_goes_on, to_the_end};
use super::words::{dead, event, parks_as, refused, sent, to, waiting};
use crate::wait::eventually;

pub(super) async fn what_people_did_is_written_down(bench: Bench) {
    bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    let console = bench.console();
    act(&bench, Verb::Redrive, "a").await;
    let pause = Control::Pause(Scope::Outbox);
    console.control(pause, ANN.to_owned()).await.expect("paused");
    act(&bench, Verb::Discard("a test".into()), "a").await;
    let by_hand = Purge {
        actor: Some(ANN.to_owned()),
        ..Purge::of(Kept::History, Duration::ZERO, 10)
    };
    eventually("what was discarded is purged", async || {
        let purged = bench.upkeep().purge(by_hand.clone()).await.expect("purged");
        (purged.rows > 0).then_some(())
    })
    .await;
    // That nothing was left to be purged is not worth a line.
    let again = bench.upkeep().purge(by_hand).await.expect("purged");
    assert_eq!(again.rows, 0);
    let entries = pages(&bench, 3).await;
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["purge", "discard", "pause", "redrive"], "newest first");
    assert!(
        entries
            .iter()
            .all(|entry| entry.actor == ANN && entry.job.is_none())
    );
    assert!(entries.is_sorted_by(|later, earlier| later.at >= earlier.at));
    let about: Vec<_> = entries
        .iter()
        .map(|entry| (entry.touched, entry.event_id.clone()))
        .collect();
    let a = Some(EventId::from("a"));
    assert_eq!(about[1], (1, a.clone()));
    assert_eq!(about[3], (1, a));
    assert!(
        entries[1].detail.contains("a test"),
        "with its reason: {}",
        entries[1].detail
    );
}

pub(super) async fn the_audit_has_no_payloads(bench: Bench) {
    bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    edit(&bench, "a", "{\"secret\":1}").await;
    let entries = pages(&bench, 10).await;
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].action.as_str(), entries[0].touched), ("edit", 1));
    assert_eq!(entries[0].event_id, Some("a".into()));
    assert!(!entries[0].detail.contains("secret"), "{}", entries[0].detail);
}

pub(super) async fn a_dry_run_is_not_written_down(bench: Bench) {
    bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    let dry = Act {
        dry_run: true,
        ..of(Verb::Redrive, "a")
    };
    bench.console().act(dry).await.expect("counted");
    assert!(pages(&bench, 10).await.is_empty());
}

pub(super) async fn a_timeline_is_in_order(bench: Bench) {
    let parks = [
        (event("a", "k"), refused("d", Duration::ZERO)),
        (event("b", "k"), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    let due = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&due, Then::Again(dead(Some("d")))).await,
        Settled::Done
    );
    act(&bench, Verb::Redrive, "a").await;
    edit(&bench, "a", "{\"n\":1}").await;
    let whats = timeline(&bench, "a").await;
    for what in [What::Enqueued, What::FirstFailed, What::Redriven, What::Edited] {
        assert!(whats.contains(&what), "{what:?} is missing from {whats:?}");
    }
    let due = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&due, Then::Sent(Default::default())).await,
        Settled::Done
    );
    let whats = timeline(&bench, "a").await;
    assert_eq!(whats.last(), Some(&What::Published), "{whats:?}");
    assert!(
        whats.contains(&What::Redriven),
        "a person's deed outlives the row: {whats:?}"
    );
    let other = timeline(&bench, "b").await;
    assert!(
        other.contains(&What::Enqueued) && !other.contains(&What::Redriven),
        "{other:?}"
    );
    assert!(
        whats.contains(&What::LastFailed),
        "so does its failure: {whats:?}"
    );
    act(&bench, Verb::Discard("no".into()), "b").await;
    assert_eq!(
        who(&bench, "b", What::Discarded).await,
        [ANN],
        "and who threw it away"
    );
}

/// Sent to one destination and refused at another, it was routed anew to where it had been sent: nothing is left of the
/// row that somebody redrove, but that somebody did.
pub(super) async fn a_timeline_has_a_redrive_of_what_turned_out_to_be_sent(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let mut entry = sent(&rows[0], &["d"]);
    if let Leaves::Decided { parked, .. } = &mut entry.leaves {
        parked.push(dead(Some("gone")));
    }
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    act(&bench, Verb::Redrive, "a").await;
    let due = relay.due().await.remove(0);
    assert_eq!(relay.settle_parked(&due, Then::Duplicate).await, Settled::Done);
    assert_eq!(who(&bench, "a", What::Redriven).await, [ANN]);
}

/// A verb for many writes nothing for each, but who it was can be told of each.
pub(super) async fn a_timeline_has_what_was_done_to_many(bench: Bench) {
    let parks = [
        (event("a", "k"), dead(Some("d"))),
        (event("b", "l"), dead(Some("d"))),
        (event("c", "m"), dead(Some("d"))),
        (event("waits", "k"), waiting("d")),
    ];
    bench.parked(&parks).await;
    let filter = |keys: &[&str]| Filter {
        key: keys.iter().map(|key| format!("THING/{key}")).collect(),
        ..Filter::default()
    };
    let job = begun(&bench, JobKind::Act(Verb::Redrive), filter(&["k", "l"])).await;
    to_the_end(&bench.console(), &job.id, 10).await;
    for id in ["a", "b"] {
        assert_eq!(who(&bench, id, What::Redriven).await, [ANN], "{id}");
    }
    for id in ["c", "waits"] {
        assert!(
            who(&bench, id, What::Redriven).await.is_empty(),
            "{id} was not meant"
        );
    }
    let discard = JobKind::Act(Verb::Discard("old".to_owned()));
    let job = begun(&bench, discard, filter(&["m"])).await;
    to_the_end(&bench.console(), &job.id, 10).await;
    assert_eq!(who(&bench, "c", What::Discarded).await, [ANN]);
    let shown = bench.console().show("c".into()).await.expect("shown").remove(0);
    let discarded = shown
        .timeline
        .iter()
        .find(|moment| moment.what == What::Discarded);
    assert_eq!(discarded.map(|moment| moment.detail.as_str()), Some("old"));
}

/// A job means what had failed when it began, however long it goes on.
pub(super) async fn a_timeline_has_no_redrive_before_the_first_failure(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("meant", "k"), dead(Some("d")))]).await;
    bench.commit(&[event("later", "l")]).await;
    let job = begun(&bench, JobKind::Act(Verb::Redrive), Filter::default()).await;
    clock_goes_on(&bench, &job).await;
    let row = relay.queued().await.remove(0);
    let dies = relay.settle_one(parks_as(&row, vec![dead(Some("d"))])).await;
    assert_eq!(dies, Settled::Done);
    clock_goes_on(&bench, &job).await;
    assert_eq!(to_the_end(&bench.console(), &job.id, 10).await.touched, 1);
    assert_eq!(who(&bench, "meant", What::Redriven).await, [ANN]);
    assert!(who(&bench, "later", What::Redriven).await.is_empty());
}

/// What a job redrove fails again, and is redriven by another, and sent. What was redriven by name and waits behind it
/// was not tried since, so no job about what fails takes it.
pub(super) async fn a_timeline_keeps_what_was_done_to_many(bench: Bench) {
    let parks = [
        (event("a", "k"), dead(Some("d"))),
        (event("b", "k"), dead(Some("d"))),
    ];
    let (relay, _) = bench.parked(&parks).await;
    act(&bench, Verb::Redrive, "b").await;
    let failing = Filter {
        failing_for: Some(Duration::ZERO),
        ..Filter::default()
    };
    for _ in 0..2 {
        let job = begun(&bench, JobKind::Act(Verb::Redrive), failing.clone()).await;
        assert_eq!(to_the_end(&bench.console(), &job.id, 10).await.touched, 1);
        clock_goes_on(&bench, &job).await;
        let row = relay.due().await.remove(0);
        let then = Then::Again(dead(Some("d")));
        assert_eq!(relay.settle_parked(&row, then).await, Settled::Done);
        clock_goes_on(&bench, &job).await;
    }
    act(&bench, Verb::Redrive, "a").await;
    let row = relay.due().await.remove(0);
    let then = Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&row, then).await, Settled::Done);
    assert_eq!(who(&bench, "a", What::Redriven).await, [ANN, ANN, ANN]);
    assert_eq!(who(&bench, "b", What::Redriven).await, [ANN]);
    // It might have been tried and refused before, so nobody can say any more that no job took it.
    let row = relay.due().await.remove(0);
    let then = Then::Again(dead(Some("d")));
    assert_eq!(relay.settle_parked(&row, then).await, Settled::Done);
    let shown = bench.console().show("b".into()).await.expect("shown").remove(0);
    let redriven = |moment: &&Moment| moment.what == What::Redriven;
    let sure = |moment: &&Moment| !moment.detail.contains("if it had failed");
    assert_eq!(
        shown.timeline.iter().filter(redriven).filter(sure).count(),
        1,
        "{:?}",
        shown.timeline
    );
}

/// A job about one group is told of what was in it, whatever became of that since, and of nothing else.
pub(super) async fn a_timeline_has_the_jobs_of_its_own_group(bench: Bench) {
    let other = || {
        Park::dead(
            Some(to("d")),
            Failure::new(ErrorKind::Rejected, "wants another colour"),
        )
    };
    let meant = dead(Some("d"));
    let group = meant
        .failure
        .as_ref()
        .map(|failure| failure.group(Some(&to("d"))));
    let (relay, _) = bench
        .parked(&[(event("a", "k"), meant), (event("b", "l"), other())])
        .await;
    let of_group = Filter {
        error_group: group,
        ..Filter::default()
    };
    let job = begun(&bench, JobKind::Act(Verb::Redrive), of_group).await;
    assert_eq!(to_the_end(&bench.console(), &job.id, 10).await.touched, 1);
    clock_goes_on(&bench, &job).await;
    let row = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&row, Then::Again(other())).await,
        Settled::Done
    );
    assert_eq!(
        who(&bench, "a", What::Redriven).await,
        [ANN],
        "it failed otherwise since"
    );
    act(&bench, Verb::Redrive, "b").await;
    let row = relay.due().await.remove(0);
    let then = Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&row, then).await, Settled::Done);
    assert_eq!(who(&bench, "b", What::Redriven).await, [ANN], "by its name alone");
}

/// Who did this to an event, each time.
async fn who(bench: &Bench, id: &str, what: What) -> Vec<String> {
    let shown = bench.console().show(id.into()).await.expect("shown").remove(0);
    let moments = shown.timeline.into_iter().filter(|moment| moment.what == what);
    moments.filter_map(|moment| moment.actor).collect()
}

/// The audit knows the id alone, which a copy shares with the event that was sent.
pub(super) async fn what_is_done_to_a_copy_is_told_of_the_copy(bench: Bench) {
    let relay = super::replay::history(&bench, &[event("a", "k")]).await;
    let again = Replay {
        to: Some(to("miss")),
        ..Replay::default()
    };
    let job = super::replay::replay(&bench, again, Filter::default()).await;
    bench.console().step(job.id.clone(), 10).await.expect("a step");
    let die = async || {
        let copy = relay.due().await.remove(0);
        let then = Then::Again(dead(Some("miss")));
        assert_eq!(relay.settle_parked(&copy, then).await, Settled::Done);
    };
    let told = async || {
        let mut told: [Vec<What>; 2] = Default::default();
        for record in bench.console().show("a".into()).await.expect("shown") {
            let by_people = record.timeline.iter().filter(|moment| moment.actor.is_some());
            told[usize::from(record.replay.is_some())].extend(by_people.map(|moment| moment.what));
        }
        told
    };
    die().await;
    // An audit may keep milliseconds only, and the event itself was sent in one of them.
    eventually("the clock goes on", async || {
        let kind = JobKind::Restore(Restore::default());
        let later = begun(&bench, kind, Filter::default()).await;
        (later.begun_at.0 >= job.begun_at.0 + 1_000).then_some(())
    })
    .await;
    act(&bench, Verb::Redrive, "a").await;
    assert_eq!(told().await, [vec![], vec![What::Redriven]]);
    die().await;
    edit(&bench, "a", "{\"n\":1}").await;
    let both = [vec![], vec![What::Redriven, What::Edited]];
    assert_eq!(told().await, both);
    let copy = relay.due().await.remove(0);
    let then = Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&copy, then).await, Settled::Done);
    assert_eq!(told().await, both, "when it has left");
}

/// What happened to the one event with this id.
async fn timeline(bench: &Bench, id: &str) -> Vec<What> {
    let mut shown = bench.console().show(id.into()).await.expect("shown");
    let moments = shown.remove(0).timeline;
    // Of what is planned nothing has happened yet; its time may be any.
    let past: Vec<_> = moments
        .iter()
        .filter(|moment| moment.what != What::NextAttempt)
        .collect();
    assert!(past.is_sorted_by_key(|moment| moment.at), "{moments:?}");
    for moment in &past {
        let by_a_person = matches!(moment.what, What::Redriven | What::Edited | What::Moved);
        assert!(!by_a_person || moment.actor.as_deref() == Some(ANN), "{moment:?}");
    }
    past.iter().map(|moment| moment.what).collect()
}

/// The whole audit, by pages.
async fn pages(bench: &Bench, limit: u32) -> Vec<AuditEntry> {
    let (mut all, mut from): (Vec<AuditEntry>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = bench.console().audit(limit, from).await.expect("the audit");
        assert!(page.entries.len() <= limit as usize);
        all.extend(page.entries);
        from = page.next;
        if from.is_none() {
            return all;
        }
        assert!(all.len() < 1_000, "the audit does not end");
    }
}

fn of(verb: Verb, id: &str) -> Act {
    Act {
        actor: ANN.to_owned(),
        filter: Filter {
            event_id: vec![id.into()],
            ..Filter::default()
        },
        ..crate::by_hand::act(verb, id)
    }
}

async fn act(bench: &Bench, verb: Verb, id: &str) {
    let chunk = bench.console().act(of(verb, id)).await.expect("an act");
    assert_eq!(chunk.touched, 1);
}

async fn edit(bench: &Bench, id: &str, json: &str) {
    let edit = Edit {
        event_id: id.into(),
        destination: None,
        payload: Payload::Text(json.to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    };
    assert_eq!(bench.console().edit(edit).await.expect("an edit").touched, 1);
}
