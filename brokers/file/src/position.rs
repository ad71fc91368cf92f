//! How far a consumer has come in a file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use postrider_core::Progress;
use serde::{Deserialize, Serialize};

use crate::path::sync_parent;

/// What a consumer is done with: everything before an offset, and some lines behind it.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// Lines by the byte at which they begin.
    progress: Progress,
    /// How far lines were ever delivered.
    pub(crate) seen: u64,
    /// How often the file was opened since the offset moved. A line that ends every process is delivered as often.
    opens: u32,
}

/// The same in its file.
#[derive(Deserialize, Serialize)]
struct Stored {
    offset: u64,
    done: BTreeMap<u64, u64>,
    seen: u64,
    opens: u32,
}

impl Position {
    /// Reads it; a file that is not there is the beginning.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let stored: Stored = serde_json::from_slice(&text).map_err(|error| {
            let text = format!(
                "{}: {error}; restore it, or remove it to begin anew",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Ok(Self {
            progress: Progress::new(stored.offset, stored.done),
            seen: stored.seen,
            opens: stored.opens,
        })
    }

    /// Writes it whole or not at all, and waits for the disk. Always: it takes the place of one that is on the disk,
    /// and a name that leads to nothing after a power cut would be worse than an old position.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let stored = Stored {
            offset: self.progress.front(),
            done: self.progress.spans().collect(),
            seen: self.seen,
            opens: self.opens,
        };
        let next = with_suffix(path, ".next");
        let mut file = File::create(&next)?;
        file.write_all(&serde_json::to_vec(&stored)?)?;
        file.sync_data()?;
        fs::rename(&next, path)?;
        sync_parent(path)
    }

    pub(crate) fn opened(&mut self) {
        self.opens = self.opens.saturating_add(1);
    }

    pub(crate) fn is_done(&self, start: u64) -> bool {
        self.progress.is_done(start)
    }

    /// Where the first line begins that is not done, from an offset on.
    pub(crate) fn next(&self, offset: u64) -> u64 {
        self.progress.next(offset)
    }

    /// How often a line was delivered by earlier opens of the file, as far as is known.
    pub(crate) fn delivered_before(&self, start: u64) -> u32 {
        match start < self.seen {
            true => self.opens.saturating_sub(1).max(1),
            false => 0,
        }
    }

    /// A line is done.
    pub(crate) fn finish(&mut self, start: u64, end: u64) {
        if self.progress.finish(start, end) {
            self.opens = 1;
        }
    }
}

/// A neighbour of a file.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_nobody_gets_past_is_counted() {
        let mut position = Position {
            seen: 10,
            ..Position::default()
        };
        for before in [1, 1, 2, 3] {
            position.opened();
            assert_eq!(position.delivered_before(0), before);
        }
        assert_eq!(position.delivered_before(10), 0);
        position.finish(0, 5);
        assert_eq!(position.delivered_before(5), 1);
    }

    #[test]
    fn it_is_saved_whole_and_damage_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        let mut position = Position::load(&path).unwrap();
        position.finish(0, 7);
        position.finish(9, 11);
        position.save(&path).unwrap();
        let loaded = Position::load(&path).unwrap();
        assert_eq!((loaded.next(0), loaded.next(7), loaded.next(9)), (7, 7, 11));
        assert!(!path.with_extension("next").exists());
        fs::write(&path, "{").unwrap();
        assert_eq!(
            Position::load(&path).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
