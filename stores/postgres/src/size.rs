//! How large a row is, and what is brought of one that is too large to be an event: judged by the server, which knows
//! the length of a value without reading it. Moving a row of hundreds of megabytes would take longer than a read may.

use postrider_core::limits;

use crate::near::SHORT;
use crate::row;

/// Four bytes a character.
const NAME: usize = 4 * limits::KEY;

/// What may be long, and how many bytes of it an event may have.
const LONG: [(&str, usize); 10] = [
    ("payload", limits::PAYLOAD),
    ("payload_bytes", limits::PAYLOAD),
    ("headers", limits::HEADERS_TEXT),
    ("event_id", NAME),
    ("event_type", NAME),
    ("aggregate_type", NAME),
    ("aggregate_id", NAME),
    ("event_key", NAME),
    ("content_type", NAME),
    ("replay_id", NAME),
];

/// The bytes of all columns of a row together.
pub(crate) fn size(table: &str) -> String {
    let term = |(name, _): &(&str, usize)| match *name {
        // These are never null, and every function costs a read something.
        "event_type" | "aggregate_type" | "aggregate_id" => format!("octet_length({table}.{name})"),
        _ => format!("coalesce(octet_length({table}.{name}), 0)"),
    };
    let sum: Vec<String> = LONG.iter().map(term).collect();
    format!("(0::bigint + {})", sum.join(" + "))
}

/// The columns of the row `x` as a read brings them, where `y` has its size. Of one that is too large names are cut
/// behind the longest that is valid, so that the row keeps a key of its own, and the rest is left out. The id is
/// whole: the row is named by it, and its index bounds it.
pub(crate) fn cut(tables: &str) -> String {
    let (table, sized) = tables.split_once(' ').unwrap_or((tables, tables));
    let whole = format!("{sized}.size <= {}", limits::EVENT);
    let column = |name: &str| match LONG.iter().find(|(long, _)| *long == name) {
        Some((_, NAME)) if name != "event_id" => {
            format!(
                "CASE WHEN {whole} THEN {table}.{name} ELSE left({table}.{name}, {}) END AS {name}",
                limits::KEY + 1
            )
        }
        Some((_, most)) if *most != NAME => format!("CASE WHEN {whole} THEN {table}.{name} END AS {name}"),
        _ => format!("{table}.{name}"),
    };
    let columns: Vec<String> = row::COLUMNS.split(',').map(|name| column(name.trim())).collect();
    columns.join(", ")
}

/// The columns of the row `x`, which has its size, as far as they are worth bringing on the short way of a read.
pub(crate) fn short(table: &str) -> String {
    let column = |name: &str| match LONG.iter().any(|(long, _)| *long == name) {
        true => format!("CASE WHEN {table}.size <= {SHORT} THEN {table}.{name} END AS {name}"),
        false => format!("{table}.{name}"),
    };
    let columns: Vec<String> = row::COLUMNS.split(',').map(|name| column(name.trim())).collect();
    columns.join(", ")
}

/// Why a row is too large to be an event, or null.
pub(crate) fn too_large(tables: &str) -> String {
    let (table, sized) = tables.split_once(' ').unwrap_or((tables, tables));
    let reasons: Vec<String> = LONG
        .iter()
        .map(|(name, most)| {
            format!(
                "CASE WHEN octet_length({table}.{name}) > {most} THEN '{name}: has ' || octet_length({table}.{name})
                     || ' bytes; at most {most} are allowed' END"
            )
        })
        .collect();
    format!(
        "CASE WHEN {sized}.size > {} THEN concat_ws('; ', {}) END",
        limits::EVENT,
        reasons.join(", ")
    )
}
