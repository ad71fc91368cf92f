//! `postrider init`: a commented configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde_json::json;

use crate::failure::{Done, Failure};
use crate::output::Output;

/// What is written: the embedded default, with comments.
const TEMPLATE: &str = include_str!("init.toml");

pub fn init(out: Output, path: &Path) -> Result<Done, Failure> {
    let shown = path.display().to_string();
    // `create_new` refuses in the same step as it creates, so nothing can slip in between.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::input(format!("{shown} exists already; it was left as it is"))
                    .advice("give another --path, or remove the file first")
            }
            _ => Failure::backend(format!("cannot write {shown}")).because(&error),
        })?;
    file.write_all(TEMPLATE.as_bytes())?;
    let next = "next: postrider config check, postrider migrate up, postrider run";
    out.either(&json!({ "written": shown }), format!("wrote {shown}\n{next}"))?;
    Ok(Done::Fine)
}
