//! A private PostgreSQL.

mod own;

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use self::own::Own;
use crate::process::Process;

/// A server, or the address of one that was named.
#[derive(Debug)]
pub struct Postgres {
    /// The address without a database.
    base: String,
    own: Option<Own>,
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
        let own = Own::make(settings, disk)?;
        own.start(dies_with_us)?;
        Ok(Self {
            base: own.base(),
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
        Ok(self.own()?.folder().join("authority.pem"))
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
        self.own()?.stop()
    }

    /// Starts it again on the same port.
    pub fn start_again(&self) -> io::Result<()> {
        self.own()?.start(false)
    }

    /// Starts a standby that follows this server.
    pub fn standby(&self) -> io::Result<Postgres> {
        let standby = self.own()?.copy()?;
        standby.start(false)?;
        Ok(Self {
            base: standby.base(),
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
        self.own()?.kill9()
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
