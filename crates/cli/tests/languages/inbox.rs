//! The recipes of `docs/exactly-one-effect.md` for consumers in other languages, run as they stand: the table is made
//! by `postrider migrate print --inbox`, and what they record is what `postrider inbox` sees.

use std::path::Path;
use std::process::Command;

use postrider_testkit::process::scratch;
use postrider_testkit::servers::Postgres;

use crate::install;
use crate::programs::{feed, folder};

/// Twice in sequence, a failure in between, a reused id, and threads that deliver the same at once.
const CHECKS: &str = r#"
connection = connect()
connection.execute(CHARGES)
connection.commit()
for _ in range(3):
    inbox.charge(connection, "a 'é' 😀", "1111", "order-1", 1250)
inbox.charge(connection, "a 'é' 😀", None, "order-1", 1250)
try:
    inbox.charge(connection, "a 'é' 😀", "2222", "order-1", 99)
    raise SystemExit("another payload under one id must be an error")
except inbox.ReusedId:
    pass
try:
    inbox.charge(connection, "b", None, "order-2", "not a number")
    raise SystemExit("the effect must fail")
except driver.Error:
    pass
inbox.charge(connection, "b", None, "order-2", 7)

def deliver():
    own = connect()
    for n in range(20):
        inbox.charge(own, f"many {n}", None, f"order {n}", 1)
    own.close()

threads = [threading.Thread(target=deliver) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
found = connection.execute("SELECT order_id, count(*), sum(amount) FROM charges GROUP BY order_id").fetchall()
wanted = [("order-1", 1, 1250), ("order-2", 1, 7)] + [(f"order {n}", 1, 1) for n in range(20)]
assert sorted(map(tuple, found)) == sorted(wanted), found
"#;

const POSTGRES: &str = r#"
import sys, threading
import psycopg as driver
import inbox
connect = lambda: driver.connect(sys.argv[1])
CHARGES = "CREATE TABLE charges (order_id text, amount integer)"
"#;

const SQLITE: &str = r#"
import sys, threading
import sqlite3 as driver
import inbox_sqlite as inbox
connect = lambda: inbox.connect(sys.argv[1])
CHARGES = "CREATE TABLE charges (order_id TEXT, amount INTEGER CHECK (typeof(amount) = 'integer'))"
"#;

#[test]
fn python_consumes_once_with_postgresql() {
    let directory = scratch("languages-inbox").expect("a folder can be made");
    let database = Postgres::shared().database();
    let installed = install::python();
    configure(directory.path(), &database.url);
    let sql = postrider(directory.path(), &["migrate", "print", "--inbox"]);
    Postgres::shared().sql(&database.name, &sql);
    let mut python = Command::new(installed.join("venv/bin/python"));
    python.args(["-B", "-", &database.url]);
    run(python, directory.path(), &format!("{POSTGRES}{CHECKS}"));
    sees_its_records(directory.path());
}

#[test]
fn python_consumes_once_with_sqlite() {
    let directory = scratch("languages-inbox-sqlite").expect("a folder can be made");
    configure(directory.path(), "sqlite:billing.db");
    let sql = postrider(directory.path(), &["migrate", "print", "--inbox"]);
    std::fs::write(directory.path().join("inbox.sql"), sql).expect("a file can be written");
    let made = "import sqlite3; sqlite3.connect('billing.db').executescript(open('inbox.sql').read())\n";
    let mut python = Command::new("python3");
    python.args(["-B", "-", "billing.db"]);
    run(python, directory.path(), &format!("{made}{SQLITE}{CHECKS}"));
    sees_its_records(directory.path());
}

fn configure(directory: &Path, url: &str) {
    let configuration = format!("[inbox.billing]\nurl = \"{url}\"\n");
    std::fs::write(directory.join("postrider.toml"), configuration).expect("a file can be written");
}

fn run(mut python: Command, directory: &Path, script: &str) {
    python.env("PYTHONPATH", folder("python")).env("PYTHONUTF8", "1");
    python.current_dir(directory);
    feed(python, script);
}

fn sees_its_records(directory: &Path) {
    let forget = ["inbox", "forget", "--consumer", "billing", "--all", "--dry-run"];
    let said = postrider(directory, &forget);
    assert!(said.contains("22 records"), "{said}");
}

fn postrider(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let output = command.args(arguments).current_dir(directory).output();
    let output = output.expect("the program starts");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}
