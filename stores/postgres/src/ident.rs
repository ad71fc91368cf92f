//! The one place where identifiers are checked, quoted and put into SQL.

use std::fmt;

use postrider_core::limits;

use crate::{row, size};

/// Why a name cannot name tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentError {
    name: String,
    reason: &'static str,
}

impl fmt::Display for IdentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} cannot name the outbox tables or their schema: {}; use letters, digits and underscores, \
             such as \"outbox\"",
            self.name, self.reason
        )
    }
}

impl std::error::Error for IdentError {}

/// The names of the tables of one outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    schema: Box<str>,
    prefix: Box<str>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            schema: "public".into(),
            prefix: "outbox".into(),
        }
    }
}

impl Tables {
    /// Accepts `^[A-Za-z_][A-Za-z0-9_]{0,39}$` for both; PostgreSQL cuts names silently at 63 bytes, and the longest of
    /// ours adds 20.
    pub(crate) fn new(schema: &str, prefix: &str) -> Result<Self, IdentError> {
        for name in [schema, prefix] {
            if let Some(reason) = complaint(name) {
                let name = name.chars().take(60).collect();
                return Err(IdentError { name, reason });
            }
        }
        Ok(Self {
            schema: schema.into(),
            prefix: prefix.into(),
        })
    }

    /// The one table of an inbox.
    pub(crate) fn inbox() -> Self {
        Self {
            schema: "public".into(),
            prefix: "inbox".into(),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The statement that a template stands for.
    ///
    /// `{outbox}` becomes the quoted and qualified name of the outbox, `{outbox_parked}` that of the name behind it,
    /// `{name outbox_x}` the same without its schema, `{literal outbox_x}` and `{literal schema}` the bare names as
    /// text, `{namespace}` the number that the advisory locks of this outbox have in front, `{line x}` the hash of
    /// the key and `{id x}` the id of the queued row `x`, `{alone x}` and `{in_line x}` whether the parked row `x`
    /// stands alone, `{size x}`, `{cut x y}`, `{short x}` and `{too_large x y}` what the module `size` says of rows
    /// of `x`, and
    /// `{columns}`, `{no_columns}`, `{sent_columns}` and `{carried}` the lists of columns of the module `row`, with
    /// ` x` behind the name those of the table `x`. Anything else in braces stays.
    pub(crate) fn sql(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() + 256);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push('{');
                rest = after;
                continue;
            };
            match name.strip_prefix("outbox") {
                Some(suffix) => out.push_str(&self.qualified(suffix)),
                None => self.expand(name, &mut out),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// The quoted and qualified name of what has this suffix, which may be anything.
    pub(crate) fn relation(&self, suffix: &str) -> String {
        self.qualified(&suffix.replace('"', "\"\""))
    }

    fn qualified(&self, suffix: &str) -> String {
        format!("\"{}\".\"{}{suffix}\"", self.schema, self.prefix)
    }

    fn expand(&self, name: &str, out: &mut String) {
        match name.split_once(' ') {
            Some(("name", name)) => out.extend(["\"", &self.prefix, suffix(name), "\""]),
            Some(("literal", "schema")) => out.extend(["'\"", &self.schema, "\"'"]),
            Some(("literal", name)) => out.extend(["'", &self.prefix, suffix(name), "'"]),
            Some(("size", table)) => out.push_str(&size::size(table)),
            Some(("cut", tables)) => out.push_str(&size::cut(tables)),
            Some(("short", table)) => out.push_str(&size::short(table)),
            Some(("too_large", tables)) => out.push_str(&size::too_large(tables)),
            Some(("id", table)) => out.push_str(&row::id(table)),
            Some(("line", table)) => out.push_str(&row::line(table)),
            Some(("alone", table)) => out.push_str(&row::alone(table, true)),
            Some(("in_line", table)) => out.push_str(&row::alone(table, false)),
            None if name == "alone" => out.push_str(&row::alone("", true)),
            None if name == "in_line" => out.push_str(&row::alone("", false)),
            Some(("carried", table)) => out.push_str(&row::of(table, row::CARRIED)),
            Some(("columns", table)) => out.push_str(&row::of(table, row::COLUMNS)),
            None if name == "most" => out.push_str(&limits::EVENT.to_string()),
            None if name == "columns" => out.push_str(row::COLUMNS),
            None if name == "no_columns" => out.push_str(row::NO_COLUMNS),
            None if name == "sent_columns" => out.push_str(row::SENT_COLUMNS),
            None if name == "carried" => out.push_str(row::CARRIED),
            None if name == "namespace" => {
                let outbox = self.qualified("");
                out.push_str(&format!(
                    "('{outbox}'::regclass::oid::bigint - 2147483648)::integer"
                ));
            }
            _ => out.extend(["{", name, "}"]),
        }
    }
}

/// A role, quoted. Roles may have any name, so quotes in it are doubled.
pub(crate) fn role(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn suffix(name: &str) -> &str {
    name.strip_prefix("outbox").unwrap_or(name)
}

fn complaint(name: &str) -> Option<&'static str> {
    let mut characters = name.chars();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match characters.next() {
        None => Some("it is empty"),
        Some(first) if !allowed(first) => Some("it contains a character other than A-Z, a-z, 0-9 and _"),
        Some(first) if first.is_ascii_digit() => Some("it begins with a digit"),
        Some(_) if !characters.all(allowed) => Some("it contains a character other than A-Z, a-z, 0-9 and _"),
        Some(_) if name.len() > 40 => Some("it is longer than 40 characters"),
        Some(_) if name.to_ascii_lowercase().starts_with("pg_") => {
            Some("PostgreSQL keeps names that begin with pg_ for itself")
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_identifier() {
        let longest = "a".repeat(40);
        for good in ["outbox", "_x", "A1", "Orders_Outbox", "select", &longest] {
            assert!(Tables::new("public", good).is_ok(), "{good}");
            assert!(Tables::new(good, "outbox").is_ok(), "{good}");
        }
        let too_long = "a".repeat(41);
        for bad in [
            "", "1a", "a-b", "a b", "out\"box", "a;drop", "é", "a.b", "pg_x", &too_long,
        ] {
            assert!(Tables::new("public", bad).is_err(), "{bad}");
            assert!(Tables::new(bad, "outbox").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_template_names_quoted_tables() {
        let tables = Tables::new("shop", "Box").unwrap();
        assert_eq!(
            tables.sql(
                "SELECT '{}' FROM {outbox} JOIN {outbox_parked} {name outbox_x} {literal outbox_y_} \
                 {literal schema}"
            ),
            r#"SELECT '{}' FROM "shop"."Box" JOIN "shop"."Box_parked" "Box_x" 'Box_y_' '"shop"'"#
        );
        assert_eq!(role("a\"b"), "\"a\"\"b\"");
    }
}
