//! Calling cargo: always the one that called us, always in the workspace, so that everything shares one target
//! directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Builds a binary in release mode and says where it is. What cargo says goes to standard error as it comes.
pub(crate) fn release_binary(package: &str, binary: &str) -> Result<PathBuf> {
    release(package, "--bin", binary)
}

/// The same for an example.
pub(crate) fn release_example(package: &str, example: &str) -> Result<PathBuf> {
    release(package, "--example", example)
}

fn release(package: &str, kind: &str, binary: &str) -> Result<PathBuf> {
    let output = cargo(&["build", "--release", "--package", package, kind, binary])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .doing(|| "starting cargo".to_owned())?;
    if !output.status.success() {
        return Err(Failure::new(format!("{package} does not build")));
    }
    // Cargo itself knows best where its target directory is; the message of the last artifact names the file.
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == binary)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
        .ok_or_else(|| Failure::new(format!("cargo did not say where it put {binary}")))
}
