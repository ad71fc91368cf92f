//! What can be set.

use std::path::PathBuf;

/// How a [`crate::FileSink`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOptions {
    /// Whether a batch is on disk before it is confirmed. Without it a power cut loses confirmed events; a crash of the
    /// process does not.
    pub sync: bool,
    /// Where the paths that routes give are looked up; none: the directory of the file itself.
    pub directory: Option<PathBuf>,
    /// How many files are kept open for routes that give paths. More are written just as well, at the price of opening
    /// one for each batch.
    pub max_open_files: usize,
}

/// Events may name any number of files; descriptors are a bounded resource of the process.
const MAX_OPEN_FILES: usize = 64;

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            sync: true,
            directory: None,
            max_open_files: MAX_OPEN_FILES,
        }
    }
}

postrider_core::setters! {
    FileOptions {
        sync: bool,
        directory: impl Into<PathBuf> => Some(directory.into()),
        max_open_files: usize,
    }
}
