//! Which file a route's `path` names.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use postrider_core::{ErrorKind, Failure, inert};

/// The file within the directory that a rendered path names. Only the text is looked at; [`prepare`] looks at the disk.
///
/// Events choose this path. It may name nothing outside of the directory, and nothing in it that is not a log: the
/// ending keeps an event from appending to a database or a key that lies beside the logs.
pub(crate) fn relative(path: &str) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| {
        let path = inert(path, 300);
        Err(Failure::new(
            // The text of a path does not change: tried again it would be refused again.
            ErrorKind::NotEncodable,
            format!("path \"{path}\": {why}; correct the route's template"),
        ))
    };
    if path.chars().any(char::is_control) {
        return refuse("it has a control character");
    }
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            // Such a name is refused by every file system; in an address it would be tried for ever.
            Component::Normal(name) if name.len() > 255 => {
                return refuse("a name in it is longer than 255 bytes");
            }
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return refuse("it must stay within the configured directory"),
        }
    }
    let is_log = clean
        .extension()
        .is_some_and(|end| end == "jsonl" || end == "ndjson");
    if !is_log || path.ends_with('/') {
        return refuse("it must end in .jsonl or .ndjson");
    }
    Ok(clean)
}

/// Creates the directories on the way to a file and makes sure that no symbolic link leads out.
pub(crate) fn prepare(directory: &Path, relative: &Path) -> io::Result<()> {
    let link = || io::Error::new(io::ErrorKind::InvalidInput, "the path leads over a symbolic link");
    let mut at = directory.to_path_buf();
    let parents = relative.parent().into_iter().flat_map(Path::components);
    for name in parents {
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_symlink() => return Err(link()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_directory(&at)?,
            Err(error) => return Err(error),
        }
    }
    match fs::symlink_metadata(directory.join(relative)) {
        Ok(found) if found.is_symlink() => Err(link()),
        _ => Ok(()),
    }
}

fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_parent(path),
    }
}

/// Makes a new name durable: the content of a file is of no use when its name is lost with the power.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_and_end_as_logs_do() {
        for (path, clean) in [
            ("a.jsonl", "a.jsonl"),
            ("./a//b.c/d.ndjson", "a/b.c/d.ndjson"),
            ("..a.jsonl", "..a.jsonl"),
        ] {
            assert_eq!(relative(path), Ok(PathBuf::from(clean)));
        }
        let long = "x".repeat(300) + ".jsonl";
        for path in [
            "",
            ".",
            "/",
            "a.jsonl/",
            "..",
            "../a.jsonl",
            "a/../../b.jsonl",
            "/etc/a.jsonl",
            "a\0.jsonl",
            "a\n.jsonl",
            "orders.db",
            ".jsonl",
            "a/.jsonl",
            &long,
        ] {
            assert_eq!(
                relative(path).map_err(|failure| failure.kind),
                Err(ErrorKind::NotEncodable),
                "{path:?}"
            );
        }
    }
}
