//! What must be on the machine, and how it gets there.
//!
//! Each entry says how to look for a tool and which Debian package has it. As root, with apt, what is missing is
//! installed; otherwise it is named. Nothing is ever skipped because a tool is missing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};

/// Something that a test needs.
struct Tool {
    what: &'static str,
    why: &'static str,
    /// Any one of these programs will do.
    programs: &'static [&'static str],
    package: &'static str,
}

/// What scenarios start. Servers of further backends are added here when those backends are.
const SERVERS: &[Tool] = &[
    Tool {
        what: "RabbitMQ",
        why: "its sink and source are tested on a private server",
        programs: &["rabbitmq-server"],
        package: "rabbitmq-server",
    },
    Tool {
        what: "PostgreSQL",
        why: "the tests of its store start a private server",
        programs: &[
            "/usr/lib/postgresql/18/bin/initdb",
            "/usr/lib/postgresql/17/bin/initdb",
            "/usr/lib/postgresql/16/bin/initdb",
            "/usr/lib/postgresql/15/bin/initdb",
            "/usr/lib/postgresql/14/bin/initdb",
            "initdb",
        ],
        package: "postgresql-15",
    },
    Tool {
        what: "PgBouncer",
        why: "a relay is tested behind a pooler in transaction mode",
        programs: &[
            "/usr/sbin/pgbouncer",
            "/usr/bin/pgbouncer",
            "/usr/local/bin/pgbouncer",
        ],
        package: "pgbouncer",
    },
];

/// What only the tests need.
const TOOLS: &[Tool] = &[
    Tool {
        what: "a C compiler",
        why: "SQLite is compiled from source and linked in",
        programs: &["cc", "gcc", "clang"],
        package: "gcc",
    },
    Tool {
        what: "Python with venv",
        why: "the SQL contract is tested with psycopg",
        programs: &["python3"],
        package: "python3-venv",
    },
    Tool {
        what: "Node.js with npm",
        why: "the SQL contract is tested with node-postgres, and mail with a server that npm installs",
        programs: &["npm"],
        package: "npm",
    },
    Tool {
        what: "a Java compiler",
        why: "the SQL contract is tested with JDBC",
        programs: &["javac"],
        package: "openjdk-17-jdk-headless",
    },
    Tool {
        what: "Maven",
        why: "it downloads the JDBC driver",
        programs: &["mvn"],
        package: "maven",
    },
    Tool {
        what: "Go",
        why: "the SQL contract is tested with pgx",
        programs: &["go"],
        package: "golang-go",
    },
    Tool {
        what: "Chromium",
        why: "the page with the live feed is opened in it",
        programs: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
    },
];

/// Debian makes a database and starts it when the package is installed; this tells it not to.
const CLUSTER: (&str, &str) = (
    "/etc/postgresql-common/createcluster.conf",
    "create_main_cluster = false\n",
);
/// The packages of servers start them, on the ports that everybody knows; this answers their question whether they may.
/// 101: not now.
const POLICY: (&str, &str) = ("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n");

/// Makes sure that everything is there.
pub(crate) fn ensure() -> Result<()> {
    there(SERVERS.iter().chain(TOOLS))
}

/// Makes sure that the servers are there.
pub(crate) fn ensure_servers() -> Result<()> {
    there(SERVERS.iter())
}

/// What it says goes to standard error: the standard output of a scenario is its result.
fn there(tools: impl Iterator<Item = &'static Tool>) -> Result<()> {
    let missing: Vec<&Tool> = tools.filter(|tool| !tool.is_there()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    if can_install() {
        eprintln!("tools: installing {}", packages.join(", "));
        install(&packages)?;
    }
    match missing.into_iter().find(|tool| !tool.is_there()) {
        None => Ok(()),
        Some(tool) => Err(Failure::new(format!(
            "{} is missing ({}); install it, on Debian with: apt-get install {}",
            tool.what,
            tool.why,
            packages.join(" ")
        ))),
    }
}

impl Tool {
    fn is_there(&self) -> bool {
        self.programs.iter().any(|program| on_path(program)) && (self.package != "python3-venv" || has_venv())
    }
}

/// Debian has Python without the part that makes environments.
fn has_venv() -> bool {
    let mut ask = Command::new("python3");
    ask.args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Whether a program is in one of the directories of PATH, or where its full name says.
fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A full name replaces the directory that it is joined to.
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn can_install() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists()
}

/// Installs packages without starting anything that is in them.
fn install(packages: &[&str]) -> Result<()> {
    if packages.contains(&"postgresql-15") && !Path::new(CLUSTER.0).exists() {
        std::fs::create_dir_all("/etc/postgresql-common")?;
        std::fs::write(CLUSTER.0, CLUSTER.1)?;
    }
    // A policy that somebody has set is theirs; ours is there for as long as this takes.
    let ours = !Path::new(POLICY.0).exists();
    if ours {
        std::fs::write(POLICY.0, POLICY.1)?;
        std::fs::set_permissions(POLICY.0, std::fs::Permissions::from_mode(0o755))?;
    }
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    let installed = apt(&["update", "--quiet"]).and_then(|()| apt(&arguments));
    if ours {
        std::fs::remove_file(POLICY.0)?;
    }
    installed
}

fn apt(arguments: &[&str]) -> Result<()> {
    let status = Command::new("/usr/bin/apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("apt-get {} failed", arguments.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_on_the_path() {
        assert!(on_path("sh"));
        assert!(!on_path("a-program-that-nobody-has"));
    }
}
