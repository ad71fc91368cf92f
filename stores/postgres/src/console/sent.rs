//! The history from its end. It has no index by time, which every settle would pay for; but a day's partition is filled
//! from its first page to its last, so the newest rows are found there.

use postrider_core::{Cursor, DestinationName, JobId, Sent, SentPage, StoreErrorKind};
use tokio_postgres::Row;

use super::View;
use crate::clock::Micros;
use crate::error::{Error, Result};
use crate::row::headers;

/// How many pages of a partition are looked at first; twice as many each time that was not enough.
const PAGES: i64 = 16;
/// The most that are looked at in one statement: 4 MiB.
const MOST_PAGES: i64 = 512;
/// The most that are looked at for one answer, 128 MiB: whoever asks for a rare type is not worth a scan of everything.
const ALL_PAGES: i64 = 16_384;
/// Settles that run at the same time write their rows a little out of order.
const OUT_OF_ORDER: i64 = 2_000_000;

/// Where a row stands in the history: its time, its place, its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Mark(i64, i64, String);

/// One partition.
struct Day {
    /// `YYYYMMDD`, in UTC.
    name: String,
    pages: i64,
    ends: i64,
}

pub(super) async fn sent(
    view: &View,
    event_type: Option<&str>,
    limit: u32,
    after: Option<&Cursor>,
) -> Result<SentPage> {
    let after = after.map(mark_of).transpose()?;
    let mut look = Look {
        event_type,
        after: after.as_ref(),
        limit: limit as usize,
        found: Vec::new(),
        newest: after.clone().unwrap_or_default(),
        left: ALL_PAGES,
    };
    for day in days(view).await? {
        if after.as_ref().is_some_and(|mark| day.ends <= mark.0) || look.through(view, &day).await? {
            break;
        }
    }
    Ok(look.page())
}

/// One look at the history, backwards.
struct Look<'a> {
    event_type: Option<&'a str>,
    after: Option<&'a Mark>,
    limit: usize,
    found: Vec<(Mark, Sent)>,
    newest: Mark,
    left: i64,
}

impl Look<'_> {
    /// Looks through a day from its end; true when that was enough.
    async fn through(&mut self, view: &View, day: &Day) -> Result<bool> {
        let (mut to, mut step) = (day.pages, PAGES);
        while to > 0 {
            let from = (to - step).max(0);
            let oldest = self.pages(view, day, from, to).await?;
            self.left -= to - from;
            let enough = match self.after {
                Some(mark) => oldest.is_some_and(|oldest| oldest < mark.0 - OUT_OF_ORDER),
                None => self.found.len() >= self.limit,
            };
            if enough || self.left <= 0 {
                return Ok(true);
            }
            (to, step) = (from, (step * 2).min(MOST_PAGES));
        }
        Ok(false)
    }

    /// Takes what is wanted of some pages; answers the oldest time on them.
    async fn pages(&mut self, view: &View, day: &Day, from: i64, to: i64) -> Result<Option<i64>> {
        // The bounds of the day are written out, so that the planner leaves out every other partition.
        let sql = view.sql(&format!(
            "SELECT published_at, seq, coalesce(destination, ''), outcome, event_id, event_type,
                    coalesce(event_key, aggregate_type || '/' || aggregate_id), receipt,
                    aggregate_type, aggregate_id, headers, replay_id
             FROM {{outbox_sent}}
             WHERE published_at >= timestamptz '{day} 00:00:00+00'
               AND published_at < timestamptz '{day} 00:00:00+00' + interval '24 hours'
               AND ctid >= '({from},0)'::tid AND ctid < '({to},0)'::tid",
            day = day.name
        ));
        let mut oldest = None;
        for row in view.client().query(&sql, &[]).await? {
            let mark = Mark(row.try_get::<_, Micros>(0)?.0, row.try_get(1)?, row.try_get(2)?);
            oldest = oldest.min(Some(mark.0)).or(Some(mark.0));
            if mark > self.newest {
                self.newest = mark.clone();
            }
            let fresh = self.after.is_none_or(|after| mark > *after);
            let event_type: &str = row.try_get(5)?;
            let wanted = self.event_type.is_none_or(|wanted| wanted == event_type);
            if fresh && wanted && row.try_get::<_, &str>(3)? == "published" {
                let event = event(&mark, &row)?;
                self.found.push((mark, event));
            }
        }
        Ok(oldest)
    }

    fn page(mut self) -> SentPage {
        self.found.sort_by(|(a, _), (b, _)| a.cmp(b));
        if self.after.is_none() {
            let spare = self.found.len().saturating_sub(self.limit);
            self.found.drain(..spare);
        } else if self.found.len() > self.limit {
            self.found.truncate(self.limit);
            // More is to come before the newest.
            if let Some((mark, _)) = self.found.last() {
                self.newest = mark.clone();
            }
        }
        let Mark(at, seq, destination) = self.newest;
        SentPage {
            events: self.found.into_iter().map(|(_, event)| event).collect(),
            next: Cursor(format!("{at}:{seq}:{destination}")),
        }
    }
}

/// The partitions that hold something, newest first.
async fn days(view: &View) -> Result<Vec<Day>> {
    let sql = view.sql(
        "SELECT right(c.relname, 8), pg_relation_size(c.oid) / current_setting('block_size')::bigint,
                (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC'
         FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = '{outbox_sent}'::regclass AND c.relname ~ '_[0-9]{8}$'
         ORDER BY right(c.relname, 8) DESC",
    );
    let rows = view.client().query(&sql, &[]).await?;
    let day = |row: &Row| {
        Ok(Day {
            name: row.try_get(0)?,
            pages: row.try_get(1)?,
            ends: row.try_get::<_, Micros>(2)?.0,
        })
    };
    rows.iter().map(day).collect()
}

fn event(mark: &Mark, row: &Row) -> Result<Sent> {
    let destination = Some(mark.2.as_str()).filter(|name| !name.is_empty());
    Ok(Sent {
        published_at: Micros(mark.0).into(),
        event_id: row.try_get::<_, &str>(4)?.into(),
        event_type: row.try_get(5)?,
        key: row.try_get(6)?,
        destination: destination.map(DestinationName::from),
        receipt: row.try_get(7)?,
        replay: row.try_get::<_, Option<&str>>(11)?.map(JobId::from),
        aggregate: (row.try_get(8)?, row.try_get(9)?),
        // Only valid events are published.
        headers: headers(row.try_get(10)?).unwrap_or_default(),
    })
}

fn mark_of(Cursor(text): &Cursor) -> Result<Mark> {
    let mut parts = text.splitn(3, ':');
    let mut number = || parts.next().and_then(|part| part.parse().ok());
    match (number(), number(), parts.next()) {
        (Some(at), Some(seq), Some(destination)) => Ok(Mark(at, seq, destination.to_owned())),
        _ => Err(Error::new(
            StoreErrorKind::Other,
            "the cursor is not one that this history gave out; start again without one",
        )),
    }
}
