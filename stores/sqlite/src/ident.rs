//! The one place where identifiers are checked, quoted and put into SQL.

use std::fmt;

use crate::{clock, row};

/// Why a prefix cannot name tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentError {
    prefix: String,
    reason: &'static str,
}

impl fmt::Display for IdentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} cannot be the prefix of the outbox tables: {}; use letters, digits and underscores, \
             such as \"outbox\"",
            self.prefix, self.reason
        )
    }
}

impl std::error::Error for IdentError {}

/// How the keys of rows begin that neither wait for another nor make one wait. Indexes name it word for word, and a
/// statement that says the same in other words does not find them.
const ALONE: &str = "char(31) || 'alone' || char(31)";

/// The names of the tables of one outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    prefix: Box<str>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            prefix: "outbox".into(),
        }
    }
}

impl Tables {
    /// Accepts `^[A-Za-z_][A-Za-z0-9_]{0,39}$`, and nothing that SQLite keeps for itself.
    pub(crate) fn new(prefix: &str) -> Result<Self, IdentError> {
        match complaint(prefix) {
            None => Ok(Self {
                prefix: prefix.into(),
            }),
            Some(reason) => Err(IdentError {
                prefix: prefix.chars().take(60).collect(),
                reason,
            }),
        }
    }

    /// The one table of an inbox.
    pub(crate) fn inbox() -> Self {
        Self {
            prefix: "inbox".into(),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The statement that a template stands for.
    ///
    /// `{outbox}` becomes the quoted prefix, `{outbox_parked}` the quoted name behind it, `{now}` the database's clock
    /// in microseconds, `{iso x}` the column `x` of microseconds as text that people and SQLite's own date functions
    /// can read, `{created x}` the same for when the event in table `x` was made, `{alone}` and `{in_line}` whether a
    /// parked row stands outside every line or in one, and `{columns}`, `{sent_columns}` and `{carried}` the lists of
    /// columns of the module `row`. Anything else in braces stays.
    pub(crate) fn sql(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 64);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            match name.strip_prefix("outbox") {
                Some(suffix) => out.extend(["\"", &self.prefix, suffix, "\""]),
                None => self.expand(name, &mut out),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    fn expand(&self, name: &str, out: &mut String) {
        match name.split_once(' ') {
            Some(("iso", column)) => out.push_str(&clock::iso(column)),
            Some(("created", table)) => out.push_str(&clock::created(table)),
            None if name == "now" => out.push_str(clock::NOW),
            None if name == "alone" => out.extend(["substr(order_key, 1, 7) = ", ALONE]),
            None if name == "in_line" => out.extend(["substr(order_key, 1, 7) <> ", ALONE]),
            None if name == "columns" => out.push_str(row::COLUMNS),
            None if name == "sent_columns" => out.push_str(row::SENT_COLUMNS),
            None if name == "carried" => out.push_str(row::CARRIED),
            _ => out.extend(["{", name, "}"]),
        }
    }
}

fn complaint(prefix: &str) -> Option<&'static str> {
    let mut characters = prefix.chars();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match characters.next() {
        None => Some("it is empty"),
        Some(first) if !allowed(first) => Some("it contains a character other than A-Z, a-z, 0-9 and _"),
        Some(first) if first.is_ascii_digit() => Some("it begins with a digit"),
        Some(_) if !characters.all(allowed) => Some("it contains a character other than A-Z, a-z, 0-9 and _"),
        Some(_) if prefix.len() > 40 => Some("it is longer than 40 characters"),
        // SQLite refuses such tables, but only when they are made and with an error that does not say why.
        Some(_) if prefix.to_ascii_lowercase().starts_with("sqlite_") => {
            Some("SQLite keeps names that begin with sqlite_ for itself")
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault G15.
    #[test]
    fn a_prefix_is_a_plain_identifier() {
        let longest = "a".repeat(40);
        for good in ["outbox", "_x", "A1", "Orders_Outbox", &longest] {
            assert!(Tables::new(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(41);
        for bad in [
            "", "1a", "a-b", "a b", "out\"box", "a;drop", "é", "a.b", "sqlite_x", &too_long,
        ] {
            assert!(Tables::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_error_shows_the_prefix_and_the_reason() {
        let text = Tables::new("out\"box").unwrap_err().to_string();
        assert!(text.contains(r#""out\"box""#), "{text}");
        assert!(text.contains("character"), "{text}");
    }

    /// Fault G15.
    #[test]
    fn a_template_names_quoted_tables() {
        let tables = Tables::new("shop").unwrap();
        assert_eq!(
            tables.sql("SELECT '{}' FROM {outbox} JOIN {outbox_parked}"),
            r#"SELECT '{}' FROM "shop" JOIN "shop_parked""#
        );
        assert!(tables.sql("{now}").contains("julianday"));
        assert!(tables.sql("{iso p.updated_at}").starts_with("strftime("));
    }
}
