//! The consuming side.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{BoxFuture, Incoming, Source, SourceError, SourceErrorKind, Verdict};
use tokio::sync::Notify;

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
/// to come cannot be known.
#[derive(Debug)]
pub struct FileSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    position: PathBuf,
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct State {
    reader: Option<Reader>,
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on the open file. After an error it is closed: the next call opens it again, at what was saved.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Reader, &mut u64) -> std::io::Result<T>,
    ) -> Result<Option<T>, SourceError> {
        let mut state = self.state();
        if state.closed {
            return Err(closed());
        }
        if state.reader.is_none() {
            state.reader = Reader::open(&self.path, &self.position).map_err(|error| self.trouble(&error))?;
        }
        let mut next_tag = state.next_tag;
        let Some(reader) = &mut state.reader else {
            return Ok(None);
        };
        let done = work(reader, &mut next_tag);
        state.next_tag = next_tag;
        done.map(Some).map_err(|error| {
            state.reader = None;
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

impl Source for FileSource {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            loop {
                let closing = self.shared.closed.notified();
                tokio::pin!(closing);
                closing.as_mut().enable();
                // Nothing is waited for between taking lines and returning them: a dropped call has taken none.
                let taken = self
                    .shared
                    .with(|reader, next_tag| Ok(reader.take(max, next_tag)))?;
                if let Some(taken) = taken.filter(|taken| !taken.is_empty()) {
                    return Ok(taken);
                }
                let shared = Arc::clone(&self.shared);
                let read = blocking(move || shared.with(|reader, _| reader.read(AHEAD))).await?;
                if read.is_none_or(|lines| lines == 0) {
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
            let settled = blocking(move || shared.with(|reader, _| reader.settle(&verdicts))).await;
            match settled {
                // Verdicts on what a closed source held mean nothing.
                Err(error) if error.kind == SourceErrorKind::Closed => Ok(()),
                settled => settled.map(|_| ()),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut state = self.shared.state();
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
