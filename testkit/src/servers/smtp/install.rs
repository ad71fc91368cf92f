//! The program of the mail server: installed by name, in the user's cache folder, once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of the server, as they are in the repository.
const FILES: [(&str, &str); 3] = [
    ("package.json", include_str!("../../../servers/smtp/package.json")),
    (
        "package-lock.json",
        include_str!("../../../servers/smtp/package-lock.json"),
    ),
    ("server.js", include_str!("../../../servers/smtp/server.js")),
];

/// The folder with `server.js` and what it needs. If its files changed, or were not installed to the end, it is made
/// anew.
pub(super) fn installed() -> io::Result<PathBuf> {
    let cache = cache()?.join("servers");
    fs::create_dir_all(&cache)?;
    // Another checkout may be installing the same.
    let turn = File::create(cache.join("smtp.lock"))?;
    turn.lock()?;
    let (place, done) = (cache.join("smtp"), cache.join("smtp").join("installed"));
    let wanted: String = FILES.iter().map(|(_, text)| *text).collect();
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir(&place)?;
    for (name, text) in FILES {
        fs::write(place.join(name), text)?;
    }
    install(&place)?;
    fs::write(&done, wanted)?;
    Ok(place)
}

fn install(place: &Path) -> io::Result<()> {
    let output = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts"])
        .current_dir(place)
        .output()
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("npm: {error}; on Debian: apt-get install npm"),
            )
        })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "npm ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

fn cache() -> io::Result<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = given.or_else(home);
    let cache = cache.ok_or_else(|| io::Error::other("neither XDG_CACHE_HOME nor HOME is set"))?;
    Ok(cache.join("postrider"))
}
