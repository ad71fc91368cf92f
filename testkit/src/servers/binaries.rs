//! Where the programs of PostgreSQL are.

use std::io;
use std::path::PathBuf;

/// Where Debian and others put the programs, the newest first.
const BINARIES: [&str; 8] = [
    "/usr/lib/postgresql/18/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/14/bin",
    "/usr/local/pgsql/bin",
    "/usr/pgsql/bin",
    "/opt/homebrew/bin",
];

/// The folder of the newest that is installed.
pub(super) fn binaries() -> io::Result<PathBuf> {
    let found = BINARIES
        .iter()
        .map(PathBuf::from)
        .find(|folder| folder.join("initdb").is_file());
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file())
    };
    found.or_else(on_path).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "PostgreSQL is not installed; on Debian: apt-get install postgresql-15 (with create_main_cluster = false \
             in /etc/postgresql-common/createcluster.conf), or name a server in POSTRIDER_TEST_POSTGRES_URL",
        )
    })
}
