//! How far a consumer has come in a file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a consumer is done with: everything before an offset, and some lines behind it.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Position {
    /// Every line that begins before this is done.
    pub(crate) offset: u64,
    /// Lines behind it that are done too: where each begins and ends. No more than a consumer holds at a time.
    done: BTreeMap<u64, u64>,
    /// How far lines were ever delivered.
    pub(crate) seen: u64,
    /// How often the file was opened since the offset moved. A line that ends every process is delivered as often.
    opens: u32,
}

impl Position {
    /// Reads it; a file that is not there is the beginning.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                let text = format!(
                    "{}: {error}; restore it, or remove it to begin anew",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidData, text)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes it whole or not at all. Synced, it survives a power cut, and without that the end of the process.
    pub(crate) fn save(&self, path: &Path, sync: bool) -> io::Result<()> {
        let next = with_suffix(path, ".next");
        let mut file = File::create(&next)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        if sync {
            file.sync_data()?;
        }
        fs::rename(&next, path)?;
        match path.parent().filter(|_| sync) {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            Some(_) => File::open(".")?.sync_all(),
            None => Ok(()),
        }
    }

    pub(crate) fn opened(&mut self) {
        self.opens = self.opens.saturating_add(1);
    }

    pub(crate) fn is_done(&self, start: u64) -> bool {
        start < self.offset || self.done.contains_key(&start)
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
        self.done.insert(start, end);
        while let Some(end) = self.done.remove(&self.offset) {
            self.offset = end;
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
    fn the_offset_moves_over_what_is_done_without_a_gap() {
        let mut position = Position::default();
        position.finish(10, 20);
        assert!(position.is_done(10) && !position.is_done(0) && position.offset == 0);
        position.finish(0, 10);
        assert_eq!((position.offset, position.done.len()), (20, 0));
        assert!(position.is_done(10) && !position.is_done(20));
    }

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
        position.save(&path, true).unwrap();
        let loaded = Position::load(&path).unwrap();
        assert_eq!((loaded.offset, loaded.is_done(9)), (7, true));
        fs::write(&path, "{").unwrap();
        assert_eq!(
            Position::load(&path).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
