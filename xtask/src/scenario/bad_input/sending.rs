//! Events that `postrider send` refuses, ids that come twice, and that a refusal sends nothing.

use std::path::Path;

use super::trial::{CONFIGURATION, Trial};
use crate::failure::Result;

pub(super) fn play(trial: &mut Trial<'_>) -> Result<()> {
    let directory = trial.directory("sending", CONFIGURATION)?;
    trial.expect("sending", &directory, &["migrate", "up"], 0, &[])?;

    let not_json = [
        "send",
        "--type",
        "A",
        "--aggregate",
        "T/1",
        "--payload",
        "{\"a\":",
    ];
    trial.expect(
        "not-json",
        &directory,
        &not_json,
        2,
        &["payload", "is not JSON", "nothing was sent"],
    )?;
    let empty_key = ["send", "--type", "A", "--aggregate", "T/1", "--key", ""];
    trial.expect(
        "empty-key",
        &directory,
        &empty_key,
        2,
        &["event_key", "is empty", "nothing was sent"],
    )?;
    let negative = ["send", "--type", "A", "--aggregate", "T/1", "--delay=-1s"];
    trial.expect(
        "negative-delay",
        &directory,
        &negative,
        2,
        &["must not be negative"],
    )?;

    let nul = "the control character U+0000";
    lines(
        trial,
        &directory,
        "nul-in-id",
        br#""event_id":"a\u0000b""#,
        &["line 2", "event_id", nul],
    )?;
    lines(
        trial,
        &directory,
        "nul-in-header",
        br#""headers":{"h":"\u0000"}"#,
        &["line 2", "headers", nul],
    )?;
    lines(
        trial,
        &directory,
        "bytes-in-id",
        b"\"event_id\":\"a\xff\"",
        &["line 2", "UTF-8"],
    )?;
    lines(
        trial,
        &directory,
        "bytes-in-header",
        b"\"headers\":{\"h\":\"\xff\"}",
        &["line 2", "UTF-8"],
    )?;
    nothing_left(trial, &directory)?;

    ids(trial, &directory)
}

/// A good line before a bad one: neither is sent.
fn lines(trial: &mut Trial<'_>, directory: &Path, case: &str, field: &[u8], words: &[&str]) -> Result<()> {
    let good: &[u8] = br#"{"event_type":"A","aggregate_type":"T","aggregate_id":"1","payload":{}"#;
    let input = [good, b"}\n", good, b",", field, b"}\n"].concat();
    let said = trial.say(directory, &["send", "--lines"], &input)?;
    trial.judge(case, &said, 2, words);
    Ok(())
}

fn nothing_left(trial: &mut Trial<'_>, directory: &Path) -> Result<()> {
    trial.expect(
        "refused-is-not-sent",
        directory,
        &["status", "--json"],
        0,
        &["\"queued\":0"],
    )?;
    trial.expect(
        "refused-is-not-sent",
        directory,
        &["run", "--until-empty"],
        0,
        &["0 published"],
    )
}

/// An id used twice, with the same content and with other content, while queued and after it was published.
fn ids(trial: &mut Trial<'_>, directory: &Path) -> Result<()> {
    let same = [
        "send",
        "--type",
        "A",
        "--aggregate",
        "T/1",
        "--id",
        "x",
        "--payload",
        "{\"n\":1}",
    ];
    let other = [
        "send",
        "--type",
        "A",
        "--aggregate",
        "T/1",
        "--id",
        "x",
        "--payload",
        "{\"n\":2}",
    ];
    let refused = ["\"x\"", "is queued already", "nothing was sent"];
    trial.expect("id", directory, &same, 0, &[])?;
    trial.expect("id-used-twice", directory, &same, 2, &refused)?;
    trial.expect("id-with-other-content", directory, &other, 2, &refused)?;
    trial.expect("id", directory, &["run", "--until-empty"], 0, &["1 published"])?;

    trial.expect("id-sent-again", directory, &same, 0, &[])?;
    trial.expect(
        "id-sent-again",
        directory,
        &["run", "--until-empty"],
        0,
        &["0 published, 1 duplicate"],
    )?;
    trial.expect("id-reused", directory, &other, 0, &[])?;
    trial.expect(
        "id-reused",
        directory,
        &["run", "--until-empty"],
        1,
        &["0 published", "1 dead"],
    )?;
    let listed = [
        "id_reused",
        "published before with another payload",
        "insert this one anew",
    ];
    trial.expect("id-reused", directory, &["dead", "list"], 0, &listed)?;
    // A person decides that it is right after all: it is published, not lost.
    trial.expect(
        "id-reused",
        directory,
        &["dead", "redrive", "x"],
        0,
        &["1 delivery redriven"],
    )?;
    trial.expect(
        "id-reused",
        directory,
        &["run", "--until-empty"],
        0,
        &["1 published"],
    )?;
    let text = std::fs::read_to_string(directory.join("lines.jsonl"))?;
    let arrived = |payload: &str| text.lines().filter(|line| line.contains(payload)).count();
    let (first, second) = (arrived("\"payload\":{\"n\":1}"), arrived("\"payload\":{\"n\":2}"));
    trial.check("id-reused", (first, second) == (1, 1), || {
        format!("not one line of each: {text}")
    });
    Ok(())
}
