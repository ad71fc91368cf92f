//! What a folder of an archive holds, with checksums; and which folders there are.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use postrider_core::HistoryRow;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// The file beside the parts.
pub const NAME: &str = "manifest.json";
/// Whoever has this file locked writes; the lock ends with its process, however that ends.
pub const LOCK: &str = ".lock";
/// How a folder is called while it is made.
pub const UNFINISHED: &str = ".unfinished";
/// What to do where something of an archive is gone. What is moved away alone would be taken for written, and go.
pub const LOST: &str = "put it back from another copy; where there is none, move its folder and all behind it away, \
     and the next run writes anew what the database still has; until then no history is removed";
const VERSION: u32 = 1;
/// More than any manifest has, though it names every file of a long history.
const MOST: u64 = 64 << 20;

/// What one folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub version: u32,
    pub outbox: String,
    /// Rows published at or after this moment, in microseconds; none: from the beginning.
    pub since: Option<i64>,
    /// Rows published before this moment.
    pub until: i64,
    /// The checksum of the manifest before it, so that a folder that is missing in between is noticed.
    pub previous: Option<String>,
    /// The highest place in this folder and all before it. A row behind it is in none of them, whatever its time is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<i64>,
    /// The earliest time of a row that is older than `since`, because the clock had been set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<i64>,
    pub rows: u64,
    pub parts: Vec<Part>,
    /// Of this manifest with nothing here: nobody else keeps a checksum of the last one.
    sha256: String,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub file: String,
    pub rows: u64,
    pub bytes: u64,
    /// Of the file.
    pub sha256: String,
    /// Of the lines in it.
    pub text_sha256: String,
}

/// A folder of an archive.
pub struct Folder {
    pub path: PathBuf,
    pub manifest: Manifest,
    /// The checksum of the manifest's file.
    pub checksum: String,
}

impl Manifest {
    pub fn new(outbox: &str, since: Option<i64>, until: i64, previous: Option<String>) -> Self {
        Self {
            version: VERSION,
            outbox: outbox.to_owned(),
            since,
            until,
            previous,
            place: None,
            earliest: None,
            rows: 0,
            parts: Vec::new(),
            sha256: String::new(),
        }
    }

    /// Takes a row into account.
    pub fn note(&mut self, row: &HistoryRow) {
        self.place = self.place.max(Some(place_of(row)));
        let at = row.published_at.0;
        if self.since.is_some_and(|since| at < since) {
            self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
        }
    }

    /// The file of it, which has its own checksum. The same manifest is always the same file.
    pub fn sealed(&self) -> serde_json::Result<Vec<u8>> {
        let open = Self {
            sha256: String::new(),
            ..self.clone()
        };
        let sha256 = hex_of(&serde_json::to_vec_pretty(&open)?);
        serde_json::to_vec_pretty(&Self { sha256, ..open })
    }
}

impl Folder {
    /// Whether every file is there, as long as it was. What is in them is read by a verify alone: it takes as long as
    /// the archive is large.
    pub fn is_complete(&self) -> Result<(), Failure> {
        for part in &self.manifest.parts {
            let path = self.path.join(&part.file);
            let is_there = match fs::metadata(&path) {
                // What cannot be opened cannot be read back either.
                Ok(found) if found.is_file() && found.len() == part.bytes => {
                    fs::File::open(&path).map_err(|error| unreadable(&path, &error))?;
                    true
                }
                Ok(_) => false,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => return Err(unreadable(&path, &error)),
            };
            if !is_there {
                let text = format!("{} is missing, or is not as it was written", path.display());
                return Err(Failure::found(text).advice(LOST));
            }
        }
        Ok(())
    }

    /// What lies in the folder and is not in its manifest.
    pub fn strangers(&self) -> Result<Vec<PathBuf>, Failure> {
        let unreadable = |error| unreadable(&self.path, &error);
        let entries = fs::read_dir(&self.path).map_err(unreadable)?;
        let paths: std::io::Result<Vec<PathBuf>> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(unreadable)?;
        paths.retain(|path| {
            let name = path.file_name().unwrap_or_default();
            name != NAME && self.manifest.parts.iter().all(|part| name != part.file.as_str())
        });
        paths.sort();
        Ok(paths)
    }
}

/// A place as a manifest has it.
pub fn place_of(row: &HistoryRow) -> i64 {
    i64::try_from(row.seq.0).unwrap_or(i64::MAX)
}

/// The folders of an outbox's archive, oldest first. Their names are times, so the order of names is that of time; what
/// has another name, such as `lost+found`, is not of the archive.
pub fn folders(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = inside(dir)?;
    folders.retain(|path| is_finished(path));
    folders.sort();
    Ok(folders)
}

/// What runs that were killed have left.
pub fn unfinished(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut folders = inside(dir)?;
    folders.retain(|path| is_unfinished(path));
    Ok(folders)
}

fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(UNFINISHED).is_some_and(is_time)
}

fn is_finished(path: &Path) -> bool {
    is_time(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// Whether a folder has the name that a run gives.
fn is_time(name: &str) -> bool {
    name.replace(|c: char| c.is_ascii_digit(), "0") == "0000-00-00T00-00-00.000000Z"
}

/// Files beside the folders of an outbox's archive: no run writes any there.
pub fn strangers(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = all_inside(dir)?;
    paths.retain(|path| !path.is_dir() && !path.ends_with(LOCK));
    paths.sort();
    Ok(paths)
}

fn inside(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = all_inside(dir)?;
    paths.retain(|path| path.is_dir());
    Ok(paths)
}

fn all_inside(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(dir, &error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: std::io::Result<Vec<PathBuf>> = paths.collect();
    paths.map_err(|error| unreadable(dir, &error))
}

/// Reads the manifest of a folder.
pub fn open(path: &Path) -> Result<Folder, Failure> {
    let file = path.join(NAME);
    let bytes = read(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::found(format!("{} is missing", file.display())).advice(LOST),
        _ => unreadable(&file, &error),
    })?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| {
        let failure = Failure::found(format!("{} is not a manifest of an archive", file.display()));
        failure.because(&error).advice(LOST)
    })?;
    if manifest.version != VERSION {
        let text = format!(
            "{} is of version {}, newer than this program",
            file.display(),
            manifest.version
        );
        return Err(Failure::found(text).advice("read it with the version that wrote it, or a later one"));
    }
    if !manifest.sealed().is_ok_and(|sealed| sealed == bytes) {
        let text = format!("{}: is not the manifest that was written", file.display());
        return Err(Failure::found(text).advice(LOST));
    }
    if let Some(part) = manifest.parts.iter().find(|part| !is_plain(&part.file)) {
        let text = format!("{}: {:?} is not a file of this folder", file.display(), part.file);
        return Err(Failure::found(text).advice(LOST));
    }
    Ok(Folder {
        path: path.to_owned(),
        manifest,
        checksum: hex_of(&bytes),
    })
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    is_plain_file(file)?;
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A pipe or a device would be read, or waited for, for ever. What is not there yet is fine.
pub fn is_plain_file(path: &Path) -> std::io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(std::io::Error::new(ErrorKind::InvalidInput, "is not a file")),
        _ => Ok(()),
    }
}

/// Whether a name leads to a file of its own folder and nowhere else, and can be shown as it is: a manifest comes from
/// wherever the archive does.
fn is_plain(file: &str) -> bool {
    if !file.chars().all(|letter| letter.is_ascii_graphic()) {
        return false;
    }
    let mut components = Path::new(file).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(_)), None)
    )
}

/// An error with a file of the archive.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::backend(format!("{} cannot be read or written", path.display()))
        .because(error)
        .advice("check that the folder of the archive is there, has room and may be written to")
}

/// SHA-256 in hexadecimal.
pub fn hex_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
