//! Following a file of lines while it grows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::wait::until_every;
use crate::failure::Result;

/// Often enough to tell when something arrived, and too seldom to be felt.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A reader that counts every line with a text in it once, and knows when it saw the first.
pub(super) struct Follow<'t> {
    path: PathBuf,
    text: &'t str,
    read: u64,
    lines: u64,
    first: Option<Instant>,
}

impl<'t> Follow<'t> {
    pub(super) fn new(path: PathBuf, text: &'t str) -> Self {
        Self {
            path,
            text,
            read: 0,
            lines: 0,
            first: None,
        }
    }

    /// Waits until so many lines are there; gives the time since the first was seen.
    pub(super) fn until(&mut self, lines: u64, deadline: Duration) -> Result<Duration> {
        let what = format!("{lines} events have arrived");
        until_every(LOOK_EVERY, &what, deadline, || {
            Ok((self.count()? >= lines).then_some(()))
        })?;
        Ok(self.first.map_or(Duration::ZERO, |first| first.elapsed()))
    }

    fn count(&mut self) -> Result<u64> {
        let Ok(mut file) = File::open(&self.path) else {
            return Ok(0);
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let complete = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.read += complete as u64;
        let new = String::from_utf8_lossy(&text[..complete]);
        self.lines += new.lines().filter(|line| line.contains(self.text)).count() as u64;
        if self.lines > 0 {
            self.first.get_or_insert_with(Instant::now);
        }
        Ok(self.lines)
    }
}
