//! The history as files: compressed lines of JSON with checksums, written before it is removed, read back for replays.
//!
//! An archive is a folder for each outbox, with a folder for each time that it was written. Such a folder covers the
//! time from the end of the one before to its own end, and is there whole or not at all: it is made under another name
//! and renamed. So the files alone say how far the archive has come, and a run that was killed is made again.

mod line;
mod manifest;
mod restore;
#[cfg(test)]
mod tests;
mod verify;
mod write;

pub use manifest::LOST;
pub use restore::{Restored, restore};
pub use verify::verify;
#[cfg(test)]
pub use write::Written;
pub use write::{SETTLED, archived_until, on_disk, write};
