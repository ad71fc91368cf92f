//! The publishing side.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use postrider_core::{AddressField, Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink};
use tokio::sync::oneshot;

use crate::writer::Writer;
use crate::{FileError, FileOptions};

/// Messages as JSON lines; the crate's documentation has the format.
///
/// All writing is done by one thread of its own, because a disk may take seconds to answer and the tasks of the relay
/// must not wait for it. Clones share the thread; it ends with the last of them, or by [`Sink::close`].
#[derive(Clone)]
pub struct FileSink {
    jobs: Arc<Mutex<Option<Sender<Job>>>>,
    capabilities: Capabilities,
}

impl FileSink {
    /// The parts of an address that a file takes, for checking routes before anything is opened. Standard output has
    /// none.
    pub const ADDRESS: &[AddressField] = &[AddressField {
        name: "path",
        required: false,
    }];

    /// Opens a file for appending and creates it if need be; its directory must exist.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<FileSink, FileError> {
        let path = path.as_ref();
        FileSink::start(Writer::open(path, &options)?, path)
    }

    /// Writes to standard output. Confirmed means that the line was handed to whoever reads it.
    pub fn stdout() -> Result<FileSink, FileError> {
        FileSink::start(Writer::stdout()?, Path::new("stdout"))
    }

    fn start(writer: Writer, path: &Path) -> Result<FileSink, FileError> {
        let capabilities = Capabilities {
            // All messages of a key are in one write, and a write that fails leaves a prefix.
            ordered_batches: true,
            max_message_bytes: None,
            // One write at a time is what keeps a batch in one piece.
            concurrent_batches: 1,
            durable: writer.is_durable(),
            address: if writer.takes_paths() {
                FileSink::ADDRESS
            } else {
                &[]
            },
        };
        let (jobs, queue) = mpsc::channel();
        thread::Builder::new()
            .name("postrider-file".to_owned())
            .spawn(move || work(writer, queue))
            .map_err(|error| FileError::new(path, error))?;
        Ok(FileSink {
            jobs: Arc::new(Mutex::new(Some(jobs))),
            capabilities,
        })
    }

    fn sender(&self) -> Option<Sender<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for FileSink {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Vec::new();
            }
            let count = batch.len();
            let (answer, answered) = oneshot::channel();
            let sent = self
                .sender()
                .is_some_and(|jobs| jobs.send(Job::Publish(batch, answer)).is_ok());
            if !sent {
                let closed = Failure::new(ErrorKind::Unreachable, "the sink is closed");
                return vec![Answer::Failed(closed); count];
            }
            answered.await.unwrap_or_else(|_| {
                let lost = Failure::new(ErrorKind::ConnectionLost, "the writer ended").maybe_sent();
                vec![Answer::Failed(lost); count]
            })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (done, closed) = oneshot::channel();
            if jobs.is_some_and(|jobs| jobs.send(Job::Close(done)).is_ok()) {
                // An error means that the writer has ended, which is what was asked for.
                let _ = closed.await;
            }
        })
    }
}

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink").finish_non_exhaustive()
    }
}

enum Job {
    Publish(Arc<[Message]>, oneshot::Sender<Vec<Answer>>),
    Close(oneshot::Sender<()>),
}

fn work(mut writer: Writer, queue: Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        match job {
            // Nobody waits for the answer any more: the batch was abandoned before it left.
            Job::Publish(_, answer) if answer.is_closed() => {}
            Job::Publish(batch, answer) => {
                let _ = answer.send(writer.publish(&batch));
            }
            Job::Close(done) => {
                drop(writer);
                let _ = done.send(());
                return;
            }
        }
    }
}
