//! Bulk verbs are jobs: counted, resumable, audited.

use postrider_testkit::wait;
use serde_json::Value;

use crate::support::{ORDERS_ONLY, Place, Running};

/// So many dead events, each of a key of its own.
fn dead(count: usize) -> Place {
    let place = Place::ready(ORDERS_ONLY);
    let lines: Vec<String> = (0..count)
        .map(|n| {
            let aggregate = format!(r#""aggregate_type":"TICKET","aggregate_id":"{n}""#);
            format!(r#"{{"event_id":"dead-{n}","event_type":"A",{aggregate},"payload":{{"n":{n}}}}}"#)
        })
        .collect();
    place.pipe(&["send", "--lines"], &lines.join("\n")).expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    place
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The newest job, once it is so far.
fn begun(place: &Place, so_far: impl Fn(&Value) -> bool) -> String {
    wait::blocking(wait::PATIENCE, "the job is so far", || {
        let listed = place.run(&["job", "list", "-n", "1", "--json"]).expect(0);
        match lines(&listed.out).pop() {
            Some(job) if so_far(&job) => Ok(job["job"].as_str().unwrap().to_owned()),
            other => Err(other),
        }
    })
}

#[test]
fn a_bulk_redrive_is_one_job_and_one_line_of_the_audit() {
    let place = dead(1_200);
    place.mend();
    let done = place
        .run_with(
            &["dead", "redrive", "--all", "--yes", "--json"],
            &[("USER", "ann")],
        )
        .expect(0)
        .json();
    assert_eq!(
        (&done["touched"], &done["jobs"][0]["state"]),
        (&1_200.into(), &"done".into())
    );
    let job = done["jobs"][0]["job"].as_str().unwrap();
    let listed = place.run(&["job", "list", "--json"]).expect(0).json();
    assert_eq!((&listed["job"], &listed["touched"]), (&job.into(), &1_200.into()));
    place.run(&["job", "list"]).expect(0).says(job).says("redrive");
    place
        .run(&["job", "show", job])
        .expect(0)
        .says("cli:ann")
        .says("DEAD_LETTER");
    let audited = lines(&place.run(&["audit", "--json"]).expect(0).out);
    let redrive = audited.iter().find(|entry| entry["action"] == "redrive").unwrap();
    assert_eq!(
        (&redrive["touched"], &redrive["actor"], &redrive["job"]),
        (&1_200.into(), &"cli:ann".into(), &job.into())
    );
    assert!(redrive["steps"].as_u64() > Some(1), "{redrive}");
    place.run(&["audit"]).expect(0).says("cli:ann");
    for verb in ["resume", "pause", "cancel"] {
        place.run(&["job", verb, job]).expect(1).complains("it is done");
    }
    place
        .run(&["job", "show", "nothing"])
        .expect(1)
        .complains("no job with the id");
    place.run(&["run", "--until-empty"]).expect(0);
    assert_eq!(place.read("events.jsonl").lines().count(), 1_200);
}

/// A bulk verb that is killed goes on where it was: every event is redriven once.
#[test]
fn a_killed_redrive_is_resumed() {
    let place = dead(5_000);
    place.mend();
    let killed = Running::start(&place, &["dead", "redrive", "--all", "--yes"]);
    let id = begun(&place, |job| job["touched"] != 0);
    killed.end();
    let id = id.as_str();
    let shown = place.run(&["job", "show", id, "--json"]).expect(0).json();
    // On a fast machine it may have been done before it was killed.
    if shown["state"] == "running" {
        place
            .run(&["job", "resume", id])
            .expect(0)
            .says("done, 5000 deliveries");
    }
    let audited = lines(&place.run(&["audit", "--json"]).expect(0).out);
    let redrives: Vec<_> = audited
        .iter()
        .filter(|entry| entry["action"] == "redrive")
        .collect();
    assert_eq!(redrives.len(), 1, "{redrives:?}");
    assert_eq!(redrives[0]["touched"], 5_000);
    place.run(&["dead", "list"]).expect(0).says("no dead events");
    place.run(&["run", "--until-empty"]).expect(0);
    assert_eq!(place.read("events.jsonl").lines().count(), 5_000);
}

/// A command that is refused has changed nothing.
#[test]
fn a_rate_for_what_has_none_leaves_the_job_paused() {
    let place = dead(3);
    let killed = ["dead", "redrive", "--all", "--yes"];
    place
        .run_with(&killed, &[("POSTRIDER_CRASH_AT", "operator.inside:2")])
        .expect(-1);
    let id = begun(&place, |job| job["state"] == "running");
    place.run(&["job", "pause", &id]).expect(0);
    place
        .run(&["job", "resume", &id, "--rate", "5"])
        .expect(2)
        .complains("only a replay has a rate");
    let shown = place.run(&["job", "show", &id, "--json"]).expect(0).json();
    assert_eq!(shown["state"], "paused", "{shown}");
    place
        .run(&["job", "resume", &id])
        .expect(0)
        .says("done, 3 deliveries");
    place
        .run(&["job", "resume", &id])
        .expect(1)
        .complains("it is done")
        .complains("`postrider dead redrive`");
}

/// Ctrl-C pauses a job and says how it goes on.
#[test]
fn a_stopped_job_is_paused() {
    let place = Place::busy();
    // Without a relay a replay that is larger than what may wait beside the live flow cannot end.
    let lines: Vec<String> = (0..600)
        .map(|n| {
            let aggregate = format!(r#""aggregate_type":"ORDER","aggregate_id":"{n}""#);
            format!(r#"{{"event_type":"A",{aggregate},"payload":{{"n":{n}}}}}"#)
        })
        .collect();
    place.pipe(&["send", "--lines"], &lines.join("\n")).expect(0);
    place.run(&["run", "--until-empty"]).expect(1);
    let replay = ["replay", "--type", "A", "--rate", "99999", "--yes"];
    let running = Running::start(&place, &replay);
    let id = begun(&place, |job| job["touched"] == 512);
    let listed = place.run(&["job", "list", "-n", "1"]).expect(0).out;
    let cells: Vec<&str> = listed.lines().nth(1).unwrap_or_default().split("  ").collect();
    let cells: Vec<&str> = cells
        .iter()
        .map(|cell| cell.trim())
        .filter(|cell| !cell.is_empty())
        .collect();
    assert_eq!(
        cells[1..5],
        ["replay", "running", "512", "512"],
        "done and not sent: {listed}"
    );
    let status = place.run(&["status"]).expect(0);
    drop(status.says("is running, 512 done, 512 of them not sent; "));
    let status = place.run(&["status", "--json"]).expect(0).json();
    let job = &status["jobs"][0];
    assert_eq!((&job["touched"], &job["unsent"]), (&512.into(), &512.into()));
    let stopped = running.stop().expect(1);
    let stopped = stopped
        .says("paused after 512 deliveries")
        .says(&format!("postrider job resume {id}"));
    drop(stopped);
    let shown = place.run(&["job", "show", &id, "--json"]).expect(0).json();
    assert_eq!(
        (&shown["state"], &shown["unsent"]),
        (&"paused".into(), &512.into())
    );
    place
        .run(&["job", "show", &id])
        .expect(0)
        .says("published   until 20")
        .says("rate        99999 copies/s");
    place.run(&["job", "cancel", &id]).expect(0).says("cancelled");
    let shown = place.run(&["job", "show", &id, "--json"]).expect(0).json();
    assert_eq!(
        (&shown["touched"], &shown["unsent"]),
        (&0.into(), &0.into()),
        "what was taken back is not done"
    );
    place
        .run(&["events", "--replay", &id])
        .expect(0)
        .says("no events");
}

/// How many rows a job touched does not depend on how many lines are asked for, nor on how many steps it took.
#[test]
fn the_audit_counts_a_job_from_its_beginning() {
    let place = Place::ready(ORDERS_ONLY);
    let database = rusqlite::Connection::open(place.path("postrider.db")).unwrap();
    let write = |action: &str, job: &str, times: usize| {
        let sql = "INSERT INTO outbox_audit (actor, action, detail, touched, refused, job_id)
                   VALUES ('cli:ann', ?1, '{}', 2, 0, ?2)";
        for _ in 0..times {
            database.execute(sql, [action, job]).unwrap();
        }
    };
    database.execute_batch("BEGIN").unwrap();
    // The steps of the second job stand among those of the first, which is begun far behind the first page.
    write("replay", "old", 3);
    write("begin_job", "slow", 1);
    write("replay", "slow", 1_200);
    write("begin_job", "quick", 1);
    write("redrive", "quick", 1);
    write("replay", "slow", 300);
    database.execute_batch("COMMIT").unwrap();
    for lines_wanted in ["1", "2", "3", "50"] {
        let told = lines(&place.run(&["audit", "--json", "-n", lines_wanted]).expect(0).out);
        let told: Vec<_> = told
            .iter()
            .map(|one| {
                (
                    one["job"].as_str(),
                    one["touched"].as_u64(),
                    one["exact"].as_bool(),
                )
            })
            .collect();
        let all = [
            (Some("slow"), Some(3_000), Some(true)),
            (Some("quick"), Some(2), Some(true)),
            (Some("old"), Some(6), Some(false)),
        ];
        let wanted = lines_wanted.parse::<usize>().unwrap().min(all.len());
        assert_eq!(told, all[..wanted], "-n {lines_wanted}");
    }
    let told = place.run(&["audit"]).expect(0);
    drop(told.says("  3000  ").says("  at least 6  "));
}

/// Whoever goes on with a replay goes on as fast as it was begun, unless he says otherwise.
#[test]
fn a_resumed_replay_keeps_its_rate() {
    let place = Place::busy();
    let replay = ["replay", "--id", "order-1", "--rate", "7", "--yes", "--json"];
    let replay = place.run(&replay).expect(0).json();
    assert_eq!(replay["rate"], 7, "{replay}");
    let id = replay["job"].as_str().unwrap();
    place.run(&["job", "pause", id]).expect(0);
    let resumed = place.run(&["job", "resume", id, "--json"]).expect(0).json();
    assert_eq!(resumed["rate"], 7, "{resumed}");
    let faster = ["job", "resume", id, "--rate", "9", "--json"];
    assert_eq!(place.run(&faster).expect(0).json()["rate"], 9);
    let shown = place.run(&["job", "show", id, "--json"]).expect(0).json();
    assert_eq!(shown["rate"], 9, "{shown}");
    let audited = lines(&place.run(&["audit", "--json"]).expect(0).out);
    assert!(
        audited.iter().any(|entry| entry["action"] == "pace_job"),
        "{audited:?}"
    );
}
