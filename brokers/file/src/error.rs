//! What goes wrong with files, in the words of the engine.

use std::fmt;
use std::io;
use std::path::Path;

use postrider_core::{ErrorKind, Failure, inert};

/// A file could not be opened for writing.
#[derive(Debug)]
pub struct FileError {
    kind: ErrorKind,
    text: Box<str>,
    source: io::Error,
}

impl FileError {
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        let advice = match source.kind() {
            io::ErrorKind::NotFound => "create its directory or correct the path",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "give the relay's user write access to the file and its directory"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
            io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
                "name a regular file, or use standard output"
            }
            _ => "read the cause below",
        };
        let path = inert(&path.to_string_lossy(), 1_000);
        Self {
            kind: kind(&source, Asked::Configured),
            text: format!("cannot open \"{path}\" for appending: {advice}").into(),
            source,
        }
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Who asked for the file. One that an event chose is that event's problem; the configured one is everybody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Configured,
    Routed,
}

/// The answer for a message that a file did not take.
pub(crate) fn failure(file: &str, error: &io::Error, asked: Asked) -> Failure {
    Failure::new(kind(error, asked), format!("{file}: {error}"))
}

fn kind(error: &io::Error, asked: Asked) -> ErrorKind {
    use io::ErrorKind as Io;
    match (error.kind(), asked) {
        (Io::PermissionDenied | Io::IsADirectory | Io::InvalidInput | Io::InvalidFilename, Asked::Routed) => {
            ErrorKind::AddressRefused
        }
        (Io::NotADirectory, Asked::Routed) => ErrorKind::AddressNotFound,
        (Io::NotFound | Io::NotADirectory | Io::BrokenPipe, _) => ErrorKind::Unreachable,
        (Io::TimedOut | Io::WouldBlock, _) => ErrorKind::TimedOut,
        // Another process is repairing the file.
        (Io::ResourceBusy, _) => ErrorKind::Blocked,
        // Full, over quota, read-only, closed to us, or a failing disk: nothing can be written here for now.
        _ => ErrorKind::Storage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_pays_for_its_own_path_only() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(kind(&denied, Asked::Routed), ErrorKind::AddressRefused);
        assert_eq!(kind(&denied, Asked::Configured), ErrorKind::Storage);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(kind(&full, Asked::Routed), ErrorKind::Storage);
    }
}
