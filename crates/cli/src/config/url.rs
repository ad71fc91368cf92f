//! The parts of an address: what kind of thing it is, and the path of things that are files.

use std::path::PathBuf;

use super::error::Problem;

/// The scheme of a url, if it has one.
pub fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(letters)).then_some(scheme)
}

/// The path of a `scheme:relative` or `scheme:///absolute` url, given what stands behind the first colon.
pub fn file_path(scheme: &str, rest: &str) -> Result<PathBuf, Problem> {
    let refuse = |text: &str| {
        let forms = format!("write {scheme}:relative/path or {scheme}:///absolute/path");
        Err(Problem::new(text).help(forms))
    };
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return refuse("the url of a file has no host"),
        None => rest,
    };
    match path {
        "" => refuse("the url has no path"),
        ":memory:" => refuse("a database in memory cannot be shared by a service and its relay"),
        path if path.contains('?') => refuse("the url of a file takes no parameters"),
        path => Ok(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_hosts() {
        let path = |rest: &str| file_path("sqlite", rest);
        assert_eq!(path("a.db").unwrap(), PathBuf::from("a.db"));
        assert_eq!(path("///var/a.db").unwrap(), PathBuf::from("/var/a.db"));
        assert_eq!(path("/var/a.db").unwrap(), PathBuf::from("/var/a.db"));
        for bad in ["", "//host/a.db", ":memory:", "a.db?mode=rwc"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_scheme_is_what_stands_before_the_colon() {
        assert_eq!(scheme("mongodb+srv://h"), Some("mongodb+srv"));
        assert_eq!(scheme("events.jsonl"), None);
        assert_eq!(scheme("1a:b"), None);
    }
}
