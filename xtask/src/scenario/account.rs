//! The account: what the business tables hold against what arrived.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::failure::{Doing, Result};

/// An order of the business tables: what must arrive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Committed {
    pub(super) id: String,
    pub(super) key: String,
    /// Its place within the key.
    pub(super) n: u32,
}

/// A message as a consumer saw it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Arrived {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) destination: String,
}

/// How the two compare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Orders in the business tables.
    pub(super) committed: u64,
    /// Messages that arrived, repeated ones included.
    pub(super) arrived: u64,
    /// Committed, and never arrived.
    pub(super) lost: u64,
    /// Arrived, and never committed.
    pub(super) phantom: u64,
    /// Arrived for the first time after a later one of the same key, at the same destination.
    pub(super) reordered: u64,
    /// Effects beyond the first of an event.
    pub(super) duplicate_effects: u64,
}

impl Account {
    /// Compares two lists; `arrived` is in the order of arrival.
    pub(super) fn compare(committed: &[Committed], arrived: impl IntoIterator<Item = Arrived>) -> Account {
        let places: HashMap<&str, (&str, u32)> = committed
            .iter()
            .map(|one| (one.id.as_str(), (one.key.as_str(), one.n)))
            .collect();
        let mut account = Account {
            committed: committed.len() as u64,
            ..Account::default()
        };
        let mut seen: HashMap<String, HashSet<&str>> = HashMap::new();
        let mut last: HashMap<(String, &str), u32> = HashMap::new();
        for one in arrived {
            account.arrived += 1;
            let Some((id, (key, n))) = places.get_key_value(one.id.as_str()) else {
                account.phantom += 1;
                continue;
            };
            // A repeat says nothing about order: publishing is at least once.
            if seen.entry(one.destination.clone()).or_default().insert(id) {
                let last = last.entry((one.destination, key)).or_default();
                account.reordered += u64::from(*n < *last);
                *last = (*last).max(*n);
            }
        }
        let everywhere = |id: &str| !seen.is_empty() && seen.values().all(|ids| ids.contains(id));
        account.lost = places.keys().filter(|id| !everywhere(id)).count() as u64;
        account
    }

    /// Compares the files of a directory, in which the scenarios leave them.
    pub(super) fn of(directory: &Path) -> Result<Account> {
        let committed = read_lines(&directory.join("committed.jsonl"))?;
        let arrived: Vec<Arrived> = read_lines(&directory.join("arrived.jsonl"))?;
        Ok(Account::compare(&committed, arrived))
    }

    /// What is not as it should be.
    pub(super) fn problems(&self) -> Vec<String> {
        let counts = [
            ("lost", self.lost),
            ("phantom", self.phantom),
            ("reordered", self.reordered),
            ("duplicate effects", self.duplicate_effects),
        ];
        let wrong = counts.into_iter().filter(|(_, count)| *count > 0);
        wrong.map(|(what, count)| format!("{count} {what}")).collect()
    }
}

/// Writes what the business tables hold as committed.jsonl; the query gives id, key and place.
pub(super) fn write_committed(connection: &Connection, query: &str, directory: &Path) -> Result<()> {
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| {
        Ok(Committed {
            id: row.get(0)?,
            key: row.get(1)?,
            n: row.get(2)?,
        })
    })?;
    write_lines(&directory.join("committed.jsonl"), rows)
}

/// Writes what a consumer kept in its tables as arrived.jsonl; the query gives id, key and destination.
pub(super) fn write_arrived(connection: &Connection, query: &str, directory: &Path) -> Result<()> {
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| {
        Ok(Arrived {
            id: row.get(0)?,
            key: row.get(1)?,
            destination: row.get(2)?,
        })
    })?;
    write_lines(&directory.join("arrived.jsonl"), rows)
}

fn write_lines<T: Serialize>(path: &Path, rows: impl Iterator<Item = rusqlite::Result<T>>) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for row in rows {
        serde_json::to_writer(&mut out, &row?)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn read_lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path).doing(|| format!("opening {}", path.display()))?;
    let mut lines = Vec::new();
    for line in BufReader::new(file).lines() {
        lines.push(serde_json::from_str(&line?).doing(|| format!("a line of {}", path.display()))?);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(list: &[(&str, &str, u32)]) -> Vec<Committed> {
        let one = |(id, key, n): &(&str, &str, u32)| Committed {
            id: (*id).to_owned(),
            key: (*key).to_owned(),
            n: *n,
        };
        list.iter().map(one).collect()
    }

    fn compare(arrived: &[&str]) -> Account {
        let committed = committed(&[("a1", "a", 1), ("a2", "a", 2), ("a3", "a", 3), ("b1", "b", 1)]);
        let one = |id: &&str| Arrived {
            id: (*id).to_owned(),
            key: id[..1].to_owned(),
            destination: "lines".to_owned(),
        };
        Account::compare(&committed, arrived.iter().map(one))
    }

    #[test]
    fn what_is_right_has_no_problems() {
        let account = compare(&["a1", "a2", "b1", "a1", "a2", "a3", "a3"]);
        assert_eq!((account.committed, account.arrived), (4, 7));
        assert!(account.problems().is_empty(), "{account:?}");
    }

    #[test]
    fn every_wrong_is_counted() {
        let account = compare(&["a2", "a1", "x9", "b1"]);
        assert_eq!((account.lost, account.phantom, account.reordered), (1, 1, 1));
        assert_eq!(compare(&[]).lost, 4);
    }
}
