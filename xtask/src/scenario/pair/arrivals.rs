//! Following what arrives while it does.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use postrider_testkit::ledger::Arrived;

use crate::failure::Result;

/// A reader of arrived.jsonl that gives every line once.
pub(in crate::scenario) struct Arrivals {
    path: PathBuf,
    read: u64,
}

impl Arrivals {
    /// Leaves out what is there already.
    pub(super) fn from_now(path: &Path) -> Result<Self> {
        let mut arrivals = Self {
            path: path.to_owned(),
            read: 0,
        };
        arrivals.next()?;
        Ok(arrivals)
    }

    /// What has arrived since the last call.
    pub(in crate::scenario) fn next(&mut self) -> Result<Vec<Arrived>> {
        // The consumer makes the file when it starts.
        let Ok(mut file) = File::open(&self.path) else {
            return Ok(Vec::new());
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let complete = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.read += complete as u64;
        let lines = text[..complete].split(|byte| *byte == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(|line| Ok(serde_json::from_slice(line)?))
            .collect()
    }
}
