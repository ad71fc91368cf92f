//! A private PostgreSQL.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::binaries::binaries;
use super::certificates::Authority;
use super::{command, free_port, give, small_disk, unprivileged};
use crate::process::{Process, TempDir, scratch};

/// How long a start may take. Generous: after `kill -9` the log is played back first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A static is never dropped, so a shell keeps the server of the process: its input ends with the process, however that
/// ends, and then it takes the server and the folder away.
const KEEPER: &str =
    "\"$@\" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server; cd /; rm -rf \"$0\"";

/// A server, or the address of one that was named.
#[derive(Debug)]
pub struct Postgres {
    /// The address without a database.
    base: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    binaries: PathBuf,
    user: Option<(u32, u32)>,
    folder: TempDir,
    port: u16,
    /// What is set beside the settings for tests, and wins over them.
    settings: Vec<String>,
    /// The size of the disk at [`Own::small_disk`] in MiB.
    disk: Option<u32>,
    process: Mutex<Option<Process>>,
}

/// A database of one test, on a server that others share.
#[derive(Clone, Debug)]
pub struct TestDatabase {
    /// Where it is, with everything that is needed to connect as its owner.
    pub url: String,
    /// Its name.
    pub name: String,
}

impl Postgres {
    /// The server of this test process: started at the first call, ended with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be had; the message says what to install.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| match Self::named() {
            Some(server) => server,
            None => Self::start_own(true, &[], None).unwrap_or_else(|error| panic!("{error}")),
        })
    }

    /// A server of the caller's own, which may be stopped, killed and frozen.
    pub fn start() -> io::Result<Postgres> {
        Self::start_own(false, &[], None)
    }

    /// The same with a disk of so many MiB beside its own, which ends with it; [`Postgres::small_database`] is on it.
    pub fn start_with_small_disk(mib: u32) -> io::Result<Postgres> {
        Self::start_own(false, &[], Some(mib))
    }

    /// The same with settings of its own, such as `fsync=on`: tests go without, measurements must not.
    pub fn start_with(settings: &[&str]) -> io::Result<Postgres> {
        Self::start_own(false, settings, None)
    }

    fn named() -> Option<Postgres> {
        let url = std::env::var("POSTRIDER_TEST_POSTGRES_URL").ok()?;
        Some(Self {
            base: url.trim_end_matches('/').to_owned(),
            own: None,
        })
    }

    fn start_own(dies_with_us: bool, settings: &[&str], disk: Option<u32>) -> io::Result<Postgres> {
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
        let own = Own {
            binaries,
            user,
            folder,
            port,
            settings,
            disk,
            process: Mutex::default(),
        };
        own.start(dies_with_us)?;
        Ok(Self {
            base: format!("postgres://postgres@127.0.0.1:{port}"),
            own: Some(own),
        })
    }

    /// The port it listens on.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.own()?.port)
    }

    /// The address of a database of this server.
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.base)
    }

    /// The certificate of the authority that a server with `ssl=on` has its own from; that one is for `localhost` only.
    pub fn authority(&self) -> io::Result<PathBuf> {
        Ok(self.own()?.folder.path().join("authority.pem"))
    }

    /// Makes a new, empty database.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn database(&self) -> TestDatabase {
        self.database_with("")
    }

    /// A new, empty database on the small disk: its tables, and not the server's log, are what fills it.
    ///
    /// # Panics
    ///
    /// When there is no such disk, or the database cannot be made.
    pub fn small_database(&self) -> TestDatabase {
        let own = self.own().expect("a server of our own");
        let disk = own.small_disk();
        self.sql(
            "postgres",
            &format!("CREATE TABLESPACE small LOCATION '{}'", disk.display()),
        );
        self.database_with("TABLESPACE small")
    }

    fn database_with(&self, options: &str) -> TestDatabase {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        TestDatabase {
            url: self.url(&name),
            name,
        }
    }

    /// Runs SQL in a database through `psql`, and gives what it prints: rows without headings, columns parted by `|`.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = self
            .psql(database)
            .args(["-c", sql])
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!("psql cannot be run: {error}; on Debian: apt-get install postgresql-client-15")
            });
        assert!(
            output.status.success(),
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// `psql` in a database: rows without headings, columns parted by `|`, ends at the first error.
    pub fn psql(&self, database: &str) -> Command {
        let program = match &self.own {
            Some(own) => own.binaries.join("psql"),
            None => PathBuf::from("psql"),
        };
        let mut psql = Command::new(program);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.url(database));
        psql
    }

    /// Stops it as an administrator would: connections are cut, everything is written.
    pub fn stop(&self) -> io::Result<()> {
        let own = self.own()?;
        let mut process = own.process();
        let Some(mut running) = process.take() else {
            return Ok(());
        };
        let mut stop = command(&own.binaries.join("pg_ctl"), own.user);
        stop.args(["-D".as_ref(), own.data().as_os_str()])
            .args(["-m", "fast", "-w", "stop"]);
        run(&mut stop)?;
        running.wait(PATIENCE)?;
        Ok(())
    }

    /// Starts it again on the same port.
    pub fn start_again(&self) -> io::Result<()> {
        self.own()?.start(false)
    }

    /// Starts a standby that follows this server.
    pub fn standby(&self) -> io::Result<Postgres> {
        let own = self.own()?;
        let folder = scratch("standby")?;
        give(folder.path(), own.user)?;
        let mut copy = command(&own.binaries.join("pg_basebackup"), own.user);
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
        .arg(own.port.to_string())
        .arg("-D")
        .arg(folder.path().join("data"));
        run(&mut copy)?;
        let standby = Own {
            binaries: own.binaries.clone(),
            user: own.user,
            folder,
            port: free_port()?,
            settings: own.settings.clone(),
            disk: None,
            process: Mutex::default(),
        };
        standby.start(false)?;
        Ok(Self {
            base: format!("postgres://postgres@127.0.0.1:{}", standby.port),
            own: Some(standby),
        })
    }

    /// Stops and starts it.
    pub fn restart(&self) -> io::Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Ends it as a power cut would.
    pub fn kill9(&self) -> io::Result<()> {
        let own = self.own()?;
        if let Some(mut running) = own.process().take() {
            running.kill()?;
        }
        // Its children notice by themselves that their parent is gone, and the folder is theirs until then.
        let deadline = Instant::now() + PATIENCE;
        while own.is_lived_in()? {
            if Instant::now() > deadline {
                return Err(io::Error::other("processes of a killed PostgreSQL do not end"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = std::fs::remove_file(own.data().join("postmaster.pid"));
        Ok(())
    }

    /// Freezes the server: it accepts no connection and starts nothing new.
    pub fn freeze(&self) -> io::Result<()> {
        self.own()?.process().as_mut().map_or(Ok(()), Process::freeze)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        self.own()?.process().as_mut().map_or(Ok(()), Process::thaw)
    }

    fn own(&self) -> io::Result<&Own> {
        let refuse = || io::Error::other("a server that was named by a variable is not ours to stop");
        self.own.as_ref().ok_or_else(refuse)
    }
}

impl Own {
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
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

    fn small_disk(&self) -> PathBuf {
        self.folder.path().join("small-disk")
    }

    fn start(&self, dies_with_us: bool) -> io::Result<()> {
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
