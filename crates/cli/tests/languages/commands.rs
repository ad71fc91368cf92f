//! The cases as commands of the programs; `testkit/languages/README.md` has the form.

use std::fmt::Write;

use postrider_core::json;

use crate::cases::{AGGREGATE_TYPE, Case, Fate};

/// Each order that `place_order` of a program makes.
pub(crate) const TOTAL: u32 = 1250;

/// Two events a transaction where neighbours have the same fate, and one order through the snippet itself at the end.
pub(crate) fn of(cases: &[Case], order: &str) -> String {
    let mut lines = String::new();
    for transaction in transactions(cases) {
        for case in transaction {
            let command = if case.called { "call" } else { "insert" };
            let values = values(case).join(" ");
            writeln!(lines, "{command} {} {values}", business_id(case)).expect("a string takes it");
        }
        let rolled_back = transaction[0].fate == Fate::RolledBack;
        lines.push_str(if rolled_back { "rollback\n" } else { "commit\n" });
    }
    writeln!(lines, "order {order} {TOTAL}").expect("a string takes it");
    lines
}

/// Neighbours of the same fate, by two.
pub(crate) fn transactions(cases: &[Case]) -> impl Iterator<Item = &[Case]> {
    cases
        .chunk_by(|one, next| one.fate == next.fate)
        .flat_map(|run| run.chunks(2))
}

/// The id of the business row that goes with an event: one plain word.
pub(crate) fn business_id(case: &Case) -> String {
    case.name
        .replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// In the order of the columns.
fn values(case: &Case) -> [String; 12] {
    let text = |value: Option<&str>| word(value.map(str::as_bytes));
    [
        text(case.id.as_deref()),
        text(Some(case.event_type)),
        text(Some(AGGREGATE_TYPE)),
        text(Some(&case.name)),
        text(case.key),
        text(case.payload.as_deref()),
        word(case.bytes.as_deref()),
        text(case.content_type),
        text(case.headers),
        text(case.priority.map(|number| number.to_string()).as_deref()),
        text(case.available_at),
        text(case.created_at),
    ]
}

fn word(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!(":{}", base64(value)))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    json::push_base64(&mut text, bytes);
    // It writes a JSON string.
    String::from_utf8_lossy(&text).replace('"', "")
}
