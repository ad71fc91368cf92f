//! Log lines on their way to standard error. Whoever reads them may stop reading: a pipe that is full must not stop the
//! relay, so lines are handed to a thread, and when it cannot keep up they are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How many lines may wait. At a few hundred bytes each this is about a mebibyte, and more than a busy second.
const WAITING: usize = 4_096;
/// How long the last lines of a process may take.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Piece {
    Line(Vec<u8>),
    /// Everything before this is written.
    Mark(SyncSender<()>),
}

/// Where log lines are written to. Cheap to clone.
#[derive(Clone)]
pub struct Lines {
    thread: SyncSender<Piece>,
    dropped: Arc<AtomicU64>,
}

impl Lines {
    /// Begins a thread that writes to `to`.
    pub fn to(to: impl Write + Send + 'static) -> io::Result<Lines> {
        let (thread, pieces) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let lines = Lines {
            thread,
            dropped: dropped.clone(),
        };
        std::thread::Builder::new()
            .name("postrider-log".to_owned())
            .spawn(move || write(to, &pieces, &dropped))?;
        Ok(lines)
    }

    /// How many lines nobody took.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }

    /// Waits until everything is written, but not for ever.
    pub fn flush(&self) {
        let deadline = Instant::now() + LAST_LINES;
        let (done, written) = sync_channel(1);
        let mut mark = Piece::Mark(done);
        while let Err(std::sync::mpsc::TrySendError::Full(back)) = self.thread.try_send(mark) {
            if Instant::now() >= deadline {
                return;
            }
            mark = back;
            std::thread::sleep(Duration::from_millis(10));
        }
        // No answer means that nobody reads; then nobody misses the rest.
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Write for Lines {
    /// One call is one line: that is how the formatter calls it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.thread.try_send(Piece::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(mut to: impl Write, pieces: &Receiver<Piece>, dropped: &AtomicU64) {
    let mut told = 0;
    while let Ok(piece) = pieces.recv() {
        match piece {
            // A closed pipe is no reason to stop: somebody may still ask for the count.
            Piece::Line(line) => drop(to.write_all(&line)),
            Piece::Mark(done) => {
                let _ = to.flush();
                let _ = done.send(());
            }
        }
        let count = dropped.load(Ordering::Relaxed);
        if count > told {
            tracing::warn!(
                lines = count - told,
                "log lines were dropped: nobody took them in time"
            );
            told = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Takes one line, and then none until it is let go.
    struct Blocked {
        taken: Arc<Mutex<Vec<u8>>>,
        gate: Receiver<()>,
    }

    impl Write for Blocked {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            self.taken.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Fault C16.
    #[test]
    fn a_reader_that_stops_reading_costs_lines_and_no_time() {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (open, gate) = sync_channel(1);
        let blocked = Blocked {
            taken: taken.clone(),
            gate,
        };
        let mut lines = Lines::to(blocked).unwrap();
        let begun = Instant::now();
        for _ in 0..WAITING * 2 {
            lines.write_all(b"line\n").unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        // The thread may have taken one already, which made room for another.
        let dropped = lines.dropped().load(Ordering::Relaxed);
        assert!((WAITING - 1..=WAITING).contains(&(dropped as usize)), "{dropped}");
        drop(open);
        lines.flush();
        let written = taken.lock().unwrap().len() / b"line\n".len();
        assert_eq!(
            written,
            WAITING * 2 - dropped as usize,
            "what was not dropped is written"
        );
    }
}
