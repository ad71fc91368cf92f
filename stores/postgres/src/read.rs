//! Reading in one statement, and so in one snapshot: queued rows above the floors, and parked rows that are due.

use std::time::Duration;

use postrider_core::{Page, Range, Read, Seq};
use tokio_postgres::types::ToSql;

use crate::clock;
use crate::config::PgOptions;
use crate::decode;
use crate::error::Result;
use crate::heads::{Begun, From, Round};
use crate::horizon::{self, Horizon};
use crate::ident::Tables;
use crate::lease;
use crate::near::Near;
use crate::overdue;
use crate::row::{self, destination_text, storable};
use crate::session::Session;

/// The two ways of a read: range by range, and the short one.
#[derive(Debug)]
pub(crate) struct Statements {
    by_range: String,
    near: Near,
    short_reads: bool,
}

impl Statements {
    pub(crate) fn new(tables: &Tables, options: &PgOptions) -> Self {
        let dedup = options.dedup_window().is_some();
        Self {
            by_range: sql(tables, dedup),
            near: Near::new(tables, dedup),
            short_reads: options.short_reads,
        }
    }
}

/// The statement. Without a duplicate window the history is not looked at, not even for planning.
pub(crate) fn sql(tables: &Tables, dedup: bool) -> String {
    filled(include_str!("sql/read.sql"), tables, dedup)
}

fn filled(template: &str, tables: &Tables, dedup: bool) -> String {
    let mut template = decode::answers(template);
    for (table, is_parked) in [("o", false), ("p", true)] {
        let known = match dedup {
            true => decode::sent_before(table, is_parked),
            false => "CASE WHEN $17::double precision IS NULL THEN NULL::text[] END".to_owned(),
        };
        template = template.replace(&format!("{{sent_before {table}}}"), &known);
    }
    tables.sql(&template)
}

/// The read of the version of the tables before this one.
#[cfg(test)]
pub(crate) fn sql_before(tables: &Tables) -> String {
    filled(include_str!("sql/read_of_version_3.sql"), tables, true)
}

/// Reads a page. When a sample of the writers is due it goes out first on the same connection, so that the server has
/// taken it before this snapshot, and costs no round trip. Answers how large the table of parked rows is, too.
pub(crate) async fn read(
    session: &Session,
    tables: &Tables,
    statements: &Statements,
    dedup: Option<Duration>,
    horizon: &Horizon,
    round: &Round,
    read: &Read,
) -> Result<(Page, i64)> {
    let question = Question::of(read, dedup, round);
    let mut page = Page {
        read_to: read.ranges.iter().map(untouched).collect(),
        ..Page::default()
    };
    let wants_sample = horizon.wants_sample(session);
    let given = horizon.given();
    let asked = ask(session, statements, &question, given, read, &mut page);
    let (writers, answer) = match wants_sample {
        true if session.is_pipelined() => {
            // Prepared before, so that asking is one message.
            session.prepare("writers", &horizon::sql(session, tables)).await?;
            session.prepare("read", &statements.by_range).await?;
            statements.near.prepare(session).await?;
            let both = futures_util::future::join(horizon::writers(session, tables), asked).await;
            (Some(both.0?), both.1?)
        }
        true => (Some(horizon::writers(session, tables).await?), asked.await?),
        false => (None, asked.await?),
    };
    if let Some(overdue) = writers.and_then(|writers| horizon.sampled(writers)) {
        overdue::warn(session, tables, &overdue).await?;
    }
    horizon.saw(answer.given, answer.file);
    // Only now: what was seen may be that places begin anew, and then nothing is decided.
    page.horizon = row::seq(horizon.decided());
    round.note(&question.begun, &answer, &mut page);
    statements
        .near
        .saw_parked(answer.visited > 0 || page.next_due_in.is_some() || !page.parked_to_end);
    Ok((page, answer.pages))
}

/// Fills the page, by the short way when that will do.
async fn ask(
    session: &Session,
    statements: &Statements,
    question: &Question,
    given: i64,
    read: &Read,
    page: &mut Page,
) -> Result<decode::Answer> {
    if statements.short_reads
        && statements.near.will_do(read, given)
        && let Some(answer) = statements.near.ask(session, question, read, page).await?
    {
        return Ok(answer);
    }
    let parameters = Parameters::of(question, read);
    let rows = session
        .ask("read", &statements.by_range, &parameters.all(question))
        .await?;
    let mut answer = decode::Answer::to(read.ranges.len());
    for row in &rows {
        answer.take(row, &read.ranges, page)?;
    }
    if answer.unsorted {
        page.queued.sort_by_key(|row| row.seq);
    }
    Ok(answer)
}

/// How far a range is read that brought nothing. One that was asked for nothing was not looked at.
fn untouched(range: &Range) -> Seq {
    match range.limit {
        0 => range.floor,
        _ => Seq::MAX,
    }
}

/// What both ways of a read ask for, in the form of parameters.
pub(crate) struct Question {
    pub(crate) skip: Vec<i64>,
    pub(crate) begun: Begun,
    pub(crate) dedup: Option<f64>,
}

impl Question {
    fn of(read: &Read, dedup: Option<Duration>, round: &Round) -> Self {
        // Places are unique in the outbox, so one list does for all ranges.
        let skip = read.ranges.iter().flat_map(|range| &range.skip);
        let parked = &read.parked;
        let shards = match parked.heads {
            0 => Vec::new(),
            _ => parked.shards.iter().map(|shard| lease::shard(*shard)).collect(),
        };
        Self {
            skip: skip.map(|seq| row::place(*seq)).collect(),
            begun: round.begin(shards),
            dedup: dedup.map(clock::seconds),
        }
    }
}

/// The rest of what a read range by range asks for. Not made before it is needed: it is much, for something that most
/// reads do without.
struct Parameters {
    slots: Vec<i32>,
    floors: Vec<i64>,
    limits: Vec<i64>,
    max_bytes: i64,
    skip_dead: Vec<String>,
    from: From,
    visits: i64,
    heads: i64,
    not_for: Vec<String>,
    busy: Vec<i64>,
    busy_for: Vec<String>,
    followers: i64,
}

impl Parameters {
    fn of(question: &Question, read: &Read) -> Self {
        let names = |list: &[postrider_core::DestinationName]| -> Vec<String> {
            list.iter()
                .map(|name| storable(name.as_str()).into_owned())
                .collect()
        };
        let parked = &read.parked;
        Self {
            slots: read
                .ranges
                .iter()
                .map(|range| i32::from(lease::shard(range.shard)) * 4 + i32::from(range.lane.sign()))
                .collect(),
            floors: read.ranges.iter().map(|range| row::place(range.floor)).collect(),
            limits: read.ranges.iter().map(|range| i64::from(range.limit)).collect(),
            max_bytes: i64::try_from(read.max_bytes).unwrap_or(i64::MAX),
            skip_dead: names(&read.skip_dead),
            from: question.begun.from(),
            visits: crate::heads::VISITS,
            heads: i64::from(parked.heads),
            not_for: names(&parked.not_for),
            busy: parked.busy.iter().map(|(seq, _)| row::place(*seq)).collect(),
            busy_for: parked
                .busy
                .iter()
                .map(|(_, name)| storable(destination_text(name.as_ref())).into_owned())
                .collect(),
            followers: i64::from(parked.followers),
        }
    }

    fn all<'a>(&'a self, question: &'a Question) -> [&'a (dyn ToSql + Sync); 17] {
        [
            &self.slots,
            &self.floors,
            &self.limits,
            &question.skip,
            &self.max_bytes,
            &self.skip_dead,
            &question.begun.shards,
            &self.from.destinations,
            &self.from.lines,
            &self.from.lanes,
            &self.visits,
            &self.heads,
            &self.not_for,
            &self.busy,
            &self.busy_for,
            &self.followers,
            &question.dedup,
        ]
    }
}
