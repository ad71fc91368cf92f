//! Real servers for tests: private, on loopback, on a free port, in a folder of their own, gone with the test process.
//!
//! A server that is not installed is a failure that names its package, never a test that is skipped. On a machine that
//! has a server already, a variable names it: `POSTRIDER_TEST_POSTGRES_URL`.

mod binaries;
pub mod certificates;
mod pgbouncer;
mod ports;
mod postgres;
pub mod rabbitmq;
mod small_disk;
pub mod smtp;
mod watched;

use std::io;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, TestDatabase};

/// A port that nobody listens on now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A user without rights, for servers that refuse to run as root: its numeric ids. None when we are not root.
fn unprivileged(names: &[&str]) -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let ids = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut words = line.split(':').skip(2);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    match names.iter().find_map(ids) {
        Some(ids) => Ok(Some(ids)),
        None => Err(io::Error::other(format!("none of the users {names:?} exists"))),
    }
}

/// A command that runs as that user.
fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

/// Gives a folder to that user.
fn give(folder: &Path, user: Option<(u32, u32)>) -> io::Result<()> {
    match user {
        Some((user, group)) => chown(folder, Some(user), Some(group)),
        None => Ok(()),
    }
}
