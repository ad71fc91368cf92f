//! Who asks, and whether he means it.

use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// Who asks, for the audit.
pub fn actor() -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty());
    format!("cli:{}", named.or_else(uid).as_deref().unwrap_or("unknown"))
}

/// The number of the user, for containers and services that have no name for him.
#[cfg(target_os = "linux")]
fn uid() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").ok()?;
    Some(format!("uid {}", own.uid()))
}

#[cfg(not(target_os = "linux"))]
fn uid() -> Option<String> {
    None
}

/// Asks on a terminal; where nobody can be asked, `--yes` must have been given.
pub fn confirm(question: &str, otherwise: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::input(format!(
            "nothing was changed: nobody can be asked here {question:?}"
        ))
        .advice(otherwise.to_owned()));
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::found("nothing was changed")),
    }
}
