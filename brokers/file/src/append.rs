//! Bytes at the end of a file or a stream, whatever happens meanwhile.

use std::fs::File;
use std::io::{self, Write};

use postrider_core::crash;

/// Writes as much as it can. The count is exact also when it fails.
pub(crate) fn write(mut file: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    if crash::due("file.torn") {
        // Half of the bytes reach the disk, as in a power cut, and the process is gone.
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
        let _ = file.sync_data();
        std::process::abort();
    }
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    crash::point("file.written");
    (written, Ok(()))
}

/// What became of a batch of lines.
#[derive(Debug)]
pub(crate) struct Appended {
    /// So many of the bytes are where they should be, confirmed as durably as was asked.
    pub(crate) confirmed: usize,
    /// Of the other bytes so many may be there too.
    pub(crate) maybe: usize,
    /// The place of the first byte.
    pub(crate) start: Place,
    /// Why not everything is confirmed.
    pub(crate) error: Option<io::Error>,
}

/// Where a batch of lines begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this byte of a file.
    Offset(u64),
    /// As this line of a stream, from 1.
    Line(u64),
}

impl Appended {
    /// Nothing was written at all.
    pub(crate) fn nothing(error: io::Error) -> Self {
        Self {
            confirmed: 0,
            maybe: 0,
            start: Place::Offset(0),
            error: Some(error),
        }
    }
}
