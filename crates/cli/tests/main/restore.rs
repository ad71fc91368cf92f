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
    place
        .run(&[&replay[..], &["--yes"]].concat())
        .expect(1)
        .says("done, 0 deliveries")
        .complains(&format!("nothing of the restore {job} is left"))
        .complains("`postrider archive restore`");
}
