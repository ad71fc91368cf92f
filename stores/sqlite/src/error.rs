//! What went wrong in SQLite, in the words of the core.

use postrider_core::{StoreError, StoreErrorKind};
use rusqlite::{ErrorCode, ffi};

/// What the modules of this crate work with; [`Error::while_doing`] makes it public at the boundary.
#[derive(Debug)]
pub(crate) enum Error {
    /// The driver's error, still without the name of the call.
    Sqlite(rusqlite::Error),
    /// An error that says everything already.
    Store(StoreError),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Error::Sqlite(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Error::Store(error)
    }
}

impl Error {
    /// The public error, with the name of what was being done.
    pub(crate) fn while_doing(self, doing: &str) -> StoreError {
        match self {
            Error::Store(error) => error,
            Error::Sqlite(error) => store_error(error, doing),
        }
    }

    /// An error of a kind, with a sentence of its own.
    pub(crate) fn new(kind: StoreErrorKind, text: impl Into<Box<str>>) -> Self {
        Error::Store(StoreError::new(kind, text))
    }
}

/// The public error for an error of the driver.
pub(crate) fn store_error(error: rusqlite::Error, doing: &str) -> StoreError {
    let kind = kind(&error);
    let text = match kind {
        StoreErrorKind::Schema => format!("{doing}: the outbox tables are missing or of another version"),
        _ => format!("{doing} failed"),
    };
    let is_strange = error.sqlite_error_code() == Some(ErrorCode::NotADatabase);
    let told = StoreError::new(kind, text).with_source(error);
    match is_strange {
        true => told.with_advice(
            "check the url: the file is no database of SQLite; if it was one, restore it from a backup",
        ),
        false => told,
    }
}

/// What kind of trouble an error of the driver is: for services whose own statements fail on the same database.
pub fn kind(error: &rusqlite::Error) -> StoreErrorKind {
    let rusqlite::Error::SqliteFailure(failure, message) = error else {
        return match error {
            rusqlite::Error::SqlInputError { msg, .. } if missing(msg) => StoreErrorKind::Schema,
            _ => StoreErrorKind::Other,
        };
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SchemaChanged => {
            StoreErrorKind::Busy
        }
        ErrorCode::DiskFull => StoreErrorKind::Full,
        ErrorCode::ReadOnly => StoreErrorKind::ReadOnly,
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => StoreErrorKind::Denied,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreErrorKind::Corrupt,
        ErrorCode::CannotOpen => StoreErrorKind::Unreachable,
        // The index of the write-ahead log is a file too, and growing it on a full disk is reported as an I/O error.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
            StoreErrorKind::Full
        }
        ErrorCode::SystemIoFailure => StoreErrorKind::Unreachable,
        _ if message.as_deref().is_some_and(missing) => StoreErrorKind::Schema,
        _ => StoreErrorKind::Other,
    }
}

pub(crate) fn missing(message: &str) -> bool {
    [
        "no such table",
        "no such column",
        "no such index",
        "has no column named",
    ]
    .iter()
    .any(|text| message.contains(text))
}

/// Whether waiting and trying again may help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    kind(error) == StoreErrorKind::Busy
}
