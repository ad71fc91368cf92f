//! Opening, locking and repairing the files that are written to.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::append::{Appended, Place, write};
use crate::path::sync_parent;
use crate::tail::{Tail, begins_a_line, tail};

/// Something that lines are appended to.
#[derive(Debug)]
pub(crate) enum Output {
    /// A regular file.
    Log(Log),
    /// Standard output or a device: nothing can be looked at, cut off or synchronised.
    Stream(Stream),
}

impl Output {
    /// Opens a file, which is created if it does not exist, or a character device.
    pub(crate) fn open(path: &Path) -> io::Result<Output> {
        let existing = fs::metadata(path).map(|found| found.file_type());
        match existing {
            Ok(kind) if kind.is_char_device() => {
                let file = OpenOptions::new().append(true).open(path)?;
                Ok(Output::Stream(Stream::new(file)))
            }
            Ok(kind) if !kind.is_file() => Err(not_a_file()),
            _ => Log::open(path).map(Output::Log),
        }
    }

    /// Standard output, past the buffer of the standard library: a failed write must not leave bytes behind in it.
    pub(crate) fn stdout() -> io::Result<Output> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Output::Stream(Stream::new(file)))
    }

    /// Appends whole lines in one write, and waits for the disk if asked to.
    pub(crate) fn append(&mut self, lines: &[u8], sync: bool) -> Appended {
        match self {
            Output::Log(log) => {
                let appended = log.append(lines, sync);
                // In case it is the descriptor that went bad, as on a network disk, the next batch gets a new one.
                log.distrusted = appended.error.is_some();
                appended
            }
            Output::Stream(stream) => stream.append(lines),
        }
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// A regular file.
///
/// Every process that has it open for writing holds a shared lock, and only one that can get the exclusive lock cuts
/// anything off. So what another process is writing this very moment is never taken for half a line that a dead one
/// left. No lock is held for longer than a repair, so that a frozen process keeps nobody from writing.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// Where the file ended, cleanly, when we last saw it.
    end: u64,
    /// Whether the file system knows locks; without them nothing is ever cut off.
    lockable: bool,
    /// Whether the file has to be opened anew before it is written to.
    distrusted: bool,
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let found = file.metadata()?;
        // Somebody may have put a pipe in its place, and a write to it would wait for a reader for ever.
        if !found.is_file() {
            return Err(not_a_file());
        }
        if found.len() == 0 {
            sync_parent(path)?;
        }
        let lockable = lock_shared(&file)?;
        let mut log = Log {
            path: path.to_path_buf(),
            file,
            end: 0,
            lockable,
            distrusted: false,
        };
        log.mend()?;
        Ok(log)
    }

    fn append(&mut self, lines: &[u8], sync: bool) -> Appended {
        match self.ready() {
            Ok(Ready { feed: false }) => self.append_raw(lines, 0, sync),
            Ok(Ready { feed: true }) => self.append_raw(&[b"\n", lines].concat(), 1, sync),
            Err(error) => Appended::nothing(error),
        }
    }

    /// Appends bytes of which the first `lead` belong to no line.
    fn append_raw(&mut self, bytes: &[u8], lead: usize, sync: bool) -> Appended {
        let (written, result) = write(&self.file, bytes);
        let mut appended = Appended {
            confirmed: 0,
            maybe: written.saturating_sub(lead),
            start: Place::Offset(0),
            error: result.err(),
        };
        let start = match self.locate(written, lead) {
            Ok(start) => start,
            Err(error) => {
                appended.error = Some(error);
                return appended;
            }
        };
        appended.start = Place::Offset(start + lead as u64);
        if appended.error.is_none() {
            self.end = start + written as u64;
        } else {
            // If this fails, the length of the file tells the next batch that there is something to mend.
            let _ = self.mend();
        }
        // The lines that fitted before an error are as good as any others.
        match if sync { self.file.sync_data() } else { Ok(()) } {
            Ok(()) => appended.confirmed = std::mem::take(&mut appended.maybe),
            Err(error) => appended.error = Some(error),
        }
        appended
    }

    /// Where the bytes just written begin. With several writers that is known only afterwards; and if one of them left
    /// half a line just then, ours are glued to it and worth nothing, unless they begin with a line feed.
    fn locate(&mut self, written: usize, lead: usize) -> io::Result<u64> {
        let start = (&self.file).stream_position()?.saturating_sub(written as u64);
        let seen = start == self.end || written == 0 || lead > 0;
        if !seen && !begins_a_line(&self.file, start)? {
            return Err(io::Error::other(
                "another writer left half a line in front of these",
            ));
        }
        Ok(start)
    }

    /// Makes sure that the file is the one at the path and ends cleanly.
    fn ready(&mut self) -> io::Result<Ready> {
        if self.distrusted || !self.is_current()? {
            // Without this our own lock would keep us from cutting off half a line. Until a new file is open nothing
            // is written, so that the lock is not missed.
            self.distrusted = true;
            let _ = self.file.unlock();
            *self = Log::open(&self.path)?;
        }
        self.mend()
    }

    fn is_current(&self) -> io::Result<bool> {
        let Ok(ours) = self.file.metadata() else {
            return Ok(false);
        };
        match fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Cuts off half a line, or says that a line feed must go first because cutting is not ours to decide.
    fn mend(&mut self) -> io::Result<Ready> {
        // What looks torn may be a batch that another process is writing this very moment. It gets the time to end,
        // also on a machine that has better things to do; a line feed too many leaves an empty line.
        const LOOKS: u32 = 200;
        for _ in 0..LOOKS {
            let length = self.file.metadata()?.len();
            if length == self.end {
                return Ok(Ready { feed: false });
            }
            match tail(&self.file, length) {
                Ok(Tail::Clean) => {
                    self.end = length;
                    return Ok(Ready { feed: false });
                }
                Ok(Tail::Foreign) => break,
                Ok(Tail::Torn(_)) if self.cut()? => {}
                Ok(Tail::Torn(_)) => std::thread::sleep(Duration::from_millis(2)),
                // It became shorter while we looked.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Ready { feed: true })
    }

    /// Cuts off half a line if no other process has the file open.
    fn cut(&mut self) -> io::Result<bool> {
        if !self.lockable {
            return Ok(false);
        }
        self.file.unlock()?;
        let alone = match self.file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        let cut = if alone { self.cut_alone() } else { Ok(()) };
        self.file.unlock()?;
        // While somebody else repairs the file nothing may be written: it could be cut off with the rest.
        lock_shared(&self.file)?;
        cut.map(|()| alone)
    }

    /// Looks again, because the file may have changed before the lock was ours.
    fn cut_alone(&self) -> io::Result<()> {
        match tail(&self.file, self.file.metadata()?.len())? {
            Tail::Torn(start) => self.file.set_len(start),
            Tail::Clean | Tail::Foreign => Ok(()),
        }
    }
}

/// How the next write has to begin.
struct Ready {
    /// With a line feed, to end what somebody left behind.
    feed: bool,
}

/// Takes the shared lock. A repair by another process takes microseconds, so that waiting a little is enough, unless
/// that process is frozen in the middle of it. False: this file system has no locks.
fn lock_shared(file: &File) -> io::Result<bool> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match file.try_lock_shared() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(false);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another process is repairing it",
    ))
}

/// Standard output or a device.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    /// Lines begun so far.
    lines: u64,
    /// Whether the last write ended within a line.
    torn: bool,
}

impl Stream {
    fn new(file: File) -> Stream {
        Stream {
            file,
            lines: 0,
            torn: false,
        }
    }

    fn append(&mut self, lines: &[u8]) -> Appended {
        let lead = usize::from(self.torn);
        let (written, result) = match lead {
            0 => write(&self.file, lines),
            _ => write(&self.file, &[b"\n", lines].concat()),
        };
        let confirmed = written.saturating_sub(lead);
        let start = Place::Line(self.lines + 1);
        self.lines += lines[..confirmed].iter().filter(|byte| **byte == b'\n').count() as u64;
        if written > 0 {
            self.torn = confirmed > 0 && lines[confirmed - 1] != b'\n';
            self.lines += u64::from(self.torn);
        }
        Appended {
            confirmed,
            maybe: 0,
            start,
            error: result.err(),
        }
    }
}
