//! The one write that says what became of a batch: one statement, fenced, committed by itself.

use std::borrow::Cow;
use std::collections::HashSet;

use postrider_core::{Leaves, Park, Settle, SettleParked, Settled, Shard, StoreErrorKind, Then, crash};
use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::clock;
use crate::connect::Session;
use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::lease;
use crate::row::{self, destination_text, storable};

/// The statement. Without a history nothing of it is mentioned.
pub(crate) fn sql(tables: &Tables, history: bool) -> String {
    let history = if history {
        include_str!("sql/history.sql")
    } else {
        ""
    };
    tables.sql(&include_str!("sql/settle.sql").replace("{history}", history))
}

/// Writes what became of a batch; answers one result an entry, queued entries first.
pub(crate) async fn settle(
    session: &Session,
    tables: &Tables,
    sql: &str,
    settle: &Settle,
) -> Result<Vec<Settled>> {
    if settle.queued.is_empty() && settle.parked.is_empty() {
        return Ok(Vec::new());
    }
    let written = Written::of(settle);
    crash::point("settle.inside");
    let mut answer = session.ask("settle", sql, &written.parameters()).await;
    if answer
        .as_ref()
        .is_err_and(|error| error.is(&SqlState::CHECK_VIOLATION))
    {
        // Nobody was there for a week to make the partition of today.
        session
            .ask("maintain", &tables.sql("SELECT {outbox_maintain}()"), &[])
            .await?;
        answer = session.ask("settle", sql, &written.parameters()).await;
    }
    let rows = answer?;
    let answer = rows.first().ok_or_else(|| {
        Error::new(
            StoreErrorKind::Other,
            "settling a batch: the database said nothing of what it did",
        )
    })?;
    let admitted: HashSet<i16> = answer.try_get::<_, Vec<i16>>(0)?.into_iter().collect();
    let queued = flags(answer.try_get(1)?, settle.queued.len());
    let parked = flags(answer.try_get(2)?, settle.parked.len());
    let verdict = |shard: Shard, done: bool| match admitted.contains(&lease::shard(shard)) {
        false => Settled::Fenced,
        true if done => Settled::Done,
        true => Settled::Gone,
    };
    let of_queued = settle
        .queued
        .iter()
        .zip(queued)
        .map(|(entry, done)| verdict(entry.shard, done));
    let of_parked = settle
        .parked
        .iter()
        .zip(parked)
        .map(|(entry, done)| verdict(entry.shard, done));
    Ok(of_queued.chain(of_parked).collect())
}

/// Which of so many entries are among those that were written, which are counted from one.
fn flags(written: Vec<i64>, entries: usize) -> Vec<bool> {
    let mut flags = vec![false; entries];
    for n in written {
        if let Some(flag) = usize::try_from(n - 1).ok().and_then(|index| flags.get_mut(index)) {
            *flag = true;
        }
    }
    flags
}

/// A settle in the form of parameters: one array a column.
#[derive(Default)]
struct Written<'a> {
    fence: (Vec<i16>, Vec<i64>),
    seq: Vec<i64>,
    id: Vec<Cow<'a, str>>,
    /// Only of rows that are parked.
    key: Vec<Option<Cow<'a, str>>>,
    outcome: Vec<i16>,
    destination: Vec<Option<Cow<'a, str>>>,
    receipt: Vec<Option<Cow<'a, str>>>,
    more: Vec<Option<String>>,
    parks: Vec<Option<String>>,
    parked: WrittenParked,
    entries: Option<Value>,
}

/// What became of parked rows: the places, and an object by `place:destination`.
#[derive(Default)]
struct WrittenParked {
    seq: Vec<i64>,
    entries: serde_json::Map<String, Value>,
}

const SENT: i16 = 0;
const DUPLICATE: i16 = 1;
const AGAIN: i16 = 2;
const SPLIT: i16 = 3;
const DROPPED: i16 = 2;

impl<'a> Written<'a> {
    fn of(settle: &'a Settle) -> Self {
        let mut written = Self {
            fence: lease::split(&settle.fence),
            ..Self::default()
        };
        for entry in &settle.queued {
            written.seq.push(row::place(entry.seq));
            written.id.push(storable(entry.event_id.as_str()));
            written.leaves(&entry.leaves);
            let parks = matches!(&entry.leaves, Leaves::Decided { parked, .. } if !parked.is_empty());
            written.key.push(parks.then(|| storable(entry.key.as_str())));
        }
        for (n, entry) in (1..).zip(&settle.parked) {
            written.parked.take(n, entry);
        }
        written.entries = Some(Value::Object(std::mem::take(&mut written.parked.entries)));
        written
    }

    /// The first destination has columns of its own, because most events have one; the others share a list.
    fn leaves(&mut self, leaves: &'a Leaves) {
        let (outcome, sent, parks) = match leaves {
            Leaves::Decided { sent, parked } => (SENT, sent.as_slice(), parked.as_slice()),
            Leaves::Duplicate => (DUPLICATE, [].as_slice(), [].as_slice()),
            Leaves::Dropped => (DROPPED, [].as_slice(), [].as_slice()),
        };
        let first = sent.first();
        let more = sent.iter().skip(1).map(|(destination, receipt)| {
            json!({"destination": storable(destination.as_str()), "receipt": receipt.0.as_deref().map(storable)})
        });
        self.outcome.push(outcome);
        self.destination
            .push(first.map(|(destination, _)| storable(destination.as_str())));
        self.receipt
            .push(first.and_then(|(_, receipt)| receipt.0.as_deref().map(storable)));
        self.more.push(list(more));
        self.parks.push(list(parks.iter().map(park)));
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.fence.0,
            &self.fence.1,
            &self.seq,
            &self.id,
            &self.key,
            &self.outcome,
            &self.destination,
            &self.receipt,
            &self.more,
            &self.parks,
            &self.parked.seq,
            &self.entries,
        ]
    }
}

impl WrittenParked {
    fn take(&mut self, n: u64, entry: &SettleParked) {
        let from = destination_text(entry.destination.as_ref());
        let (what, receipt, stays, others) = match &entry.then {
            Then::Sent(receipt) => (SENT, receipt.0.as_deref(), None, Vec::new()),
            Then::Duplicate => (DUPLICATE, None, None, Vec::new()),
            Then::Again(stays) => (AGAIN, None, Some(stays), Vec::new()),
            // One of the rows that replace this one may be this one: it is changed, and the others are put beside it.
            Then::Split(parks) => {
                let is_same = |one: &&Park| destination_text(one.destination.as_ref()) == from;
                let stays = parks.iter().find(is_same);
                let what = if stays.is_some() { AGAIN } else { SPLIT };
                (
                    what,
                    None,
                    stays,
                    parks.iter().filter(|one| !is_same(one)).map(park).collect(),
                )
            }
        };
        let key = format!("{}:{}", row::place(entry.seq), storable(from));
        // One entry a row: what was published counts, whatever else is said of the row.
        let published = |entry: &Value| matches!(entry["w"].as_i64(), Some(0 | 1));
        if self.entries.get(&key).is_some_and(published) {
            return;
        }
        self.seq.push(row::place(entry.seq));
        let mut written = json!({"n": n, "w": what, "v": entry.version, "r": receipt.map(storable)});
        if let Some(stays) = stays {
            written["k"] = park(stays);
        }
        if !others.is_empty() {
            written["m"] = Value::Array(others);
        }
        self.entries.insert(key, written);
    }
}

fn list(values: impl Iterator<Item = Value>) -> Option<String> {
    let values: Vec<Value> = values.collect();
    (!values.is_empty()).then(|| Value::Array(values).to_string())
}

fn park(park: &Park) -> Value {
    let failure = park.failure.as_ref();
    json!({
        "destination": storable(destination_text(park.destination.as_ref())),
        "dead": park.dead,
        "wait": clock::micros(park.next_attempt_in),
        "attempts": park.attempts,
        "failures": park.failures,
        "maybe_sent": park.maybe_sent,
        "kind": failure.map(|failure| failure.kind.as_str()),
        "text": failure.map(|failure| storable(&failure.text)),
    })
}
