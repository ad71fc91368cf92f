//! Whether an archive is as it was written.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use postrider_core::HistoryRow;

use super::line;
use super::manifest::{self, Folder, Part, hex_of};
use crate::failure::Failure;

/// More than any file that is written unpacks to: one that a stranger packed must not fill the memory.
const MOST: u64 = 1 << 30;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub folders: usize,
    pub rows: u64,
    /// What is wrong, each with its file.
    pub faults: Vec<String>,
    /// Files beside those of the archive. No restore reads them, so they are no fault; but one that somebody put there
    /// by hand is not verified and must not be taken for a part of it.
    pub strangers: Vec<PathBuf>,
}

/// Reads everything of an outbox's archive and compares it with its checksums.
pub fn verify(dir: &Path, outbox: &str) -> Result<Verified, Failure> {
    let mut found = Verified {
        strangers: manifest::strangers(&dir.join(outbox))?,
        ..Verified::default()
    };
    let mut before: Option<Folder> = None;
    for path in manifest::folders(&dir.join(outbox))? {
        found.folders += 1;
        let folder = match manifest::open(&path) {
            Ok(folder) => folder,
            Err(failure) => {
                found.faults.push(failure.line());
                before = None;
                continue;
            }
        };
        found
            .faults
            .extend(before.as_ref().and_then(|before| gap(before, &folder)));
        for part in &folder.manifest.parts {
            match rows(&folder, part) {
                Ok(rows) => found.rows += rows.len() as u64,
                Err(fault) => found.faults.push(fault),
            }
        }
        found.strangers.extend(folder.strangers()?);
        before = Some(folder);
    }
    // A folder that is not mounted, or misspelt, must not look like an archive that is as it was written.
    if found.folders == 0 {
        let dir = dir.join(outbox);
        found
            .faults
            .push(format!("{}: there is no folder of an archive", dir.display()));
    }
    Ok(found)
}

/// What is wrong between two folders that are there one after the other.
pub fn gap(before: &Folder, folder: &Folder) -> Option<String> {
    let follows = folder.manifest.previous.as_ref() == Some(&before.checksum);
    let text = "does not follow the folder before it: one is missing or was changed";
    (!follows).then(|| format!("{}: {text}", folder.path.display()))
}

/// What keeps the archive from being used.
pub fn damaged(fault: String) -> Failure {
    Failure::found(fault)
        .advice(
            "`postrider archive verify` finds all that is wrong; put it back from another copy, or leave its time out \
             with --since and --until",
        )
}

/// The bytes of a file that is as it was written, or what is wrong with it.
pub fn bytes(folder: &Folder, part: &Part) -> Result<Vec<u8>, String> {
    let path = folder.path.join(&part.file);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // A pipe or a device would be read for ever.
    if !fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(format!("{}: is not a file", path.display()));
    }
    let bytes = fs::read(&path).map_err(failed)?;
    match bytes.len() as u64 == part.bytes && hex_of(&bytes) == part.sha256 {
        true => Ok(bytes),
        false => Err(format!("{}: is not the file that was written", path.display())),
    }
}

/// The rows of a file that is as it was written, or what is wrong with it.
pub fn rows(folder: &Folder, part: &Part) -> Result<Vec<HistoryRow>, String> {
    let path = folder.path.join(&part.file);
    let fault = |text: String| format!("{}: {text}", path.display());
    let bytes = bytes(folder, part)?;
    let mut text = String::new();
    MultiGzDecoder::new(bytes.as_slice())
        .take(MOST)
        .read_to_string(&mut text)
        .map_err(|error| fault(format!("cannot be unpacked: {error}")))?;
    if hex_of(text.as_bytes()) != part.text_sha256 {
        return Err(fault("does not hold the lines that were written".to_owned()));
    }
    let lines = text.lines().enumerate();
    let rows = lines.map(|(number, text)| {
        line::read(text).map_err(|reason| fault(format!("line {} {reason}", number + 1)))
    });
    let rows: Vec<HistoryRow> = rows.collect::<Result<_, _>>()?;
    match rows.len() as u64 == part.rows {
        true => Ok(rows),
        false => Err(fault(format!("has {} rows instead of {}", rows.len(), part.rows))),
    }
}
