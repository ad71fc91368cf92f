//! Ends a real process at a named point, as a power cut would, and tells how it ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::process::Process;

pub use postrider_core::crash::{OPERATORS, POINTS};

/// The variable that names the point, as `name:n`.
pub const CRASH_AT: &str = "POSTRIDER_CRASH_AT";

/// What `abort` ends a process with.
const SIGABRT: i32 = 6;

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// At the point.
    AtPoint,
    /// By itself, without coming to the point often enough.
    ByItself(ExitStatus),
    /// It is still running: the point was not reached within the limit.
    Running(Process),
}

impl Ended {
    /// Whether it ended at the point.
    pub fn at_point(&self) -> bool {
        matches!(self, Ended::AtPoint)
    }
}

/// Starts a process that is to end the `n`-th time it comes to a point, and waits for its end.
pub fn run_until(command: &mut Command, point: &str, n: u64, limit: Duration) -> io::Result<Ended> {
    let mut process = spawn(command, point, n)?;
    Ok(match process.wait(limit)? {
        Some(status) if status.signal() == Some(SIGABRT) => Ended::AtPoint,
        Some(status) => Ended::ByItself(status),
        None => Ended::Running(process),
    })
}

/// Starts a process that is to end the `n`-th time it comes to a point. A name that no part of the product has is
/// refused: such a process would run for ever, and the test would prove nothing.
pub fn spawn(command: &mut Command, point: &str, n: u64) -> io::Result<Process> {
    if !POINTS.contains(&point) && !OPERATORS.contains(&point) {
        let text = format!("there is no crash point {point:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Process::spawn(command.env(CRASH_AT, format!("{point}:{n}")))
}
