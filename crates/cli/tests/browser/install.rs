//! What the browser needs: found on the machine, or installed by name in the user's cache folder, once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Where the script and the names of its modules are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/browser")
}

/// The browser's program.
pub(crate) fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    found.expect("Chromium is missing; on Debian: apt-get install chromium, or `cargo xtask test` as root")
}

/// The folder that has Playwright among its `node_modules`: without a browser of its own. If its files changed, or were
/// not installed to the end, it is made anew.
pub(crate) fn playwright() -> PathBuf {
    let cache = cache();
    fs::create_dir_all(&cache).expect("the cache folder can be made");
    // Another checkout may be installing the same.
    let lock = File::create(cache.join("browser.lock")).expect("a lock can be made");
    lock.lock().expect("the lock can be taken");
    let (place, done) = (cache.join("browser"), cache.join("browser").join("installed"));
    let read = |file| fs::read_to_string(folder().join(file)).expect("the file is in the repository");
    let wanted: String = FILES.map(read).concat();
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return place;
    }
    if place.exists() {
        fs::remove_dir_all(&place).expect("what is outdated can be removed");
    }
    fs::create_dir(&place).expect("a folder can be made");
    for file in FILES {
        fs::copy(folder().join(file), place.join(file)).expect("a file can be copied");
    }
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"])
        .current_dir(&place));
    fs::write(&done, wanted).expect("a file can be written");
    place
}

fn cache() -> PathBuf {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    given
        .or_else(home)
        .expect("HOME or XDG_CACHE_HOME is set")
        .join("postrider")
}

/// Runs it; it must end well.
pub(crate) fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
