//! Calling cargo: always the one that called us, always in the workspace, so that everything shares one target
//! directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::failure::{Doing, Failure, Result};

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo with these arguments, in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

/// The packages with a binary that `cargo xtask` runs in release mode. They are always built together: built one by
/// one, each has other features of their common dependencies, and everything below them is compiled again.
const PACKAGES: [&str; 4] = ["postrider-cli", "postrider-sim", "postrider-bench", "xtask"];

/// Where a binary is in release mode, built when it has not been. What cargo says goes to standard error as it comes.
pub(crate) fn release_binary(binary: &str) -> Result<PathBuf> {
    static BUILT: OnceLock<Vec<(String, PathBuf)>> = OnceLock::new();
    let built = match BUILT.get() {
        Some(built) => built,
        None => {
            let built = build()?;
            BUILT.get_or_init(|| built)
        }
    };
    let found = built.iter().find(|(name, _)| name == binary);
    found
        .map(|(_, path)| path.clone())
        .ok_or_else(|| Failure::new(format!("cargo did not say where it put {binary}")))
}

fn build() -> Result<Vec<(String, PathBuf)>> {
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let output = cargo(&["build", "--release", "--bins"])
        .args(packages)
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .doing(|| "starting cargo".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new("the release binaries do not build"));
    }
    // Cargo itself knows best where its target directory is; the messages of the artifacts name the files.
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let built = messages.filter_map(|message| {
        let executable = PathBuf::from(message["executable"].as_str()?);
        Some((message["target"]["name"].as_str()?.to_owned(), executable))
    });
    Ok(built.collect())
}
