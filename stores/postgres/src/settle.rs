//! The one write that says what became of a batch: one statement, fenced, committed by itself.

use std::borrow::Cow;
use std::collections::HashSet;

use postrider_core::{Seq, Settle, Settled, Shard, StoreErrorKind, Then, crash};
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::lease;
use crate::row;
use crate::session::Session;
use crate::write::{self, Written};

/// The statement in two forms: what is mentioned in one costs every settle, whether it has to do with it or not.
#[derive(Debug)]
pub(crate) struct Statements {
    usual: String,
    /// With what comes of rows that are routed anew, for settles with such rows.
    anew: String,
}

impl Statements {
    pub(crate) fn new(tables: &Tables, history: bool) -> Self {
        Self {
            usual: sql(tables, history, false),
            anew: sql(tables, history, true),
        }
    }

    /// One of them, and its name in the session.
    fn of(&self, settle: &Settle) -> (&'static str, &str) {
        let mut parked = settle.parked.iter();
        match parked.any(|entry| matches!(entry.then, Then::Split(_))) {
            true => ("settle_anew", &self.anew),
            false => ("settle", &self.usual),
        }
    }
}

/// Without a history nothing of it is mentioned.
pub(crate) fn sql(tables: &Tables, history: bool, anew: bool) -> String {
    let history = if history {
        include_str!("sql/history.sql")
    } else {
        ""
    };
    let anew = if anew { include_str!("sql/anew.sql") } else { "" };
    let template = include_str!("sql/settle.sql")
        .replace("{history}", history)
        .replace("{anew}", anew)
        .replace("{taken}", write::TAKEN)
        .replace("{edited}", write::EDITED)
        .replace("{entry}", write::ENTRY)
        .replace("{park}", write::PARK)
        .replace("{next_attempt}", write::NEXT_ATTEMPT);
    tables.sql(&template)
}

/// Writes what became of a batch; answers one result an entry, queued entries first.
pub(crate) async fn settle(
    session: &Session,
    tables: &Tables,
    statements: &Statements,
    settle: &Settle,
) -> Result<Vec<Settled>> {
    if settle.queued.is_empty() && settle.parked.is_empty() {
        return Ok(Vec::new());
    }
    let ((name, sql), written) = (statements.of(settle), Written::of(settle));
    crash::point("settle.inside");
    let mut answer = session.ask(name, sql, &written.parameters()).await;
    if answer
        .as_ref()
        .is_err_and(|error| error.is(&SqlState::CHECK_VIOLATION))
    {
        // Nobody was there for a week to make the partition of today.
        session
            .ask("maintain", &tables.sql("SELECT {outbox_maintain}()"), &[])
            .await?;
        answer = session.ask(name, sql, &written.parameters()).await;
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
    let mut answers: Vec<Settled> = of_queued.chain(of_parked).collect();
    if answers.contains(&Settled::Gone) {
        tell_kept(session, tables, settle, &mut answers).await?;
    }
    Ok(answers)
}

/// Places of entries by number, of which the rows that are still there as the entries name them are wanted.
const STILL_THERE: &str = "SELECT
     ARRAY(SELECT x.n FROM unnest($1::bigint[], $2::bigint[], $3::text[]) x(n, place, id)
         WHERE EXISTS (SELECT 1 FROM {outbox} o WHERE o.seq = ANY (ARRAY[x.place]) AND {id o} = x.id)),
     ARRAY(SELECT x.n
         FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::boolean[])
             x(n, place, destination, version, is_sent)
         WHERE EXISTS (SELECT 1 FROM {outbox_parked} o
             WHERE o.seq = ANY (ARRAY[x.place]) AND o.destination = x.destination
             AND CASE WHEN x.is_sent THEN coalesce(o.sent_as, -1) < x.version ELSE o.version = x.version END))";

/// What was not written is gone, unless it is still there: then it must not be forgotten. Asked only when something
/// was not written, which is rare.
async fn tell_kept(
    session: &Session,
    tables: &Tables,
    settle: &Settle,
    answers: &mut [Settled],
) -> Result<()> {
    let count = settle.queued.len();
    let gone = |n: usize| answers.get(n) == Some(&Settled::Gone);
    let (mut queued, mut parked) = (Named::default(), Named::default());
    let (mut versions, mut are_sent) = (Vec::new(), Vec::new());
    for (n, entry) in settle.queued.iter().enumerate().filter(|(n, _)| gone(*n)) {
        queued.push(n, entry.seq, entry.event_id.as_str());
    }
    for (n, entry) in settle.parked.iter().enumerate().filter(|(n, _)| gone(count + *n)) {
        let name = row::destination_text(entry.destination.as_ref());
        parked.push(count + n, entry.seq, name);
        versions.push(i64::try_from(entry.version).unwrap_or(i64::MAX));
        // What was published is written down whatever the row's version is, but once.
        are_sent.push(matches!(entry.then, Then::Sent(_)));
    }
    let rows = session
        .ask(
            "kept",
            &tables.sql(STILL_THERE),
            &[
                &queued.n,
                &queued.place,
                &queued.name,
                &parked.n,
                &parked.place,
                &parked.name,
                &versions,
                &are_sent,
            ],
        )
        .await?;
    for row in &rows {
        let (queued, parked): (Vec<i64>, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        for n in queued.into_iter().chain(parked) {
            if let Some(answer) = usize::try_from(n).ok().and_then(|n| answers.get_mut(n)) {
                *answer = Settled::Kept;
            }
        }
    }
    Ok(())
}

/// Entries as [`STILL_THERE`] takes them: one array a column.
#[derive(Default)]
struct Named<'a> {
    n: Vec<i64>,
    place: Vec<i64>,
    name: Vec<Cow<'a, str>>,
}

impl<'a> Named<'a> {
    fn push(&mut self, n: usize, seq: Seq, name: &'a str) {
        self.n.push(i64::try_from(n).unwrap_or(i64::MAX));
        self.place.push(row::place(seq));
        self.name.push(row::storable(name));
    }
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
