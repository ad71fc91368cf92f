//! The rows of a read as the engine knows them: the event, what stands in its way, and where its id was published
//! before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Blocked, DestinationName, ErrorKind, Failure, OrderKey, Page, ParkedRow, QueuedRow, Range, SentBefore,
    Seq,
};
use tokio_postgres::Row;

use crate::clock::{self, Micros};
use crate::error::Result;
use crate::heads::Line;
use crate::row::{self, Stored, destination, seq};
use crate::schema;

/// The columns of the answer, as `read.sql` has them.
mod column {
    use crate::row;

    pub(super) const KIND: usize = 0;
    /// The first of [`row::COLUMNS`], whose place, shard and lane some kinds have without the others.
    pub(super) const STORED: usize = 1;
    pub(super) const SEQ: usize = STORED + row::SEQ;
    pub(super) const SHARD: usize = STORED + row::SHARD;
    pub(super) const LANE: usize = STORED + row::LANE;
    pub(super) const BLOCKED: usize = STORED + row::COUNT;
    pub(super) const SENT_BEFORE: usize = BLOCKED + 1;
    pub(super) const DESTINATION: usize = BLOCKED + 2;
    pub(super) const ORDER_KEY: usize = BLOCKED + 3;
    pub(super) const VERSION: usize = BLOCKED + 4;
    pub(super) const ATTEMPTS: usize = BLOCKED + 5;
    pub(super) const FAILURES: usize = BLOCKED + 6;
    pub(super) const MAYBE_SENT: usize = BLOCKED + 7;
    pub(super) const REDRIVEN: usize = BLOCKED + 8;
    pub(super) const FIRST_FAILED_AT: usize = BLOCKED + 9;
    pub(super) const LAST_FAILED_AT: usize = BLOCKED + 10;
    pub(super) const RANGE: usize = BLOCKED + 11;
    pub(super) const LINE: usize = BLOCKED + 12;
    /// Rows have no line, so that the reason why one is too large needs no column of its own.
    pub(super) const TOO_LARGE: usize = LINE;
    pub(super) const GIVEN: usize = BLOCKED + 13;
    pub(super) const INSTALLED: usize = BLOCKED + 14;
    pub(super) const MOMENT: usize = BLOCKED + 15;
    pub(super) const NEXT_DUE_AT: usize = BLOCKED + 16;
    pub(super) const VISITED: usize = BLOCKED + 17;
    pub(super) const ALL_DUE: usize = BLOCKED + 18;
    pub(super) const FILE: usize = BLOCKED + 19;
    pub(super) const PAGES: usize = BLOCKED + 20;
}

/// The columns behind the row's own and before those of the head, as [`column`] has them, with their types.
const BEHIND: [(&str, &str); column::GIVEN - column::BLOCKED] = [
    ("blocked", "text[]"),
    ("sent_before", "text[]"),
    ("destination", "text"),
    ("order_key", "text"),
    ("version", "bigint"),
    ("attempts", "bigint"),
    ("failures", "bigint"),
    ("maybe_sent", "boolean"),
    ("redriven", "boolean"),
    ("first_failed_at", "timestamptz"),
    ("last_failed_at", "timestamptz"),
    ("range", "bigint"),
    ("line", "text"),
];

/// What the head of every answer says.
pub(crate) const SAYS: &str = "(SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END \
     FROM {outbox_seq} s) AS given, \
     (SELECT max(m.version) FROM {outbox_migrations} m) AS installed, now() AS moment";

/// A statement that answers in these columns. In its template `{head}` stands for what the head has in common,
/// `{no_head}` and `{no_parked}` for the absence of what only the head or a parked row has, and `{only name: value; …}`
/// for a row that has nothing else.
pub(crate) fn answers(template: &str) -> String {
    let nulls = |count: usize| vec!["NULL"; count].join(", ");
    let named = BEHIND
        .map(|(name, kind)| format!("NULL::{kind} AS {name}"))
        .join(", ");
    let template = template
        .replace("{head}", &format!("{named}, {SAYS}"))
        .replace("{no_head}", &nulls(HEAD))
        .replace("{no_parked}", &nulls(column::RANGE - column::DESTINATION));
    let mut parts = template.split("{only ");
    let mut sql = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (values, rest) = part.split_once('}').unwrap_or((part, ""));
        sql.push_str(&only(values));
        sql.push_str(rest);
    }
    sql
}

/// A value for each column before the head: what is given by name, and nothing for the others.
fn only(values: &str) -> String {
    let given: BTreeMap<&str, &str> = values
        .split(';')
        .filter_map(|one| one.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let own = row::COLUMNS.split(", ");
    let columns = own.chain(BEHIND.iter().map(|(name, _)| *name));
    let values: Vec<&str> = columns
        .map(|name| given.get(name).copied().unwrap_or("NULL"))
        .collect();
    values.join(", ")
}

/// How many columns only the head of the answer fills: the last ones.
const HEAD: usize = column::PAGES + 1 - column::GIVEN;

/// Where the id of a row was published before, as texts: `1` or `0` for the same content or other, then the
/// destination. Headers do not count: a producer that repeats itself sends a new trace context with the same event.
/// Other content that was sent from the row's own place is what a person has edited since, or, where this row is parked
/// and nobody has edited it, what a person has edited of another one. The bounds on the time leave the partitions of
/// other days out.
pub(crate) fn sent_before(table: &str, is_parked: bool) -> String {
    let sent = sent(table, "$17");
    let body = |of: &str| format!("coalesce(convert_to({of}.payload, 'UTF8'), {of}.payload_bytes, '')");
    let kind = |of: &str| {
        format!(
            "coalesce({of}.content_type, CASE WHEN {of}.payload_bytes IS NULL THEN 'application/json' \
             ELSE 'application/octet-stream' END)"
        )
    };
    let is_this = match is_parked {
        true => {
            " OR (TABLE.edited IS NULL AND s.seq = TABLE.seq AND s.enqueued_at IS NOT DISTINCT FROM TABLE.enqueued_at)"
        }
        false => "",
    };
    let same = format!(
        "({} = {} AND {} = {} AND s.event_type = TABLE.event_type AND s.aggregate_type = TABLE.aggregate_type
            AND s.aggregate_id = TABLE.aggregate_id AND s.event_key IS NOT DISTINCT FROM TABLE.event_key){is_this}",
        body("s"),
        body("TABLE"),
        kind("s"),
        kind("TABLE"),
    );
    format!(
        "CASE WHEN TABLE.replay_id IS NULL AND EXISTS (SELECT 1 {sent}) THEN (
            SELECT array_agg(k.same || k.destination) FROM (
                SELECT s.destination, bool_or({same})::integer::text AS same
                {sent} AND (s.seq <> TABLE.seq OR ({same})) GROUP BY s.destination) k) END"
    )
    .replace("TABLE", table)
}

/// The part of the history that counts for a duplicate of a row, within so many seconds.
pub(crate) fn sent(table: &str, seconds: &str) -> String {
    format!(
        "FROM {{outbox_sent}} s WHERE s.event_id = {table}.event_id
         AND s.published_at > now() - make_interval(secs => {seconds}::double precision)
         AND s.published_at < now() + interval '1 hour' AND s.outcome = 'published' AND s.destination IS NOT NULL
         AND s.replay_id IS NULL"
    )
}

/// What the head of the answer says, and what is gathered while its rows are taken.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The last place that was given.
    pub(crate) given: i64,
    /// The file that the outbox is in.
    pub(crate) file: Option<i64>,
    /// How large the table of parked rows is.
    pub(crate) pages: i64,
    /// How many lines of parked rows were visited.
    pub(crate) visited: i64,
    /// The last line visited in each shard, when not all were.
    pub(crate) reached: Vec<(i16, Line)>,
    /// Every due head among the lines visited is in the answer, with all that was wanted behind it.
    pub(crate) all_due: bool,
    /// Rows that are too large came behind the others.
    pub(crate) unsorted: bool,
    /// When it was given.
    pub(crate) now: i64,
    /// How many rows each range has brought.
    counts: Vec<u32>,
}

impl Answer {
    /// An answer to a question with so many ranges.
    pub(crate) fn to(ranges: usize) -> Self {
        Self {
            counts: vec![0; ranges],
            ..Self::default()
        }
    }

    /// Takes one row of any kind; the head comes first.
    pub(crate) fn take(&mut self, row: &Row, ranges: &[Range], page: &mut Page) -> Result<()> {
        match row.try_get::<_, i32>(column::KIND)? {
            0 => self.head(row, page)?,
            kind @ (1 | 5) => {
                self.unsorted |= kind == 5;
                let row = self.queued(row, ranges, page)?;
                page.queued.push(row);
            }
            2 => page.parked.push(self.parked(row)?),
            3 => {
                let line = (
                    row.try_get(column::DESTINATION)?,
                    row.try_get(column::LINE)?,
                    row.try_get(column::LANE)?,
                );
                self.reached.push((row.try_get(column::SHARD)?, line));
            }
            _ => {
                let index = index(row)?;
                left_out(page, index, seq(row.try_get(column::SEQ)?).before());
            }
        }
        Ok(())
    }

    fn head(&mut self, row: &Row, page: &mut Page) -> Result<()> {
        schema::check(row.try_get(column::INSTALLED)?)?;
        self.given = row.try_get(column::GIVEN)?;
        self.file = row.try_get(column::FILE)?;
        self.pages = row.try_get(column::PAGES)?;
        self.now = row.try_get::<_, Micros>(column::MOMENT)?.0;
        let next: Option<Micros> = row.try_get(column::NEXT_DUE_AT)?;
        page.next_due_in = next.map(|at| clock::until(self.now, at.0));
        self.visited = row.try_get(column::VISITED)?;
        self.all_due = row.try_get(column::ALL_DUE)?;
        Ok(())
    }

    /// Counts a row that a range brought. One that brought as many as were asked for may hold more behind the last.
    pub(crate) fn bring(&mut self, index: usize, seq: Seq, ranges: &[Range], page: &mut Page) {
        if let (Some(count), Some(range)) = (self.counts.get_mut(index), ranges.get(index)) {
            *count += 1;
            if *count >= range.limit {
                left_out(page, index, seq);
            }
        }
    }

    fn queued(&mut self, row: &Row, ranges: &[Range], page: &mut Page) -> Result<QueuedRow> {
        let mut answer = self.answer(row)?;
        self.bring(index(row)?, answer.seq, ranges, page);
        let blocked: Option<Vec<&str>> = row.try_get(column::BLOCKED)?;
        answer.blocked = match blocked {
            None => Blocked::Nowhere,
            Some(names) if names.contains(&"") => Blocked::Everywhere,
            Some(names) => Blocked::At(names.into_iter().map(DestinationName::from).collect()),
        };
        Ok(answer)
    }

    fn parked(&self, row: &Row) -> Result<ParkedRow> {
        let ago = |index: usize| -> Result<Option<Duration>> {
            let at: Option<Micros> = row.try_get(index)?;
            Ok(at.map(|at| clock::until(at.0, self.now)))
        };
        let count = |index: usize| -> Result<u32> {
            let number: i64 = row.try_get(index)?;
            Ok(u32::try_from(number).unwrap_or(u32::MAX))
        };
        let mut answer = self.answer(row)?;
        // A row keeps the key that it was parked under: one that is scheduled stands alone.
        answer.key = OrderKey::from(row.try_get::<_, &str>(column::ORDER_KEY)?);
        let failing_for = ago(column::FIRST_FAILED_AT)?;
        Ok(ParkedRow {
            row: answer,
            destination: destination(row.try_get(column::DESTINATION)?),
            version: u64::try_from(row.try_get::<_, i64>(column::VERSION)?).unwrap_or(0),
            attempts: count(column::ATTEMPTS)?,
            failures: count(column::FAILURES)?,
            maybe_sent: row.try_get(column::MAYBE_SENT)?,
            redriven: row.try_get(column::REDRIVEN)?,
            failing_for,
            // What failed only before it was routed anew has not failed where it goes now.
            failed_ago: failing_for.and(ago(column::LAST_FAILED_AT)?),
        })
    }

    fn answer(&self, row: &Row) -> Result<QueuedRow> {
        let stored = Stored::read(row, column::STORED)?;
        let too_large: Option<String> = row.try_get(column::TOO_LARGE)?;
        let known: Option<Vec<&str>> = row.try_get(column::SENT_BEFORE)?;
        let sent_before = |text: &str| SentBefore {
            destination: text.get(1..).unwrap_or_default().into(),
            same_content: text.starts_with('1'),
        };
        let sent_before = known.unwrap_or_default().into_iter().map(sent_before).collect();
        Ok(self.row(stored, too_large, sent_before))
    }

    /// A row as the engine knows it, with nothing in its way.
    pub(crate) fn row(
        &self,
        stored: Stored,
        too_large: Option<String>,
        sent_before: Vec<SentBefore>,
    ) -> QueuedRow {
        QueuedRow {
            seq: stored.seq,
            shard: stored.shard,
            lane: stored.lane,
            key: stored.key,
            event_id: stored.event_id,
            event: match too_large.or(stored.bad) {
                None => Ok(Arc::new(stored.event)),
                Some(reason) => Err(Failure::new(ErrorKind::BadRow, reason)),
            },
            due_in: stored
                .available_at
                .map_or(Duration::ZERO, |at| clock::until(self.now, at.0)),
            blocked: Blocked::Nowhere,
            sent_before,
            replay: stored.replay,
        }
    }
}

/// Which range a row belongs to.
fn index(row: &Row) -> Result<usize> {
    let range: i64 = row.try_get(column::RANGE)?;
    Ok(usize::try_from(range - 1).unwrap_or(usize::MAX))
}

/// Rows behind a place were left out of a range.
fn left_out(page: &mut Page, range: usize, behind: Seq) {
    if let Some(read_to) = page.read_to.get_mut(range) {
        *read_to = (*read_to).min(behind);
    }
}
