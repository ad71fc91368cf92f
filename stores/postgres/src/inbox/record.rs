//! The statements that record events.

use std::collections::{HashMap, HashSet};

use postrider_core::Recorded;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, GenericClient, Row, Statement};

use crate::ident::Tables;

/// One statement for one event or for a thousand. Where another transaction has inserted the same id and is not over,
/// it waits for that, and then inserts or passes over the row as that one ended.
pub(super) const INSERT: &str = "INSERT INTO {outbox} (consumer, event_id, payload_hash)
    SELECT $1, e.id, e.hash FROM unnest($2::text[], $3::text[]) e(id, hash)
    ON CONFLICT (consumer, event_id) DO NOTHING RETURNING event_id";

/// A statement of its own, because the one above does not see what was committed while it waited.
pub(super) const RECORDED: &str =
    "SELECT event_id, payload_hash FROM {outbox} WHERE consumer = $1 AND event_id = ANY($2)";

/// The types of what is inserted: named, so that one round trip does it all.
pub(super) const TYPES: [Type; 3] = [Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY];

/// An event that is to be recorded.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) id: &'a str,
    pub(super) hash: Option<&'a str>,
}

/// How the insert is asked.
pub(super) enum Insert<'a> {
    Prepared(Statement),
    /// Without a name nothing stays behind on the server.
    Text(&'a str),
}

/// Records events, and says of each what it is, in their order.
pub(super) async fn record(
    client: &impl GenericClient,
    tables: &Tables,
    insert: &Insert<'_>,
    consumer: &str,
    entries: &[Entry<'_>],
) -> Result<Vec<Recorded>, Error> {
    let rows = insert_all(client, insert, consumer, entries).await?;
    let mut inserted = HashSet::new();
    for row in &rows {
        inserted.insert(row.try_get::<_, &str>(0)?);
    }
    let (mut marks, compared) = marks(entries, &mut inserted);
    if !compared.is_empty() {
        let values = [(&consumer as _, Type::TEXT), (&compared as _, Type::TEXT_ARRAY)];
        let rows = client.query_typed(&tables.sql(RECORDED), &values).await?;
        let mut hashes: HashMap<&str, Option<String>> = HashMap::new();
        for row in &rows {
            hashes.insert(row.try_get(0)?, row.try_get(1)?);
        }
        compare(entries, &hashes, &mut marks);
    }
    Ok(marks)
}

/// What is known of one event.
pub(super) async fn look(
    client: &impl GenericClient,
    tables: &Tables,
    consumer: &str,
    event: &Entry<'_>,
) -> Result<Option<Recorded>, Error> {
    let ids = [event.id];
    let values = [(&consumer as _, Type::TEXT), (&&ids[..] as _, Type::TEXT_ARRAY)];
    let rows = client.query_typed(&tables.sql(RECORDED), &values).await?;
    let before: Option<Option<String>> = rows.first().map(|row| row.try_get(1)).transpose()?;
    Ok(before.map(|before| Recorded::beside(before, event.hash)))
}

/// What is known after the insert, and which of those that were recorded before have hashes to compare.
pub(super) fn marks<'a>(
    entries: &[Entry<'a>],
    inserted: &mut HashSet<&str>,
) -> (Vec<Recorded>, Vec<&'a str>) {
    let mut marks = Vec::with_capacity(entries.len());
    let mut compared = Vec::new();
    for entry in entries {
        let is_first = inserted.remove(entry.id);
        marks.push(if is_first { Recorded::Now } else { Recorded::Before });
        if !is_first && entry.hash.is_some() {
            compared.push(entry.id);
        }
    }
    (marks, compared)
}

/// Tells repeated events from reused ids among those that were recorded before.
pub(super) fn compare(entries: &[Entry<'_>], hashes: &HashMap<&str, Option<String>>, marks: &mut [Recorded]) {
    for (entry, mark) in entries.iter().zip(marks) {
        if *mark == Recorded::Before {
            let recorded = hashes.get(entry.id).cloned().flatten();
            *mark = Recorded::beside(recorded, entry.hash);
        }
    }
}

async fn insert_all(
    client: &impl GenericClient,
    insert: &Insert<'_>,
    consumer: &str,
    entries: &[Entry<'_>],
) -> Result<Vec<Row>, Error> {
    // Two transactions that insert the same ids in another order would wait for each other. The sort is stable, so of
    // two entries with one id the first is the one that is recorded.
    let mut sorted: Vec<&Entry<'_>> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.id);
    let ids: Vec<&str> = sorted.iter().map(|entry| entry.id).collect();
    let hashes: Vec<Option<&str>> = sorted.iter().map(|entry| entry.hash).collect();
    match insert {
        Insert::Prepared(statement) => client.query(statement, &[&consumer, &ids, &hashes]).await,
        Insert::Text(sql) => {
            let [text, id, hash] = TYPES;
            let values = [(&consumer as _, text), (&ids as _, id), (&hashes as _, hash)];
            client.query_typed(sql, &values).await
        }
    }
}
