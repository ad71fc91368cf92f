//! What the languages need: installed by name, in the user's cache folder, once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::folder;

/// psycopg, in an environment of its own: where it is.
pub(crate) fn python() -> PathBuf {
    once("python", &["requirements.txt"], |place| {
        let venv = place.join("venv");
        run(tool("python3", "python3-venv").args(["-m", "venv"]).arg(&venv));
        run(Command::new(venv.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(place.join("requirements.txt")));
    })
}

/// node-postgres.
pub(crate) fn node() -> PathBuf {
    once("node", &["package.json", "package-lock.json"], |place| {
        run(tool("npm", "npm")
            .args(["ci", "--no-audit", "--no-fund", "--silent"])
            .current_dir(place));
    })
}

/// The JDBC driver, among `jars`.
pub(crate) fn java() -> PathBuf {
    once("java", &["pom.xml"], |place| {
        run(tool("javac", "openjdk-17-jdk-headless").arg("-version"));
        run(tool("mvn", "maven")
            .args(["--batch-mode", "--quiet", "dependency:copy-dependencies"])
            .arg(format!("-DoutputDirectory={}", place.join("jars").display()))
            .current_dir(place));
    })
}

/// pgx, compiled into a program: Go keeps sources and what it compiled in caches of its own.
pub(crate) fn go(program: &Path) {
    run(tool("go", "golang-go")
        .args(["build", "-mod=readonly", "-buildvcs=false", "-o"])
        .arg(program)
        .arg(".")
        .current_dir(folder("go")));
}

/// A folder in the cache with these files of the language and what was installed by them. If they changed, or were not
/// installed to the end, it is made anew.
fn once(language: &str, files: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
    let cache = cache().join("languages");
    fs::create_dir_all(&cache).expect("the cache folder can be made");
    // Another checkout may be installing the same.
    let lock = File::create(cache.join(format!("{language}.lock"))).expect("a lock can be made");
    lock.lock().expect("the lock can be taken");
    let (place, done) = (cache.join(language), cache.join(language).join("installed"));
    let wanted: String = files
        .iter()
        .map(|file| fs::read_to_string(folder(language).join(file)).expect("the file is in the repository"))
        .collect();
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return place;
    }
    if place.exists() {
        fs::remove_dir_all(&place).expect("what is outdated can be removed");
    }
    fs::create_dir(&place).expect("a folder can be made");
    for file in files {
        fs::copy(folder(language).join(file), place.join(file)).expect("a file can be copied");
    }
    install(&place);
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

/// A program that must be there; if not, the failure says which package has it.
fn tool(program: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(
        found,
        "{program} is missing; on Debian: apt-get install {package}, or `cargo xtask test` as root"
    );
    Command::new(program)
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
