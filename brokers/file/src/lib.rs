//! JSON lines in a file or on standard output, as a destination of Postrider; and a file of them as a source.
//!
//! Each message is one line, written with the whole batch in one write and on disk (`fdatasync`) before it is
//! confirmed. A line is a JSON object; its fields come in this order:
//!
//! | field | value |
//! |---|---|
//! | `event_id` | the event's id |
//! | `key` | the message key |
//! | `address` | object of strings: the address as the route rendered it; left out when it is empty |
//! | `content_type` | the content type of the body |
//! | `headers` | object of strings: the transport headers |
//! | `body` | a body that is JSON on one line, with no space around it: its very bytes |
//! | `body_text` | in place of `body`: any other text, such as JSON that spans several lines, as a string |
//! | `body_base64` | in place of `body`: anything else, in standard Base64 with padding |
//!
//! So `body` always is the document itself, and the bytes of any body can be had back exactly. A reader takes a line
//! when it sees the line's end: what has none yet may be cut off again.
//!
//! The receipt of a line is `name@offset`, the byte at which it begins, or `stdout:number`.
//!
//! **Crashes.** A process that dies while it writes leaves half a line. Whoever writes next cuts it off, or, while
//! another process has the file open, ends it with a line feed, which leaves a line that is not JSON. Nothing that was
//! confirmed is ever cut.
//!
//! **Full disks.** The lines that fitted are confirmed, the others fail as unavailable, and half a line is cut off.
//!
//! **Rotation.** Rename or remove the file at any time: the next batch creates it anew. Several relays may write to one
//! file on a local disk; each batch stays in one piece.
//!
//! **Consuming.** [`FileSource`] reads such a file as a queue, keeps how far it came beside it, and lets consumers of
//! one position take turns. It does not follow a rotation.
//!
//! **Several files.** A route may give a `path`, such as `{aggregate_type|lower}/{event_type}.jsonl`, which is looked
//! up in the configured directory. It must stay inside of it, must end in `.jsonl` or `.ndjson`, and must not lead
//! over a symbolic link: events choose this path, and must not choose a file that is not theirs.
//!
//! ```
//! use postrider_core::Sink;
//! use postrider_file::{FileOptions, FileSink};
//!
//! # let directory = tempfile::tempdir()?;
//! let sink = FileSink::open(directory.path().join("events.jsonl"), FileOptions::default())?;
//! assert!(sink.capabilities().durable);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod config;
mod connect;
mod decode;
mod encode;
mod error;
mod path;
mod position;
mod read;
mod sink;
mod source;
mod tail;
mod writer;

pub use config::FileOptions;
pub use error::FileError;
pub use sink::FileSink;
pub use source::FileSource;
