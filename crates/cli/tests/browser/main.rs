//! The page of `postrider notify demo`, opened in Chromium: an event arrives and is seen at once, it is marked as read,
//! a category is muted, and what strangers write stays text. What is done is in `testkit/browser/feed.mjs`.
//!
//! With `POSTRIDER_PICTURE=docs/images/notify-demo.png` the page is photographed, for the documentation.
#![cfg(feature = "sqlite")]

mod install;

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::process::{Process, scratch};

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
/// How long the demo may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_person_sees_what_arrives_marks_it_and_mutes_it() {
    let folder = scratch("browser").expect("a folder can be made");
    let address = free();
    let mut demo = Command::new(BINARY);
    // Few, so that somebody who looks can tell them apart.
    demo.args(["notify", "demo", "--rate", "1", "--listen", &address])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut demo = Process::spawn(&mut demo).expect("the demo starts");
    wait_for(&mut demo, &address);

    // Modules are looked for from the folder of the file that asks, so files and modules meet here.
    let modules = install::playwright().join("node_modules");
    symlink(modules, folder.path().join("node_modules")).expect("a link can be made");
    let script = folder.path().join("feed.mjs");
    std::fs::copy(install::folder().join("feed.mjs"), &script).expect("a file can be copied");
    let mut person = Command::new("node");
    person
        .arg(&script)
        .arg(format!("http://{address}/demo"))
        .arg(install::chromium())
        .args(picture())
        // The browser keeps its profile, and what it leaves behind when it dies, where everything else is removed.
        .env("TMPDIR", folder.path())
        .env("HOME", folder.path());
    install::run(&mut person);
    demo.terminate().expect("it can be told to stop");
    let status = demo.wait(PATIENCE).expect("it can be waited for");
    assert!(
        status.is_some_and(|status| status.success()),
        "the demo ended with {status:?}"
    );
}

/// Where a picture goes, if one is wanted; relative names are those of the repository.
fn picture() -> Option<PathBuf> {
    let wanted = std::env::var_os("POSTRIDER_PICTURE").filter(|name| !name.is_empty())?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(wanted);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).expect("a folder for the picture can be made");
    }
    Some(path)
}

/// An address that nobody uses.
fn free() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    listener.local_addr().expect("it has an address").to_string()
}

fn wait_for(demo: &mut Process, address: &str) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        let ended = demo.ended().expect("it can be looked at");
        assert!(ended.is_none(), "the demo ended with {ended:?}");
        assert!(Instant::now() < deadline, "the demo does not answer at {address}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
