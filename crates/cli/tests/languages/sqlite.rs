//! The same contract in a SQLite file, with what Python brings along.

use std::process::Command;

use postrider_testkit::process::scratch;
use serde_json::Value;

use crate::programs::{feed, folder};

const CONFIGURATION: &str = r#"
[outbox.main]
url = "sqlite:shop.db"

[broker.lines]
url = "file:lines.jsonl"

[[route]]
to = [{ broker = "lines" }]
"#;

/// The second order of the same id fails after its event was inserted, and takes the event with it.
const SCRIPT: &str = r#"
import sqlite3
import outbox_sqlite as outbox
shop = outbox.connect("shop.db")
shop.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER)")
outbox.place_order(shop, "O'Brien \\ é 😀", 1250)
shop.execute("BEGIN IMMEDIATE")
outbox.send(shop, "OrderPlaced", "ORDER", "rolled back", "{}")
shop.execute("ROLLBACK")
try:
    outbox.place_order(shop, "O'Brien \\ é 😀", 99)
    raise SystemExit("an id must not be taken twice")
except sqlite3.IntegrityError:
    pass
shop.execute("BEGIN IMMEDIATE")
outbox.send(shop, "Photographed", "ORDER", "bytes", payload_bytes=bytes(range(256)), headers='{"note": "é"}')
shop.execute("COMMIT")
"#;

#[test]
fn python_with_sqlite() {
    let directory = scratch("languages-sqlite").expect("a folder can be made");
    std::fs::write(directory.path().join("postrider.toml"), CONFIGURATION).expect("a file can be written");
    let postrider = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(arguments).current_dir(directory.path());
        feed(command, "");
    };
    postrider(&["migrate", "up"]);
    let mut python = Command::new("python3");
    python.args(["-B", "-"]).env("PYTHONPATH", folder("python"));
    python.env("PYTHONUTF8", "1").current_dir(directory.path());
    feed(python, SCRIPT);
    postrider(&["run", "--until-empty"]);

    let lines = std::fs::read_to_string(directory.path().join("lines.jsonl")).expect("there are lines");
    let bodies: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON")["body"].clone())
        .collect();
    assert_eq!(bodies.len(), 2, "{lines}");
    assert_eq!(bodies[0]["aggregate_id"], "O'Brien \\ é 😀");
    assert_eq!(bodies[0]["payload"]["total"], 1250);
    assert_eq!(bodies[1]["headers"]["note"], "é");
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(bodies[1]["payload_base64"], crate::commands::base64(&all));
}
