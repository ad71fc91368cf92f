//! How the program of each language is started.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::{self, run};

/// Where the files of a language are.
pub(crate) fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testkit/languages")
        .join(language)
}

pub(crate) fn python(_: &Path, url: &str) -> Command {
    let installed = install::python();
    let mut command = Command::new(installed.join("venv/bin/python"));
    // Without it, the files of the checkout would be joined by compiled ones.
    command.arg("-B").arg(folder("python").join("check.py")).arg(url);
    command
}

/// Modules are looked for from the folder of the file that asks, so files and modules meet in a folder of this run.
pub(crate) fn node(scratch: &Path, url: &str) -> Command {
    symlink(install::node().join("node_modules"), scratch.join("node_modules")).expect("a link can be made");
    for file in ["outbox.mjs", "check.mjs"] {
        std::fs::copy(folder("node").join(file), scratch.join(file)).expect("a file can be copied");
    }
    let mut command = Command::new("node");
    command.arg(scratch.join("check.mjs")).arg(url);
    command
}

pub(crate) fn java(scratch: &Path, url: &str) -> Command {
    let path = format!("{}/jars/*:{}", install::java().display(), scratch.display());
    let mut compile = Command::new("javac");
    compile.args(["-encoding", "UTF-8", "-d"]).arg(scratch);
    compile.args(["Outbox.java", "Check.java"].map(|file| folder("java").join(file)));
    run(&mut compile);
    let mut command = Command::new("java");
    command.args(["-cp", &path, "Check", &jdbc(url)]);
    command
}

pub(crate) fn go(scratch: &Path, url: &str) -> Command {
    let program = scratch.join("check");
    install::go(&program);
    let mut command = Command::new(program);
    command.arg(url);
    command
}

/// Runs it with this as its standard input; it must end well.
pub(crate) fn feed(mut command: Command, input: &str) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let fed = child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    // What it says about its end is worth more than that it stopped reading.
    assert!(
        output.status.success() && fed.is_ok(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// JDBC has a form of its own: the user is a parameter.
fn jdbc(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (login, place) = rest.rsplit_once('@').unwrap_or(("postgres", rest));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    format!("jdbc:postgresql://{place}?user={user}&password={password}")
}
