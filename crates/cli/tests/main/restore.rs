//! An archive is read back by a job, which goes on where its files are.

use crate::support::{Place, Ran};

const RESTORE: [&str; 4] = ["archive", "restore", "--dir", "archive"];

/// With an archive of one event, and a restore of it that was killed before it had put anything back.
fn begun() -> (Place, String) {
    let place = Place::busy();
    place.age();
    place
        .run(&["archive", "write", "--dir", "archive"])
        .expect(0)
        .says("1 row");
    place
        .run_with(&RESTORE, &[("POSTRIDER_CRASH_AT", "operator.inside:2")])
        .expect(-1);
    let job = place.run(&["job", "list", "--json"]).expect(0).json();
    let job = job["job"].as_str().unwrap().to_owned();
    (place, job)
}

fn restore(place: &Place, job: &str) -> Ran {
    place.run(&[&RESTORE[..], &["--job", job]].concat())
}

/// Each refusal names the command that works.
#[test]
fn a_restore_that_was_paused_goes_on() {
    let (place, job) = begun();
    place
        .run(&["job", "pause", &job])
        .expect(0)
        .says("archive restore --job");
    let by = format!("`postrider archive restore --job {job}`");
    place.run(&["job", "resume", &job]).expect(2).complains(&by);
    place
        .run(&["replay", "--restored", &job, "--yes"])
        .expect(1)
        .complains("is paused")
        .complains(&by);
    let elsewhere = ["archive", "restore", "--dir", "elsewhere", "--job", &job];
    place.run(&elsewhere).expect(1);
    let shown = place.run(&["job", "show", &job, "--json"]).expect(0).json();
    assert_eq!(
        shown["state"], "paused",
        "without its files it does not go on: {shown}"
    );
    restore(&place, &job).expect(0).says("1 row restored");
    place
        .run(&["job", "resume", &job])
        .expect(1)
        .complains("it is done")
        .complains(&format!("`postrider replay --restored {job}`"));
    place.run(&["replay", "--restored", &job, "--yes"]).expect(0);
}

#[test]
fn a_restore_that_was_cancelled_says_what_begins_another_one() {
    let (place, job) = begun();
    place.run(&["job", "cancel", &job]).expect(0);
    for ran in [
        restore(&place, &job),
        place.run(&["job", "resume", &job]),
        place.run(&["replay", "--restored", &job, "--yes"]),
    ] {
        drop(
            ran.expect(1)
                .complains("is cancelled")
                .complains("`postrider archive restore`"),
        );
    }
    place.run(&RESTORE).expect(0).says("1 row restored");
}

/// A script that looks for damage needs one exit code for it.
#[test]
fn a_damaged_archive_is_a_problem_that_was_found() {
    let place = Place::busy();
    place.age();
    place.run(&["archive", "write", "--dir", "archive"]).expect(0);
    let flip = "for part in $(find archive -name '*.gz'); do printf x >> $part; done";
    place.shell(flip).expect(0);
    place.run(&["archive", "verify", "--dir", "archive"]).expect(1);
    place
        .run(&RESTORE)
        .expect(1)
        .complains("`postrider archive verify`");
    place.run(&["job", "list"]).expect(0).says("no jobs");
}

/// It must not look as if everything had been sent.
#[test]
fn what_was_read_back_and_removed_is_not_replayed_in_silence() {
    let (place, job) = begun();
    restore(&place, &job).expect(0);
    let replay = ["replay", "--restored", &job];
    place
        .run(&replay)
        .expect(2)
        .complains("of the rows that were restored, what was published and is still there");
    let other = [&replay[..], &["--type", "Other", "--yes"]].concat();
    place
        .run(&other)
        .expect(1)
        .complains("that the other options mean");
    place
        .run(&["purge", "--what", "restored", "--older-than", "0s", "--yes"])
        .expect(0)
        .says("1 row");
    for also in ["--dry-run", "--yes"] {
        place
            .run(&[&replay[..], &[also]].concat())
            .expect(1)
            .complains(&format!("nothing of the restore {job} is left"))
            .complains("`postrider archive restore`");
    }
}

/// Rows go one by one when they are past their term, and the rest of a restore must not look like all of it.
#[test]
fn a_restore_of_which_a_part_is_left_is_not_replayed() {
    let place = Place::busy();
    place.send("order-2", "ORDER/2", "{}").expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    place.age();
    place
        .run(&["archive", "write", "--dir", "archive"])
        .expect(0)
        .says("2 rows");
    place.run(&RESTORE).expect(0).says("2 rows restored");
    let job = place.run(&["job", "list", "--json"]).expect(0).json();
    let job = job["job"].as_str().unwrap().to_owned();
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let older =
        "UPDATE outbox_restored SET restored_at = restored_at - 7200000000 WHERE event_id = 'order-1'";
    assert_eq!(database.execute(older, []).unwrap(), 1);
    place
        .run(&["purge", "--what", "restored", "--older-than", "1h", "--yes"])
        .expect(0)
        .says("1 row");
    for also in ["--dry-run", "--yes"] {
        place
            .run(&["replay", "--restored", &job, also])
            .expect(1)
            .complains(&format!("of the 2 rows of the restore {job} only 1 are left"))
            .complains("`postrider archive restore`");
    }
    let told = restore(&place, &job).expect(1).says("only a part of it is left");
    assert!(!told.out.contains("replay --restored"), "{}", told.out);
    let jobs = place.run(&["job", "list", "--json"]).expect(0);
    assert_eq!(jobs.out.lines().count(), 1, "no replay was begun: {}", jobs.out);
    place.run(&RESTORE).expect(0);
    let jobs = place.run(&["job", "list", "--json"]).expect(0).out;
    let anew: serde_json::Value = serde_json::from_str(jobs.lines().next().unwrap()).unwrap();
    let replay = ["replay", "--restored", anew["job"].as_str().unwrap(), "--yes"];
    place.run(&replay).expect(0).says("2 deliveries");
}

/// An event that was named is not passed over because others were found.
#[test]
fn an_event_that_was_named_and_not_restored_is_told() {
    let (place, job) = begun();
    restore(&place, &job).expect(0);
    let dry = ["replay", "--restored", &job, "--dry-run"];
    let ran = place.run(&dry).expect(0).says("at most ");
    assert!(!ran.out.contains("leave out"), "{}", ran.out);
    let ran = place.run(&[&dry[..], &["--key", "ORDER/1"]].concat()).expect(0);
    drop(ran.says("how many of them the other options leave out is not counted before"));
    let named = ["replay", "--restored", &job, "--yes", "--id", "order-1"];
    place.run(&named).expect(0).says("1 delivery");
    let others = [&named[..], &["--id", "nope", "--id", "nope"]].concat();
    let ran = place.run(&others).expect(1).says("1 delivery");
    let ran = ran.complains("nope: nothing of it that was published is left of the restore");
    assert_eq!(ran.err.matches("nope").count(), 1, "{}", ran.err);
    let json = place.run(&[&others[..], &["--json"]].concat()).expect(1).json();
    assert_eq!(
        (&json["touched"], &json["not_sent"][0]["event_id"]),
        (&1.into(), &"nope".into()),
        "{json}"
    );
}

/// The job still knows how many rows it restored; where they are gone it must not promise them.
#[test]
fn a_restore_whose_rows_were_removed_says_how_to_read_them_back() {
    let (place, job) = begun();
    let promised = format!("`postrider replay --restored {job}` sends those");
    restore(&place, &job).expect(0).says(&promised);
    restore(&place, &job)
        .expect(0)
        .says("1 row restored before")
        .says(&promised);
    let purge = ["purge", "--what", "restored", "--older-than", "0s", "--yes"];
    place.run(&purge).expect(0).says("1 row");
    let told = restore(&place, &job).expect(1).says("nothing of it is left");
    let told = told.says("`postrider archive restore` without --job");
    assert!(!told.out.contains("replay --restored"), "{}", told.out);
    let json = [&RESTORE[..], &["--job", &job, "--json"]].concat();
    let json = place.run(&json).expect(1).json();
    assert_eq!((&json["rows"], &json["left"]), (&1.into(), &0.into()), "{json}");
    place.run(&RESTORE).expect(0).says("1 row restored");
}

/// Whether somebody is at it cannot be seen in the database.
#[test]
fn a_job_that_is_running_is_not_said_to_be_abandoned() {
    let (place, job) = begun();
    let by = format!("`postrider archive restore --job {job}`");
    let status = place.run(&["status"]).expect(0);
    drop(status.says(&format!("is running, 0 done; if nobody drives it any more, {by}")));
    let shown = place.run(&["job", "show", &job]).expect(0).says(&by);
    drop(shown.says("with the same --dir, if nobody drives it any more"));
    place.run(&["job", "pause", &job]).expect(0);
    let status = place.run(&["status"]).expect(0);
    drop(status.says(&format!("is paused, 0 done; go on with {by}")));
}
