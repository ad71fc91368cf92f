//! A private PgBouncer that gives every transaction to another session.

use std::fs::{self, File};
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Postgres, command, free_port, give, unprivileged};
use crate::process::{Process, TempDir, scratch};

const PATIENCE: Duration = Duration::from_secs(20);

/// A pooler in transaction mode in front of a server.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one in front of a server, with so many connections to it.
    pub fn start(server: &Postgres, pool_size: u32) -> io::Result<PgBouncer> {
        let user = unprivileged(&["postgres", "nobody"])?;
        let folder = scratch("pgbouncer")?;
        give(folder.path(), user)?;
        let port = free_port()?;
        let file = folder.path().join("pgbouncer.ini");
        // Connections are handed out in turn, so that what one transaction leaves behind is found by another soon.
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {pool_size}\nserver_round_robin = 1\n",
            server.port()?
        );
        fs::write(&file, settings)?;
        let log = File::create(folder.path().join("log"))?;
        let mut bouncer = command(&binary()?, user);
        bouncer
            .arg(&file)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut process = Process::spawn(&mut bouncer)?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if process.ended()?.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("PgBouncer did not start: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            port,
            _process: process,
            _folder: folder,
        })
    }

    /// The address of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

fn binary() -> io::Result<PathBuf> {
    let places = [
        "/usr/sbin/pgbouncer",
        "/usr/bin/pgbouncer",
        "/usr/local/bin/pgbouncer",
    ];
    places
        .iter()
        .map(PathBuf::from)
        .find(|file| file.is_file())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "PgBouncer is not installed; on Debian: apt-get install pgbouncer",
            )
        })
}
