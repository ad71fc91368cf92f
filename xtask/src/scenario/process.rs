//! The processes of a scenario: each is ended by its own id, and none outlives the scenario.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::wait::until;
use crate::failure::{Doing, Failure, Result};

/// A process that dies with the scenario.
pub(super) struct Process {
    what: String,
    child: Child,
}

impl Process {
    /// Starts it; what it says on standard error is appended to a log.
    pub(super) fn start(what: &str, mut command: Command, log: &Path) -> Result<Process> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .doing(|| format!("starting {what}"))?;
        Ok(Process {
            what: what.to_owned(),
            child,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended, and how.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until it ends by itself.
    pub(super) fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("{} ended", self.what);
        until(&what, deadline, || self.ended())
    }

    /// Ends it as a power cut would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop and expects that it ends well.
    pub(super) fn terminate(mut self, deadline: Duration) -> Result<()> {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new("a process without an id"))?;
        kill_process(pid, Signal::TERM)?;
        self.expect_success(deadline)
    }

    /// Closes its standard input, which tells our own processes to finish, and gives what it printed.
    pub(super) fn finish(mut self, deadline: Duration) -> Result<String> {
        drop(self.child.stdin.take());
        let mut output = self.child.stdout.take();
        self.expect_success(deadline)?;
        let mut text = String::new();
        if let Some(output) = &mut output {
            std::io::Read::read_to_string(output, &mut text)?;
        }
        Ok(text)
    }

    fn expect_success(&mut self, deadline: Duration) -> Result<()> {
        let status = self.wait(deadline)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("{} ended badly: {status}", self.what))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process ended by the abort of a crash point.
pub(super) fn aborted(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw())
}

/// The most memory that a process has had resident so far, in KiB; none when it is gone.
pub(super) fn peak_rss_kib(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
