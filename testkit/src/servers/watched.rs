//! Server processes that do not outlive the test process, however it ends.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::process::Process;

/// What the watcher does when the test process is gone: its end of the pipe closes, whatever the reason. The process is
/// killed by its id, and the folder, if one is given, removed.
const WATCH: &str =
    "cat >/dev/null; kill -9 \"$1\" 2>/dev/null; [ -z \"$2\" ] || { sleep 0.3; rm -rf \"$2\"; }";

/// A server process with a watcher.
///
/// A server is shared by all tests of a process and lives in a static, which is never dropped; and a test process that
/// is killed drops nothing at all. So a small shell waits beside it.
#[derive(Debug)]
pub(crate) struct Watched {
    process: Process,
    watcher: Child,
}

impl Watched {
    /// Starts a process; the folder is removed if the test process ends while it runs.
    pub(crate) fn spawn(command: &mut Command, folder: Option<&Path>) -> io::Result<Watched> {
        let process = Process::spawn(command)?;
        let watcher = Command::new("sh")
            .args(["-c", WATCH, "watch"])
            .arg(process.id().to_string())
            .arg(folder.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Watched { process, watcher })
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The watcher first: once the process is gone, its id may be another's.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
        let _ = self.process.kill();
    }
}
