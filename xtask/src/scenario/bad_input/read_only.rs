//! A database and a lines file that may not be written: a clear error, and everything goes once they may.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::trial::{CONFIGURATION, Said, Trial, hear};
use crate::failure::Result;

/// Who owns nothing on any system.
const NOBODY: u32 = 65_534;

pub(super) fn play(trial: &mut Trial<'_>) -> Result<()> {
    let place = Place::prepare(trial)?;
    trial.expect("read-only", &place.directory, &["migrate", "up"], 0, &[])?;
    let send = [
        "send",
        "--type",
        "A",
        "--aggregate",
        "T/1",
        "--id",
        "kept",
        "--payload",
        "{}",
    ];
    trial.expect("read-only", &place.directory, &send, 0, &[])?;

    place.permit(0o555, 0o444)?;
    let said = place.say(&["run", "--until-empty"])?;
    trial.judge("read-only-database", &said, 3, &["shop", "write access"]);
    let said = place.say(&["send", "--type", "A", "--aggregate", "T/1", "--payload", "{}"])?;
    trial.judge("read-only-database", &said, 3, &["shop", "write access"]);

    place.permit(0o755, 0o644)?;
    let lines = place.directory.join("lines.jsonl");
    fs::write(&lines, "")?;
    place.give(&lines)?;
    fs::set_permissions(&lines, Permissions::from_mode(0o444))?;
    let said = place.say(&["run", "--until-empty"])?;
    trial.judge("read-only-lines", &said, 3, &["lines", "may write there"]);

    fs::set_permissions(&lines, Permissions::from_mode(0o644))?;
    let said = place.say(&["run", "--until-empty"])?;
    trial.judge("read-only-mended", &said, 0, &["1 published"]);
    let text = fs::read_to_string(&lines)?;
    trial.check("read-only-mended", text.contains("\"kept\""), || {
        format!("the event is not in {text:?}")
    });
    Ok(())
}

/// A directory and a copy of the binary that an ordinary user can reach. Root may write everything, so that as root the
/// binary is started as somebody else.
struct Place {
    directory: PathBuf,
    binary: PathBuf,
    root: bool,
}

impl Place {
    fn prepare(trial: &Trial<'_>) -> Result<Self> {
        let directory = trial.directory("read-only", CONFIGURATION)?;
        let binary = trial.stage.path("postrider-copy");
        fs::copy(trial.stage.binary(), &binary)?;
        fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
        // A temporary directory is its owner's alone.
        fs::set_permissions(trial.stage.directory(), Permissions::from_mode(0o755))?;
        let root = rustix::process::geteuid().is_root();
        Ok(Self {
            directory,
            binary,
            root,
        })
    }

    fn say(&self, arguments: &[&str]) -> Result<Said> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(&self.directory);
        if self.root {
            command.uid(NOBODY).gid(NOBODY);
        }
        hear(command, b"")
    }

    fn give(&self, path: &Path) -> Result<()> {
        match self.root {
            true => Ok(chown(path, Some(NOBODY), Some(NOBODY))?),
            false => Ok(()),
        }
    }

    /// Sets the permissions of the directory and of every file of the database.
    fn permit(&self, directory: u32, files: u32) -> Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("shop.db"))
            {
                self.give(&path)?;
                fs::set_permissions(&path, Permissions::from_mode(files))?;
            }
        }
        self.give(&self.directory)?;
        Ok(fs::set_permissions(
            &self.directory,
            Permissions::from_mode(directory),
        )?)
    }
}
