//! What commands print: aligned tables for people, JSON for scripts. Text from outside is made inert here.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use postrider_core::{Timestamp, inert};
use serde_json::Value;

use crate::failure::Failure;

/// The longest text in one cell of a table: an error text may have 2,000 characters, a screen has 100.
const MAX_CELL: usize = 120;

/// Where a command's result goes.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a script reads along.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person looks at it.
    pub fn is_terminal(self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// One line. A closed pipe ends the command quietly.
    pub fn line(self, text: impl AsRef<str>) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.as_ref())?;
        Ok(out.flush()?)
    }

    /// One JSON document on one line.
    pub fn value(self, value: &Value) -> Result<(), Failure> {
        self.line(value.to_string())
    }

    /// The JSON document for scripts, the text for people.
    pub fn either(self, value: &Value, text: impl AsRef<str>) -> Result<(), Failure> {
        match self.json {
            true => self.value(value),
            false => self.line(text),
        }
    }

    /// An aligned table.
    pub fn table(self, headers: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        self.line(table(headers, rows, self.is_terminal()))
    }
}

/// Columns two spaces apart, no lines: what a person can read and `awk` can cut.
fn table(headers: &[&str], rows: Vec<Vec<String>>, terminal: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers.to_vec());
    // Wrapping a long cell helps a person and breaks a script.
    table.set_content_arrangement(match terminal {
        true => ContentArrangement::Dynamic,
        false => ContentArrangement::Disabled,
    });
    for row in rows {
        table.add_row(row);
    }
    // The first column names something; a name in two pieces cannot be copied.
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    let text = table.trim_fmt();
    text.lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Text from outside, for a cell.
pub fn cell(text: &str) -> String {
    let shown = inert(text, MAX_CELL);
    match shown.len() < text.len() && shown.len() + 4 > MAX_CELL {
        true => format!("{shown}…"),
        false => shown.into(),
    }
}

/// Text from outside, whole.
pub fn whole(text: &str) -> String {
    inert(text, usize::MAX).into()
}

/// A moment for people and scripts alike: UTC, to the millisecond.
pub fn time(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => at.0.to_string(),
    }
}

/// A key as people write it: what separates its parts is a control character.
pub fn key(text: &str) -> String {
    cell(&text.replace('\u{1f}', "/"))
}

/// `1 event`, `2 events`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_cells_are_inert() {
        let rows = vec![
            vec!["a".to_owned(), cell("x\u{1b}[31m")],
            vec!["bcd".to_owned(), "y".to_owned()],
        ];
        let text = table(&["ID", "TEXT"], rows, false);
        assert_eq!(text, "ID   TEXT\na    x\\u{1b}[31m\nbcd  y");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(Timestamp(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
    }
}
