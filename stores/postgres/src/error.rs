//! What went wrong in PostgreSQL, in the words of the core.

use std::error::Error as _;

use postrider_core::{StoreError, StoreErrorKind, causes};
use tokio_postgres::error::SqlState;

/// What the modules of this crate work with; [`Error::while_doing`] makes it public at the boundary.
#[derive(Debug)]
pub(crate) enum Error {
    /// The driver's error, still without the name of the call.
    Postgres(tokio_postgres::Error),
    /// An error that says everything already.
    Store(StoreError),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Error::Postgres(error)
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
            Error::Postgres(error) => store_error(error, doing),
        }
    }

    /// An error of a kind, with a sentence of its own.
    pub(crate) fn new(kind: StoreErrorKind, text: impl Into<Box<str>>) -> Self {
        Error::Store(StoreError::new(kind, text))
    }

    /// What kind of trouble it is.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Postgres(error) => kind(error),
        }
    }

    /// Whether the server said exactly this.
    pub(crate) fn is(&self, state: &SqlState) -> bool {
        matches!(self, Error::Postgres(error) if error.code() == Some(state))
    }
}

/// The public error for an error of the driver.
pub(crate) fn store_error(error: tokio_postgres::Error, doing: &str) -> StoreError {
    let kind = kind(&error);
    let text = match kind {
        StoreErrorKind::Schema => format!("{doing}: the outbox tables are missing or of another version"),
        _ => format!("{doing} failed"),
    };
    let advice = advice(&error);
    let error = StoreError::new(kind, text).with_source(error);
    match advice {
        Some(advice) => error.with_advice(advice),
        None => error,
    }
}

/// What to do about an error where the advice of its kind would lead astray.
fn advice(error: &tokio_postgres::Error) -> Option<&'static str> {
    if error.code() == Some(&SqlState::UNDEFINED_DATABASE) {
        return Some("create the database, or correct its name in the url");
    }
    match causes(error) {
        text if text.contains("does not support TLS") => Some(
            "the server offers no TLS: switch it on there (`ssl = on`), or add `sslmode=disable` to the url if nobody \
             can listen on the way",
        ),
        text if text.contains("certificate") => Some(
            "the server's certificate is not trusted: give the file of its authority as `ca_file`, and use the name in \
             the url that the certificate is for",
        ),
        _ => None,
    }
}

/// What kind of trouble an error of the driver is: for services whose own statements fail on the same database.
pub fn kind(error: &tokio_postgres::Error) -> StoreErrorKind {
    match error.code() {
        Some(state) => kind_of_state(state.code()),
        None if error.is_closed() => StoreErrorKind::Unreachable,
        // Anything below the protocol: refused, reset, timed out, no such host, TLS.
        None if error.source().is_some_and(|source| source.is::<std::io::Error>()) => {
            StoreErrorKind::Unreachable
        }
        None => match error.to_string() {
            text if text.starts_with("error connecting") || text.starts_with("timeout") => {
                StoreErrorKind::Unreachable
            }
            text if text.contains("password") || text.contains("authentication") => StoreErrorKind::Denied,
            text if text.contains("TLS") => StoreErrorKind::Unreachable,
            _ => StoreErrorKind::Other,
        },
    }
}

/// What kind of trouble a SQLSTATE is.
pub(crate) fn kind_of_state(state: &str) -> StoreErrorKind {
    match state {
        // Missing or changed: schema, table, column, function, type; a plan of tables that were made anew.
        "3F000" | "42P01" | "42703" | "42883" | "42704" | "26000" => StoreErrorKind::Schema,
        "0A000" => StoreErrorKind::Schema,
        "25006" => StoreErrorKind::ReadOnly,
        "53100" | "53200" => StoreErrorKind::Full,
        "42501" | "28000" | "28P01" | "3D000" => StoreErrorKind::Denied,
        "XX001" | "XX002" => StoreErrorKind::Corrupt,
        // Serialisation failure, deadlock, lock not to be had, cancelled by a time-out.
        "40001" | "40P01" | "55P03" | "57014" => StoreErrorKind::Busy,
        // Starting up, shutting down, too many connections, crashed, and everything about connections.
        "53300" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => StoreErrorKind::Unreachable,
        other if other.starts_with("08") => StoreErrorKind::Unreachable,
        other if other.starts_with("40") => StoreErrorKind::Busy,
        other if other.starts_with("53") => StoreErrorKind::Full,
        other if other.starts_with("28") => StoreErrorKind::Denied,
        _ => StoreErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_kinds() {
        for (state, kind) in [
            ("42P01", StoreErrorKind::Schema),
            ("40001", StoreErrorKind::Busy),
            ("55P03", StoreErrorKind::Busy),
            ("53100", StoreErrorKind::Full),
            ("25006", StoreErrorKind::ReadOnly),
            ("28P01", StoreErrorKind::Denied),
            ("42501", StoreErrorKind::Denied),
            ("57P03", StoreErrorKind::Unreachable),
            ("08006", StoreErrorKind::Unreachable),
            ("XX001", StoreErrorKind::Corrupt),
            ("22012", StoreErrorKind::Other),
        ] {
            assert_eq!(kind_of_state(state), kind, "{state}");
        }
    }
}
