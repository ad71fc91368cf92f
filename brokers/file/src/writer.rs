//! Batches into files, on the writer's own thread.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use postrider_core::{Answer, ErrorKind, Message, OrderKey, Receipt};

use crate::append::{Appended, Place};
use crate::connect::Output;
use crate::encode::push_line;
use crate::error::{Asked, FileError, failure};
use crate::{FileOptions, path};

/// Everything that is open, and how to open more.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Where messages without a path go: its name in receipts, and the output itself.
    main: (String, Output),
    /// Where the paths of messages are looked up; none for standard output, which has no neighbours.
    directory: Option<PathBuf>,
    /// The path of the main file within the directory, if it lies there.
    main_relative: Option<PathBuf>,
    /// Files that messages asked for, the least recently used first.
    routed: Vec<(PathBuf, Output)>,
    max_routed: usize,
    sync: bool,
}

impl Writer {
    pub(crate) fn open(path: &Path, options: &FileOptions) -> Result<Writer, FileError> {
        let main = Output::open(path).map_err(|error| FileError::new(path, error))?;
        let parent = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let is_log = matches!(main, Output::Log(_));
        let directory = options.directory.clone().or_else(|| is_log.then_some(parent));
        let main_relative = directory
            .as_ref()
            .and_then(|directory| path.strip_prefix(directory).ok())
            .map(Path::to_path_buf);
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned();
        Ok(Writer {
            main: (name, main),
            directory,
            main_relative,
            routed: Vec::new(),
            max_routed: options.max_open_files.max(1),
            sync: options.sync,
        })
    }

    pub(crate) fn stdout() -> Result<Writer, FileError> {
        let main = Output::stdout().map_err(|error| FileError::new(Path::new("stdout"), error))?;
        Ok(Writer {
            main: ("stdout".to_owned(), main),
            directory: None,
            main_relative: None,
            routed: Vec::new(),
            max_routed: 0,
            sync: false,
        })
    }

    /// Whether a confirmed message survives a power cut.
    pub(crate) fn is_durable(&self) -> bool {
        self.sync && matches!(self.main.1, Output::Log(_))
    }

    /// Whether messages may name files of their own.
    pub(crate) fn takes_paths(&self) -> bool {
        self.directory.is_some()
    }

    /// Writes a batch: one write for each file, unless a key goes to several of them.
    pub(crate) fn publish(&mut self, batch: &[Message]) -> Vec<Answer> {
        let mut answers = Answers::new(batch);
        let mut pending = Pending::default();
        for (index, message) in batch.iter().enumerate() {
            let file = match self.file_of(message) {
                Ok(file) => file,
                Err(failure) => {
                    // What stands before it of its key must be answered first.
                    answers.fail(index, failure);
                    continue;
                }
            };
            // Whether an earlier message of the key failed must be known before a later one is written elsewhere.
            if pending.holds_elsewhere(&message.order_key, &file) {
                self.flush(std::mem::take(&mut pending), &mut answers);
            }
            if !answers.is_behind(index) {
                pending.push(index, message, file);
            }
        }
        self.flush(pending, &mut answers);
        answers.finish()
    }

    /// The file of a message; none for the main one.
    fn file_of(&self, message: &Message) -> Result<Option<PathBuf>, postrider_core::Failure> {
        match (message.address.get("path"), &self.directory) {
            (Some(text), Some(_)) => {
                let relative = path::relative(text)?;
                Ok((Some(&relative) != self.main_relative.as_ref()).then_some(relative))
            }
            _ => Ok(None),
        }
    }

    fn flush(&mut self, pending: Pending<'_>, answers: &mut Answers<'_>) {
        for part in pending.parts {
            let asked = if part.file.is_some() {
                Asked::Routed
            } else {
                Asked::Configured
            };
            let name = match &part.file {
                Some(file) => file.to_string_lossy().into_owned(),
                None => self.main.0.clone(),
            };
            let sync = self.sync;
            let appended = match self.output(part.file.as_deref()) {
                Ok(output) => output.append(&part.lines, sync),
                Err(error) => Appended::nothing(error),
            };
            answers.take(&part, &name, &appended, asked);
        }
    }

    fn output(&mut self, file: Option<&Path>) -> io::Result<&mut Output> {
        let (Some(file), Some(directory)) = (file, &self.directory) else {
            return Ok(&mut self.main.1);
        };
        let output = match self.routed.iter().position(|(open, _)| open == file) {
            Some(at) => self.routed.remove(at).1,
            None => {
                path::prepare(directory, file)?;
                Output::open(&directory.join(file))?
            }
        };
        if self.routed.len() >= self.max_routed {
            self.routed.remove(0);
        }
        self.routed.push((file.to_path_buf(), output));
        let last = self.routed.last_mut().map(|(_, output)| output);
        last.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Lines that are not written yet, by file. All messages of a key are in one of the parts.
#[derive(Default)]
struct Pending<'a> {
    parts: Vec<Part>,
    of_key: HashMap<&'a OrderKey, usize>,
}

struct Part {
    file: Option<PathBuf>,
    lines: Vec<u8>,
    /// The place of each message in the batch, and where its line ends.
    members: Vec<(usize, usize)>,
}

impl<'a> Pending<'a> {
    fn holds_elsewhere(&self, key: &OrderKey, file: &Option<PathBuf>) -> bool {
        self.of_key
            .get(key)
            .is_some_and(|at| &self.parts[*at].file != file)
    }

    fn push(&mut self, index: usize, message: &'a Message, file: Option<PathBuf>) {
        let at = match self.parts.iter().position(|part| part.file == file) {
            Some(at) => at,
            None => {
                self.parts.push(Part {
                    file,
                    lines: Vec::new(),
                    members: Vec::new(),
                });
                self.parts.len() - 1
            }
        };
        self.of_key.insert(&message.order_key, at);
        let part = &mut self.parts[at];
        push_line(&mut part.lines, message);
        part.members.push((index, part.lines.len()));
    }
}

/// The answers of a batch as they come in.
struct Answers<'a> {
    batch: &'a [Message],
    answers: Vec<Option<Answer>>,
    failed: HashSet<&'a OrderKey>,
}

impl<'a> Answers<'a> {
    fn new(batch: &'a [Message]) -> Self {
        Self {
            batch,
            answers: vec![None; batch.len()],
            failed: HashSet::new(),
        }
    }

    fn fail(&mut self, index: usize, failure: postrider_core::Failure) {
        if !self.is_behind(index) {
            self.failed.insert(&self.batch[index].order_key);
            self.answers[index] = Some(Answer::Failed(failure));
        }
    }

    /// Answers a message whose key has failed already, and says whether it is one.
    fn is_behind(&mut self, index: usize) -> bool {
        let behind = self.failed.contains(&self.batch[index].order_key);
        if behind {
            self.answers[index] = Some(Answer::failed(
                ErrorKind::Behind,
                "an earlier event of its key failed",
            ));
        }
        behind
    }

    fn take(&mut self, part: &Part, name: &str, appended: &Appended, asked: Asked) {
        let mut start = 0;
        for (line, &(index, end)) in part.members.iter().enumerate() {
            if end <= appended.confirmed {
                let receipt = match appended.start {
                    Place::Offset(offset) => format!("{name}@{}", offset + start as u64),
                    Place::Line(first) => format!("{name}:{}", first + line as u64),
                };
                self.answers[index] = Some(Answer::Confirmed(Receipt(Some(receipt.into()))));
            } else {
                let error = appended.error.as_ref();
                let failure = error.map_or_else(
                    || {
                        postrider_core::Failure::new(
                            ErrorKind::Storage,
                            format!("{name}: the write ended early"),
                        )
                    },
                    |error| failure(name, error, asked),
                );
                let maybe_sent = start < appended.confirmed + appended.maybe;
                let failure = if maybe_sent { failure.maybe_sent() } else { failure };
                self.failed.insert(&self.batch[index].order_key);
                self.answers[index] = Some(Answer::Failed(failure));
            }
            start = end;
        }
    }

    fn finish(self) -> Vec<Answer> {
        let unanswered = || Answer::failed(ErrorKind::Unknown, "the writer gave no answer");
        self.answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(unanswered))
            .collect()
    }
}
