//! The processes of a scenario, each with a name for people and a log.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use postrider_testkit::process;
use rustix::process::Signal;

use crate::failure::{Doing, Failure, Result};

/// A process that dies with the scenario.
pub(super) struct Process {
    what: String,
    process: process::Process,
}

impl Process {
    /// Starts it; what it says on standard error is appended to a log.
    pub(super) fn start(what: &str, mut command: Command, log: &Path) -> Result<Process> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let process = process::Process::spawn(&mut command).doing(|| format!("starting {what}"))?;
        Ok(Process {
            what: what.to_owned(),
            process,
        })
    }

    /// Whether it has ended, and how.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.ended()?)
    }

    /// Waits until it ends by itself.
    pub(super) fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let ended = self.process.wait(deadline)?;
        ended.ok_or_else(|| Failure::new(format!("{} did not end within {deadline:?}", self.what)))
    }

    /// Ends it as a power cut would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        Ok(())
    }

    /// Freezes it: time goes on, it does not.
    pub(super) fn freeze(&mut self) -> Result<()> {
        Ok(self.process.freeze()?)
    }

    /// Lets it go on.
    pub(super) fn thaw(&mut self) -> Result<()> {
        Ok(self.process.thaw()?)
    }

    /// Asks it to stop and expects that it ends well.
    pub(super) fn terminate(mut self, deadline: Duration) -> Result<()> {
        self.process.terminate()?;
        self.expect_success(deadline)
    }

    /// Closes its standard input, which tells our own processes to finish, and gives what it printed.
    pub(super) fn finish(mut self, deadline: Duration) -> Result<String> {
        drop(self.process.child().stdin.take());
        let mut output = self.process.child().stdout.take();
        self.expect_success(deadline)?;
        let mut text = String::new();
        if let Some(output) = &mut output {
            std::io::Read::read_to_string(output, &mut text)?;
        }
        Ok(text)
    }

    /// The most memory it has had resident so far; none when it is gone.
    pub(super) fn peak_rss_mib(&self) -> Option<u64> {
        self.process.peak_rss_mib().ok()
    }

    fn expect_success(&mut self, deadline: Duration) -> Result<()> {
        let status = self.wait(deadline)?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("{} ended badly: {status}", self.what))),
        }
    }
}

/// Whether a process ended by the abort of a crash point.
pub(super) fn aborted(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw())
}
