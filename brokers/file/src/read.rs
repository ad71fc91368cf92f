//! An open file with a position in it, for one consumer at a time.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use postrider_core::{Incoming, Verdict};

use crate::decode;
use crate::position::{Position, with_suffix};
use crate::tail::MAX_LINE;

/// What is read at a time; a longer line is read whole.
const CHUNK: usize = 1 << 20;
/// A time of change that is younger than this may be the time of the next change too: file systems count in ticks of
/// some milliseconds.
const TICK: Duration = Duration::from_secs(1);

/// The open file.
#[derive(Debug)]
pub(crate) struct Reader {
    path: PathBuf,
    file: File,
    /// Held as long as this lives: by it the consumers of one position take turns.
    _lock: File,
    position_path: PathBuf,
    position: Position,
    /// Where the next line begins that was not read yet.
    at: u64,
    /// What the file was like when there was no whole line behind that: nothing is to be found until it changes.
    without: Option<Look>,
    ready: VecDeque<Line>,
    /// What was delivered and has no verdict, by tag.
    out: BTreeMap<u64, Line>,
}

/// By what a change of a file is seen. The length alone does not do: half a line may be cut off, and a whole one of
/// the same length be written in its place.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    length: u64,
    changed: SystemTime,
}

#[derive(Debug)]
struct Line {
    start: u64,
    end: u64,
    deliveries: u32,
    text: Vec<u8>,
}

impl Reader {
    /// Opens the file where its consumer left off; None while another has that position.
    pub(crate) fn open(path: &Path, position_path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let lock_path = with_suffix(position_path, ".lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut position = Position::load(position_path)?;
        position.opened();
        position.save(position_path)?;
        Ok(Some(Self {
            path: path.to_path_buf(),
            file,
            _lock: lock,
            position_path: position_path.to_path_buf(),
            at: position.next(0),
            without: None,
            position,
            ready: VecDeque::new(),
            out: BTreeMap::new(),
        }))
    }

    /// Delivers lines that were read.
    pub(crate) fn take(&mut self, max: usize, next_tag: &mut u64) -> Vec<Incoming> {
        let count = self.ready.len().min(max.max(1));
        let taken: Vec<Line> = self.ready.drain(..count).collect();
        let deliver = |mut line: Line| {
            *next_tag += 1;
            let incoming = Incoming {
                message: decode::message(&line.text),
                tag: *next_tag,
                redelivered: line.deliveries,
            };
            line.deliveries = line.deliveries.saturating_add(1);
            self.out.insert(*next_tag, line);
            incoming
        };
        taken.into_iter().map(deliver).collect()
    }

    /// Reads whole lines that are new, and gives how many there are now.
    pub(crate) fn read(&mut self, lines: usize) -> io::Result<usize> {
        // Past what is done: behind one line that is held for long there may be any amount of it.
        self.at = self.position.next(self.at);
        let chunk = self.chunk()?;
        for text in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.ready.len() >= lines {
                break;
            }
            let (start, end) = (self.at, self.at + text.len() as u64);
            self.at = end;
            let text = text.trim_ascii_end();
            if self.position.is_done(start) {
                continue;
            }
            if text.is_empty() {
                self.position.finish(start, end);
                continue;
            }
            let deliveries = self.position.delivered_before(start);
            self.ready.push_back(Line {
                start,
                end,
                deliveries,
                text: text.to_vec(),
            });
        }
        if self.at > self.position.seen {
            // Before they are delivered: one that ends this process was seen.
            self.position.seen = self.at;
            self.position.save(&self.position_path)?;
        }
        Ok(self.ready.len())
    }

    /// Takes verdicts; on disk when it returns.
    pub(crate) fn settle(&mut self, verdicts: &[(u64, Verdict)]) -> io::Result<()> {
        let mut rejected = Vec::new();
        for (tag, verdict) in verdicts {
            let Some(line) = self.out.remove(tag) else {
                continue;
            };
            match verdict {
                Verdict::Again => {
                    let at = self.ready.partition_point(|other| other.start < line.start);
                    self.ready.insert(at, line);
                    continue;
                }
                Verdict::Reject => rejected.extend([line.text.as_slice(), b"\n"].concat()),
                Verdict::Done => {}
            }
            self.position.finish(line.start, line.end);
        }
        if !rejected.is_empty() {
            let path = with_suffix(&self.position_path, ".rejected");
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(&rejected)?;
            file.sync_data()?;
        }
        self.position.save(&self.position_path)
    }

    /// Whole lines from the next one on, if there are any.
    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let found = fs::metadata(&self.path)?;
        let ours = self.file.metadata()?;
        let length = ours.len();
        if length < self.at || (found.dev(), found.ino()) != (ours.dev(), ours.ino()) {
            let text = "it was replaced or cut; put it back, or remove the position to read the new one";
            return Err(io::Error::other(text));
        }
        let look = Look {
            length,
            changed: ours.modified()?,
        };
        // Before anything is read: what is written meanwhile must be seen.
        let is_old = look.changed.elapsed().is_ok_and(|age| age > TICK);
        if length == self.at || self.without.as_ref() == Some(&look) {
            return Ok(Vec::new());
        }
        let mut chunk = Vec::new();
        let mut size = CHUNK as u64;
        while (chunk.len() as u64) < (length - self.at).min(MAX_LINE) {
            let from = chunk.len();
            // At most MAX_LINE.
            chunk.resize(size.min(length - self.at).min(MAX_LINE) as usize, 0);
            let start = self.at + from as u64;
            self.file.read_exact_at(&mut chunk[from..], start)?;
            if let Some(end) = chunk[from..].iter().rposition(|byte| *byte == b'\n') {
                chunk.truncate(from + end + 1);
                return Ok(chunk);
            }
            size = size.saturating_mul(4);
        }
        if length - self.at >= MAX_LINE {
            let text = format!(
                "there is no line end within {MAX_LINE} bytes from byte {} on; name a file of JSON lines",
                self.at
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.without = is_old.then_some(look);
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _directory: tempfile::TempDir,
        path: PathBuf,
        position: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            Self {
                path: directory.path().join("q.jsonl"),
                position: directory.path().join("p"),
                _directory: directory,
            }
        }

        /// Writes the file as one that nobody has touched for so long.
        fn write(&self, content: &[u8], age: Duration) {
            fs::write(&self.path, content).unwrap();
            let file = OpenOptions::new().write(true).open(&self.path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }

        fn open(&self) -> Reader {
            Reader::open(&self.path, &self.position).unwrap().unwrap()
        }
    }

    /// Bytes that this thread has asked the kernel for.
    #[cfg(target_os = "linux")]
    fn bytes_read() -> u64 {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn half_a_line_is_not_read_again_and_again() {
        let place = Place::new();
        place.write(&vec![b'x'; 8 << 20], Duration::from_secs(60));
        let mut reader = place.open();
        let before = bytes_read();
        for _ in 0..50 {
            assert_eq!(reader.read(10).unwrap(), 0);
        }
        let read = bytes_read() - before;
        assert!(read < 10 << 20, "{read} bytes of 8 MiB were read");
    }

    #[test]
    fn half_a_line_that_is_cut_and_a_whole_one_of_its_length_is_seen() {
        let place = Place::new();
        for age in [Duration::from_secs(60), Duration::ZERO] {
            place.write(b"{\"a\":1", age);
            let mut reader = place.open();
            assert_eq!(reader.read(10).unwrap(), 0);
            place.write(b"{\"a\"}\n", Duration::ZERO);
            assert_eq!(reader.read(10).unwrap(), 1);
        }
    }

    #[test]
    fn what_is_done_is_not_read_again() {
        let place = Place::new();
        let long = [vec![b'x'; CHUNK / 4], b"\n".to_vec()].concat();
        let content = [b"held\n".to_vec(), long.repeat(40)].concat();
        place.write(&content, Duration::ZERO);
        let mut reader = place.open();
        let mut tag = 0;
        while reader.at < content.len() as u64 {
            reader.read(500).unwrap();
            let taken = reader.take(500, &mut tag);
            let done = taken
                .iter()
                .filter(|it| it.tag > 1)
                .map(|it| (it.tag, Verdict::Done));
            reader.settle(&done.collect::<Vec<_>>()).unwrap();
        }
        drop(reader);
        place.write(&[content, b"new\n".to_vec()].concat(), Duration::ZERO);
        let mut reader = place.open();
        // The first look finds the one that was held and some that are done; the second goes past the others.
        assert_eq!(reader.read(500).unwrap(), 1);
        assert_eq!(reader.read(500).unwrap(), 2);
    }
}
