//! Help is documentation: it is there for every command, and its examples work as they stand.

use crate::support::Place;

const COMMANDS: [&[&str]; 51] = [
    &["demo"],
    &["init"],
    &["migrate", "up"],
    &["migrate", "down"],
    &["migrate", "status"],
    &["migrate", "print"],
    &["config", "check"],
    &["config", "show"],
    &["route", "explain"],
    &["run"],
    &["listen"],
    &["notify", "run"],
    &["notify", "migrate", "up"],
    &["notify", "migrate", "print"],
    &["notify", "demo"],
    &["notify", "sign"],
    &["notify", "show"],
    &["send"],
    &["status"],
    &["show"],
    &["tail"],
    &["dead"],
    &["dead", "list"],
    &["dead", "show"],
    &["dead", "redrive"],
    &["dead", "edit"],
    &["dead", "discard"],
    &["events"],
    &["replay"],
    &["schedule"],
    &["schedule", "list"],
    &["schedule", "move"],
    &["schedule", "cancel"],
    &["pause"],
    &["resume"],
    &["limit"],
    &["job"],
    &["job", "list"],
    &["job", "show"],
    &["job", "resume"],
    &["job", "pause"],
    &["job", "cancel"],
    &["audit"],
    &["purge"],
    &["inbox", "migrate"],
    &["inbox", "forget"],
    &["inbox", "purge"],
    &["archive"],
    &["archive", "write"],
    &["archive", "verify"],
    &["archive", "restore"],
];

const LISTENER: &str = r#"
[broker.dead]
url = "file:dead.jsonl"

[listener.billing]
url = "http://127.0.0.1:8080/events"
broker = "events"
dead_letters = { broker = "dead" }
"#;

fn examples(place: &Place, command: &[&str]) -> Vec<String> {
    let help = place.run(&[command, &["--help"]].concat()).expect(0).out;
    let (_, rest) = help
        .split_once("Examples:\n")
        .unwrap_or_else(|| panic!("no examples: {command:?}\n{help}"));
    // A line that ends with a backslash goes on.
    let lines: Vec<&str> = rest.lines().take_while(|line| line.starts_with("  ")).collect();
    lines
        .join("\n")
        .replace("\\\n", "")
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

/// What an example may assume: nothing, a migrated outbox, or one with a published, a dead and a scheduled event; and
/// a job, which is not done because no relay sends its copies.
fn place_for(command: &[&str]) -> (Place, String) {
    let mut job = String::new();
    let place = match command {
        ["init"] | ["demo"] | ["notify", "demo"] => Place::empty(),
        ["notify", ..] => crate::notify::told(),
        ["show" | "tail" | "replay"] | ["archive" | "dead" | "job" | "schedule", ..] => Place::busy(),
        ["listen"] => {
            let config = format!("{}{LISTENER}", crate::support::ORDERS_ONLY);
            let place = Place::ready(&config);
            place.run(&["inbox", "migrate"]).expect(0);
            place
        }
        _ => Place::ready(crate::support::ORDERS_ONLY),
    };
    if matches!(command, ["job", rest @ ..] if rest != ["list"]) {
        let replay = ["replay", "--id", "order-1", "--yes", "--json"];
        job = place.run(&replay).expect(0).json()["job"]
            .as_str()
            .unwrap()
            .to_owned();
    }
    if let ["archive", rest @ ..] = command {
        place.age();
        // Without an archive there is nothing to verify or to restore.
        if matches!(rest, ["verify" | "restore"]) {
            place.run(&["archive", "write", "--dir", "archive"]).expect(0);
        }
    }
    (place, job)
}

#[test]
fn the_top_level_help_lists_the_commands_and_the_exit_codes() {
    let place = Place::empty();
    let help = place
        .run(&["--help"])
        .expect(0)
        .says("Exit codes:")
        .says("POSTRIDER__OUTBOX__MAIN__URL")
        .out;
    for command in COMMANDS {
        assert!(help.contains(command[0]), "{command:?}");
    }
    place.run(&["--version"]).expect(0).says("postrider ");
    place.run(&[]).expect(2).complains("Usage:");
    place.run(&["mirgate"]).expect(2).complains("migrate");
}

/// Lines that are broken by hand must not be broken again by a screen of the usual width.
#[test]
fn every_help_fits_a_narrow_screen() {
    let place = Place::empty();
    for command in [&[][..]].into_iter().chain(COMMANDS) {
        for flag in ["--help", "-h"] {
            let args = [command, &[flag]].concat();
            let help = place.run_with(&args, &[("COLUMNS", "80")]).expect(0).out;
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{command:?}\n{line}");
            }
            let orphan = |lines: &[&str]| lines[0].len() > 60 && !lines[1].is_empty() && lines[1].len() < 12;
            let lines: Vec<&str> = help.lines().collect();
            let bad: Vec<_> = lines
                .windows(3)
                .filter(|lines| orphan(lines) && !lines[2].is_empty())
                .collect();
            assert!(bad.is_empty(), "broken twice: {command:?}\n{bad:?}");
        }
    }
}

#[test]
fn every_command_has_json() {
    let place = Place::empty();
    for command in COMMANDS {
        place
            .run(&[command, &["--help"]].concat())
            .expect(0)
            .says("--json");
    }
}

#[test]
fn every_example_works_as_it_stands() {
    let place = Place::empty();
    for command in COMMANDS {
        let examples = examples(&place, command);
        assert!(!examples.is_empty(), "{command:?}");
        for example in examples {
            let (place, job) = place_for(command);
            let ran = place.shell_with(&example, &[("JOB", &job)]);
            assert_eq!(ran.code, 0, "{example}\n{}\n{}", ran.out, ran.err);
            let wants_json = example.contains("--json");
            for line in ran.out.lines().filter(|_| wants_json) {
                let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
                assert!(parsed.is_ok(), "{example}\n{line}");
            }
        }
    }
}
