//! Real processes: started, killed without warning, frozen, measured, and never left behind.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub use tempfile::TempDir;

/// How often a process is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A child process that does not outlive its owner: dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a process.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Self {
            child: command.spawn()?,
            ended: None,
        })
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until it has ended; none when it is still running at the limit.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends it as a power cut would (`kill -9`), frozen or not, and waits until it is gone.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        self.child.kill()?;
        let status = self.child.wait()?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Asks it to stop (SIGTERM).
    pub fn terminate(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Freezes it (SIGSTOP): its clock goes on, it does not.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// The most memory it has had so far, in MiB.
    pub fn peak_rss_mib(&self) -> io::Result<u64> {
        peak_rss_mib(self.id())
    }

    /// Signals it unless it has ended: the id of a process that was waited for may belong to another by then.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
        }
        let raw = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        let pid = raw.ok_or_else(|| io::Error::other("not the id of a process"))?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing is to be done about a failure here; the test has its result.
        let _ = self.kill();
    }
}

/// A folder for one test, removed with everything in it when dropped. The name shows whose it is if a crash leaves it.
pub fn scratch(name: &str) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("postrider-{name}-"))
        .tempdir()
}

/// The most memory that a process has had (`VmHWM`), in MiB, rounded up.
pub fn peak_rss_mib(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib.div_ceil(1024)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the process has no VmHWM: it has ended",
        )
    })
}
