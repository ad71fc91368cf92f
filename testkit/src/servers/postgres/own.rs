//! A PostgreSQL of our own: its folder, its processes, and how it starts and ends.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process::{Process, TempDir, scratch};
use crate::servers::binaries::binaries;
use crate::servers::certificates::Authority;
use crate::servers::{command, free_port, give, small_disk, unprivileged};

/// How long a start may take. Generous: after `kill -9` the log is played back first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A static is never dropped, so a shell keeps the server of the process: its input ends with the process, however that
/// ends, and then it takes the server and the folder away.
const KEEPER: &str =
    "\"$@\" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server; cd /; rm -rf \"$0\"";

#[derive(Debug)]
pub(super) struct Own {
    pub(super) binaries: PathBuf,
    user: Option<(u32, u32)>,
    folder: TempDir,
    pub(super) port: u16,
    /// What is set beside the settings for tests, and wins over them.
    settings: Vec<String>,
    /// The size of the disk at [`Own::small_disk`] in MiB.
    disk: Option<u32>,
    process: Mutex<Option<Process>>,
}

impl Own {
    /// A new server that is not started yet.
    pub(super) fn make(settings: &[&str], disk: Option<u32>) -> io::Result<Own> {
        let binaries = binaries()?;
        let user = unprivileged(&["postgres", "nobody"])?;
        let folder = scratch("postgres")?;
        give(folder.path(), user)?;
        let data = folder.path().join("data");
        let mut initdb = command(&binaries.join("initdb"), user);
        initdb
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ])
            .arg(&data);
        run(&mut initdb)?;
        let mut settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        if settings.iter().any(|setting| setting == "ssl=on") {
            settings.extend(certify(folder.path(), user)?);
        }
        let port = free_port()?;
        Ok(Own {
            binaries,
            user,
            folder,
            port,
            settings,
            disk,
            process: Mutex::default(),
        })
    }

    /// A copy that follows this server, not started yet.
    pub(super) fn copy(&self) -> io::Result<Own> {
        let folder = scratch("standby")?;
        give(folder.path(), self.user)?;
        let mut copy = command(&self.binaries.join("pg_basebackup"), self.user);
        copy.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "-p",
        ])
        .arg(self.port.to_string())
        .arg("-D")
        .arg(folder.path().join("data"));
        run(&mut copy)?;
        Ok(Own {
            binaries: self.binaries.clone(),
            user: self.user,
            folder,
            port: free_port()?,
            settings: self.settings.clone(),
            disk: None,
            process: Mutex::default(),
        })
    }

    /// The address without a database.
    pub(super) fn base(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}", self.port)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        let mut process = self.process();
        let Some(mut running) = process.take() else {
            return Ok(());
        };
        let mut stop = command(&self.binaries.join("pg_ctl"), self.user);
        stop.args(["-D".as_ref(), self.data().as_os_str()])
            .args(["-m", "fast", "-w", "stop"]);
        run(&mut stop)?;
        running.wait(PATIENCE)?;
        Ok(())
    }

    pub(super) fn kill9(&self) -> io::Result<()> {
        if let Some(mut running) = self.process().take() {
            running.kill()?;
        }
        // Its children notice by themselves that their parent is gone, and the folder is theirs until then.
        let deadline = Instant::now() + PATIENCE;
        while self.is_lived_in()? {
            if Instant::now() > deadline {
                return Err(io::Error::other("processes of a killed PostgreSQL do not end"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
        Ok(())
    }

    pub(super) fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Whether a process works in the data folder, which is where all of a server's processes do.
    fn is_lived_in(&self) -> io::Result<bool> {
        let data = self.data();
        let mut processes = std::fs::read_dir("/proc")?.flatten();
        Ok(processes
            .any(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data)))
    }

    pub(super) fn small_disk(&self) -> PathBuf {
        self.folder.path().join("small-disk")
    }

    pub(super) fn start(&self, dies_with_us: bool) -> io::Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))?;
        let program = self.binaries.join("postgres");
        let mut server = match dies_with_us {
            true => {
                let mut keeper = command(Path::new("/bin/sh"), self.user);
                keeper.args(["-c", KEEPER]).arg(self.folder.path()).arg(program);
                keeper.stdin(Stdio::piped());
                keeper
            }
            false => {
                let mut server = match self.disk {
                    Some(mib) => {
                        std::fs::create_dir_all(self.small_disk())?;
                        small_disk::command(&program, self.user, &self.small_disk(), mib)
                    }
                    None => command(&program, self.user),
                };
                server.stdin(Stdio::null());
                server
            }
        };
        server
            .arg("-D")
            .arg(self.data())
            .arg("-p")
            .arg(self.port.to_string())
            .arg("-k")
            .arg(self.folder.path());
        for setting in [
            "listen_addresses=127.0.0.1",
            "max_connections=200",
            "max_prepared_transactions=10",
            "shared_buffers=128MB",
            "fsync=off",
            "log_min_messages=warning",
        ] {
            server.args(["-c", setting]);
        }
        for setting in &self.settings {
            server.args(["-c", setting]);
        }
        server
            .current_dir(self.folder.path())
            .stdout(log.try_clone()?)
            .stderr(log);
        *self.process() = Some(Process::spawn(&mut server)?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut ask = command(&self.binaries.join("pg_isready"), self.user);
            ask.args(["-q", "-h", "127.0.0.1", "-p"])
                .arg(self.port.to_string());
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() && ask.status()?.success() {
                return Ok(());
            }
            let ended = self.process().as_mut().map(Process::ended).transpose()?.flatten();
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("PostgreSQL did not start: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Makes a certificate, and the settings that name it. The key must belong to the server's user alone.
fn certify(folder: &Path, user: Option<(u32, u32)>) -> io::Result<[String; 2]> {
    let made = Authority::create(folder)?;
    give(&made.key, user)?;
    std::fs::set_permissions(&made.key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok([
        format!("ssl_cert_file={}", made.certificate.display()),
        format!("ssl_key_file={}", made.key.display()),
    ])
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{:?} failed: {}",
            command.get_program(),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
