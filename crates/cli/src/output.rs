//! What commands print: aligned tables for people, JSON for scripts. Text from outside is made inert here.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use postrider_core::{EventId, JobId, Timestamp, inert, is_harmful};
use serde_json::Value;

use crate::failure::Failure;

/// The longest text in one cell of a table: an error text may have 2,000 characters, a screen has 100.
const MAX_CELL: usize = 120;

/// The widest column that others are aligned behind; an id of our own has 36 characters, and 43 as that of a copy.
const MAX_COLUMN: usize = 44;

/// What a line may take before it is broken.
const SCREEN: usize = 100;

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
        self.line(document(value))
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

/// A document that says the same to a script and does nothing to a terminal: JSON itself escapes only what is below a
/// space.
fn document(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(is_harmful) {
        return text;
    }
    let mut inert = String::with_capacity(text.len());
    for c in text.chars() {
        match is_harmful(c) {
            // All of them are below U+10000, where the number is the escape.
            true => inert.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => inert.push(c),
        }
    }
    inert
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

/// Columns of lines that come one by one: each is as wide as the widest so far, within reason.
#[derive(Debug, Default)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Makes room for a line before it is printed.
    pub fn fit(&mut self, cells: &[String]) {
        self.widths.resize(self.widths.len().max(cells.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count().min(MAX_COLUMN));
        }
    }

    /// The line, two spaces between columns.
    pub fn line(&mut self, cells: &[String]) -> String {
        self.fit(cells);
        let padded: Vec<String> = cells
            .iter()
            .zip(&self.widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    }
}

/// A text behind a label, broken at spaces so that it fits a screen; further lines stand below the first.
pub fn wrapped(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let (mut lines, mut column) = (label.to_owned(), indent);
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > SCREEN {
            lines.push_str(&format!("\n{}", " ".repeat(indent)));
            column = indent;
        } else if index > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
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
    let text = at.to_string();
    match text.rsplit_once('.') {
        Some((second, rest)) if !text.starts_with(['+', '-']) => format!("{second}.{}Z", &rest[..3]),
        _ => at.0.to_string(),
    }
}

/// A key as people write it: what separates its parts is a control character.
pub fn key(text: &str) -> String {
    cell(&text.replace('\u{1f}', "/"))
}

/// An event's id in a line; what a replay made of it says so, because it has the same id.
pub fn id(event: &EventId, replay: Option<&JobId>) -> String {
    let id = cell(event.as_str());
    match replay {
        Some(_) => format!("{id} (copy)"),
        None => id,
    }
}

/// `1 event`, `2 events`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What verbs count: an event that goes to two destinations is two of them, because each is acted on by itself.
pub fn deliveries(n: u64) -> String {
    match n {
        1 => "1 delivery".to_owned(),
        n => format!("{n} deliveries"),
    }
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
    fn a_document_does_nothing_to_a_terminal_and_says_the_same() {
        let value = serde_json::json!({ "key\u{7f}": "a\u{9b}31m\u{202e}é\n\u{1b}😀" });
        let text = document(&value);
        assert!(!text.contains(is_harmful) && text.contains("é"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }

    #[test]
    fn lines_that_come_one_by_one_are_aligned() {
        let cells = |texts: [&str; 2]| texts.map(str::to_owned);
        let mut columns = Columns::default();
        columns.fit(&cells(["abc", ""]));
        assert_eq!(columns.line(&cells(["a", "x"])), "a    x");
        assert_eq!(columns.line(&cells(["abcdé", "x"])), "abcdé  x");
        assert_eq!(columns.line(&cells(["a", ""])), "a");
    }

    #[test]
    fn long_texts_are_broken_at_spaces() {
        let text = wrapped("error  ", &"word ".repeat(30));
        assert!(
            text.lines().count() == 2 && text.lines().all(|line| line.len() <= 100),
            "{text}"
        );
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("       word"))
        );
        assert_eq!(
            wrapped("", &"x".repeat(200)),
            "x".repeat(200),
            "what has no spaces stays whole"
        );
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(Timestamp(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
    }
}
