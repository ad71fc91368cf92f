//! Secrets given in place or by the name of a file that holds them (`password_file`, `url_file`).

use std::path::{Path, PathBuf};

use postrider_core::Secret;
use toml::Spanned;

use super::error::Problem;
use super::scalar::{Hidden, clean};

/// The secret of a key, from the key itself or from the file named by `KEY_file`; both at once is a contradiction.
pub fn secret(
    key: &str,
    given: Option<Spanned<Hidden>>,
    file: Option<Spanned<PathBuf>>,
) -> Result<Option<Spanned<Secret>>, Problem> {
    match (given, file) {
        (Some(_), Some(file)) => {
            Err(Problem::new(format!("`{key}` and `{key}_file` are both given")).at(file.span()))
        }
        (Some(given), None) => Ok(Some(Spanned::new(given.span(), given.into_inner().0))),
        (None, Some(file)) => read(&file).map(Some),
        (None, None) => Ok(None),
    }
}

/// The name of a file without its place.
pub fn path(file: Option<&Spanned<PathBuf>>) -> Option<PathBuf> {
    file.map(|file| file.get_ref().clone())
}

/// Reads a secret file.
fn read(file: &Spanned<PathBuf>) -> Result<Spanned<Secret>, Problem> {
    let refuse = |text: String| Problem::new(text).at(file.span());
    let path = file.get_ref();
    let bytes =
        std::fs::read(path).map_err(|error| refuse(format!("cannot read {}: {error}", path.display())))?;
    let text =
        String::from_utf8(bytes).map_err(|_| refuse(format!("{} is not valid UTF-8", path.display())))?;
    let secret = Secret::of_file(&text);
    if secret.expose().is_empty() {
        return Err(refuse(format!("{} is empty", path.display())));
    }
    clean(secret.expose()).map_err(|error| refuse(format!("{} {error}", path.display())))?;
    Ok(Spanned::new(file.span(), secret))
}

/// Whether other users of the machine may read a file.
#[cfg(unix)]
pub fn open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
pub fn open_to_others(_path: &Path) -> bool {
    false
}
