//! `cargo xtask tidy`: what a reader stumbles over, found by a machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::workspace;
use crate::failure::Result;

/// A file longer than this holds more than one idea.
const MAX_LINES: usize = 400;
/// A line wider than this does not fit beside a diff.
pub(crate) const MAX_COLUMNS: usize = 120;

/// Files that may be longer, with the reason.
const LONG: &[(&str, &str)] = &[
    (
        "crates/relay/src/engine/arrive.rs",
        "what a row may be when it arrives is one list of cases",
    ),
    (
        "crates/relay/src/engine/lease.rs",
        "claiming, renewing and losing a shard change the same few fields",
    ),
];

/// Looks at every Rust file; false if there is anything to say.
pub(crate) fn run() -> Result<bool> {
    let root = workspace();
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut complaints = Vec::new();
    for file in &files {
        let name = file
            .strip_prefix(&root)
            .unwrap_or(file)
            .to_string_lossy()
            .into_owned();
        look(&name, &fs::read_to_string(file)?, &mut complaints);
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("tidy: {} files, {} complaints", files.len(), complaints.len());
    Ok(complaints.is_empty())
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn look(name: &str, text: &str, complaints: &mut Vec<String>) {
    let lines = text.lines().count();
    let excused = LONG.iter().any(|(long, _)| *long == name);
    if lines > MAX_LINES && !excused {
        complaints.push(format!("{name}: {lines} lines; at most {MAX_LINES}"));
    }
    // Files that must not compile are examples for a reader of an error, not modules.
    let is_module = !name.contains("/tests/") || !name.contains("_fail");
    if is_module && !text.trim_start().starts_with("//!") {
        complaints.push(format!("{name}: does not begin with what it is for (//! …)"));
    }
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{name}:{}", number + 1);
        if line.chars().count() > MAX_COLUMNS {
            complaints.push(format!("{}: wider than {MAX_COLUMNS} columns", place()));
        }
        // Written in two parts, so that this file does not complain of itself.
        let unfinished = [concat!("todo", "!("), concat!("unimplemented", "!(")];
        if unfinished.iter().any(|word| line.contains(word)) {
            complaints.push(format!("{}: unfinished", place()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        look(name, text, &mut complaints);
        complaints
    }

    #[test]
    fn everything_is_complained_of() {
        let wide = format!("//! Ok.\n// {}\n", "x".repeat(MAX_COLUMNS));
        assert_eq!(complaints("a.rs", &wide), ["a.rs:2: wider than 120 columns"]);
        let long = format!("//! Ok.\n{}", "\n".repeat(MAX_LINES));
        assert_eq!(complaints("a.rs", &long), ["a.rs: 401 lines; at most 400"]);
        assert_eq!(complaints("a.rs", "fn main() {}").len(), 1);
        let unfinished = format!("//! Ok.\nfn f() {{ {}() }}", concat!("todo", "!"));
        assert_eq!(complaints("a.rs", &unfinished), ["a.rs:2: unfinished"]);
        assert!(complaints("a.rs", "//! Ok.\n").is_empty());
    }
}
