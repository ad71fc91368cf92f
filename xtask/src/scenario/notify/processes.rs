//! The two processes of the house: the relay of the shop, and the service that notifies.

use std::cell::RefCell;
use std::net::TcpStream;
use std::time::Duration;

use super::house::House;
use super::{LOOK_EVERY, PATIENCE};
use crate::failure::{Failure, Result};
use crate::scenario::process::{Process, aborted};
use crate::scenario::wait::until_every;

const GOODBYE: Duration = Duration::from_secs(40);

impl House<'_> {
    /// Starts the relay of the shop, which may be asked to end at a crash point.
    pub(super) fn start_relay(&self, crash: Option<&str>) -> Result<()> {
        let mut command = self.stage.postrider(self.pair.directory(), &["run"]);
        command.envs(crash.map(|crash| ("POSTRIDER_CRASH_AT", crash)));
        let started = Process::start("the relay", command, &self.stage.path("relay.log"))?;
        *self.relay.borrow_mut() = Some(started);
        Ok(())
    }

    /// Starts the service that notifies, and waits until it answers.
    pub(super) fn start_notify(&self, crash: Option<&str>) -> Result<()> {
        let started = self.notify_at(self.port, crash)?;
        *self.notify.borrow_mut() = Some(started);
        Ok(())
    }

    /// Starts a second one beside the first.
    pub(super) fn second_notify(&self) -> Result<Process> {
        self.notify_at(self.second_port, None)
    }

    fn notify_at(&self, port: u16, crash: Option<&str>) -> Result<Process> {
        let mut command = self.stage.postrider(&self.directory, &["notify", "run"]);
        command.env("POSTRIDER__NOTIFY__LISTEN", format!("127.0.0.1:{port}"));
        command.envs(crash.map(|crash| ("POSTRIDER_CRASH_AT", crash)));
        let mut process = Process::start("notify run", command, &self.stage.path("notify.log"))?;
        until_every(LOOK_EVERY, "notify run answers", PATIENCE, || {
            match process.ended()? {
                Some(status) => Err(Failure::new(format!("notify run ended with {status}"))),
                None => Ok(TcpStream::connect(("127.0.0.1", port)).ok()),
            }
        })?;
        Ok(process)
    }

    pub(super) fn stop_relay(&self) -> Result<()> {
        stop(&self.relay)
    }

    pub(super) fn stop_notify(&self) -> Result<()> {
        stop(&self.notify)
    }

    /// Waits until the relay has ended at its crash point.
    pub(super) fn relay_died(&self) -> Result<()> {
        died(&self.relay)
    }

    /// Waits until the service has ended at its crash point.
    pub(super) fn notify_died(&self) -> Result<()> {
        died(&self.notify)
    }

    /// Ends the service as a power cut would.
    pub(super) fn kill_notify(&self) -> Result<()> {
        let process = self.notify.borrow_mut().take();
        process.map_or(Ok(()), Process::kill)
    }

    /// The most memory that the service has had resident.
    pub(super) fn notify_peak_rss_mib(&self) -> Option<u64> {
        self.notify.borrow().as_ref().and_then(Process::peak_rss_mib)
    }
}

pub(super) fn is_running(process: &RefCell<Option<Process>>) -> Result<bool> {
    match process.borrow_mut().as_mut() {
        Some(process) => Ok(process.ended()?.is_none()),
        None => Ok(false),
    }
}

fn stop(process: &RefCell<Option<Process>>) -> Result<()> {
    match process.borrow_mut().take() {
        Some(process) => process.terminate(GOODBYE),
        None => Ok(()),
    }
}

fn died(process: &RefCell<Option<Process>>) -> Result<()> {
    let Some(mut process) = process.borrow_mut().take() else {
        return Err(Failure::new("it does not run"));
    };
    let status = process.wait(PATIENCE)?;
    match aborted(status) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "it ended with {status} and not by the crash point"
        ))),
    }
}
