//! The consuming side.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, Incoming, Source, SourceError, SourceErrorKind, Verdict};
use tokio::sync::{Mutex, Notify};

use crate::read::Reader;

/// How soon a new line is seen, and the end of another consumer. A file rings no bell.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Lines that are read ahead at a time.
const AHEAD: usize = 500;

/// A consumer of a file that a [`crate::FileSink`] writes.
///
/// How far it has come is kept in a file of its own, on disk before a verdict is taken as given. One consumer at a time
/// reads with one such file: another waits, in this process or in any, until the first is closed or has died. Several
/// consumers with files of their own each get everything. Rejected lines are appended to the neighbour `….rejected`.
///
/// A line is delivered when it is whole. A file that is replaced or cut is an error, not followed: what of it was still
/// to come cannot be known. So is one without a line end for 64 MiB: it is something else than lines.
#[derive(Debug)]
pub struct FileSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    position: PathBuf,
    /// Held while the disk is waited for, which nobody's thread must be: whoever wants it waits as a task.
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct State {
    reader: Option<Reader>,
    /// Why there is no reader any more. The next receive says so before it opens another: what the last one delivered
    /// comes again, and whoever holds it has to forget it.
    failed: Option<SourceError>,
    closed: bool,
    next_tag: u64,
}

impl FileSource {
    /// A consumer of the file at this path that keeps its position in another. Nothing is opened yet.
    ///
    /// ```
    /// use postrider_file::FileSource;
    ///
    /// let source = FileSource::new("events.jsonl", "events.jsonl.billing");
    /// ```
    pub fn new(path: impl Into<PathBuf>, position: impl Into<PathBuf>) -> FileSource {
        FileSource {
            shared: Arc::new(Shared {
                path: path.into(),
                position: position.into(),
                state: Mutex::default(),
                closed: Notify::new(),
            }),
        }
    }
}

impl Shared {
    /// Reads ahead, and says whether the state is worth a look at once. What fails is told there: the call that wanted
    /// to know may be gone by then.
    fn read(&self) -> bool {
        let mut state = self.state.blocking_lock();
        if state.closed || state.failed.is_some() {
            return true;
        }
        match self.read_ahead(&mut state.reader) {
            Ok(lines) => lines > 0,
            Err(error) => {
                state.fail(self.trouble(&error));
                true
            }
        }
    }

    fn read_ahead(&self, reader: &mut Option<Reader>) -> std::io::Result<usize> {
        if reader.is_none() {
            *reader = Reader::open(&self.path, &self.position)?;
        }
        reader.as_mut().map_or(Ok(0), |reader| reader.read(AHEAD))
    }

    /// Takes verdicts. Without a reader, or with another one, their tags are of no delivery.
    fn settle(&self, verdicts: &[(u64, Verdict)]) -> Result<(), SourceError> {
        let mut state = self.state.blocking_lock();
        let Some(reader) = &mut state.reader else {
            return Ok(());
        };
        reader.settle(verdicts).map_err(|error| {
            state.fail(self.trouble(&error));
            self.trouble(&error)
        })
    }

    fn trouble(&self, error: &std::io::Error) -> SourceError {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => SourceErrorKind::Missing,
            std::io::ErrorKind::PermissionDenied => SourceErrorKind::Denied,
            _ => SourceErrorKind::Unreachable,
        };
        let text = format!("cannot read {}: {error}", shown(&self.path));
        SourceError {
            kind,
            text: postrider_core::inert(&text, postrider_core::MAX_ERROR_TEXT),
        }
    }
}

impl State {
    /// What the reader has in memory may not be what is on disk: the next one begins at what was saved.
    fn fail(&mut self, error: SourceError) {
        self.reader = None;
        self.failed = Some(error);
    }

    /// Delivers lines that were read.
    fn take(&mut self, max: usize) -> Result<Vec<Incoming>, SourceError> {
        if self.closed {
            return Err(closed());
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(reader) = &mut self.reader else {
            return Ok(Vec::new());
        };
        Ok(reader.take(max, &mut self.next_tag))
    }
}

impl Source for FileSource {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            loop {
                let closing = self.shared.closed.notified();
                tokio::pin!(closing);
                closing.as_mut().enable();
                // Nothing is waited for between taking lines and returning them: a dropped call has taken none.
                let taken = self.shared.state.lock().await.take(max)?;
                if !taken.is_empty() {
                    return Ok(taken);
                }
                let shared = Arc::clone(&self.shared);
                if !blocking(move || Ok(shared.read())).await? {
                    tokio::select! {
                        () = closing => {}
                        () = tokio::time::sleep(LOOK_EVERY) => {}
                    }
                }
            }
        })
    }

    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let shared = Arc::clone(&self.shared);
            blocking(move || shared.settle(&verdicts)).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut state = self.shared.state.lock().await;
            state.closed = true;
            state.reader = None;
            drop(state);
            self.shared.closed.notify_waiters();
        })
    }
}

fn closed() -> SourceError {
    SourceError {
        kind: SourceErrorKind::Closed,
        text: "the consumer is closed".into(),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Disks are slow at times; whoever else runs on this thread must not wait for them.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(SourceError {
            kind: SourceErrorKind::Unreachable,
            text: "the reader ended early".into(),
        })
    })
}
