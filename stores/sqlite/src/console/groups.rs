//! Failures that look alike.

use postrider_core::{DestinationName, Group, Timestamp};

use super::{View, count};
use crate::error::Result;

/// From the index of failures alone; the text is that of the first of each group.
pub(crate) const GROUPS: &str =
    "SELECT destination, error_kind, coalesce(error_group, ''), count(*), sum(dead),
            min(coalesce(first_failed_at, updated_at)), max(coalesce(last_failed_at, updated_at)), min(seq)
     FROM {outbox_parked} INDEXED BY {outbox_parked_error} WHERE error_kind IS NOT NULL AND seq > 0
     GROUP BY error_kind, destination, error_group";

/// Failures by destination, kind and fingerprint, the most frequent first.
pub(super) fn groups(view: &View<'_>) -> Result<Vec<Group>> {
    let example = view.sql("SELECT error_text FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2");
    let mut example = view.tx.prepare_cached(&example)?;
    let mut statement = view.tx.prepare_cached(&view.sql(GROUPS))?;
    let mut rows = statement.query([])?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        let destination: String = row.get(0)?;
        let first: i64 = row.get(7)?;
        let text: Option<String> =
            example.query_row(rusqlite::params![first, destination], |row| row.get(0))?;
        groups.push(Group {
            destination: (!destination.is_empty()).then(|| DestinationName::from(destination)),
            error_kind: row.get(1)?,
            name: row.get(2)?,
            example: text.unwrap_or_default(),
            count: count(row.get(3)?),
            dead: count(row.get(4)?),
            seen: (Timestamp(row.get(5)?), Timestamp(row.get(6)?)),
        });
    }
    groups.sort_by(|a, b| {
        let order = |group: &Group| (group.destination.clone(), group.error_kind.clone());
        b.count.cmp(&a.count).then_with(|| order(a).cmp(&order(b)))
    });
    Ok(groups)
}
