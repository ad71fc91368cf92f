//! Listings: places are found by index, table by table, and the events of a page are put together in one go.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postrider_core::{Cursor, EventId, EventRecord, Filter, List, Listing, Timestamp};
use tokio_postgres::types::ToSql;

use super::View;
use super::meant::{Meant, Table, labels, only_heads};
use super::record::{Place, records};
use super::stretch::{Budget, Way};
use super::{stretch, timeline};
use crate::error::Result;

/// Places that are looked for in one go, at most.
const STRIDE: usize = 500;

/// Parked rows whose word is looked up in one go, where the filter asks for it: each costs a look at its key.
const WORDED: i64 = 10_000;

/// Rows that nothing of their own line stands before, those that stand alone, and those of paused keys: all that can be
/// held or scheduled.
const HEADS: &str = "(
         (SELECT DISTINCT ON (l.shard, l.destination, l.line, l.lane) l.seq, l.destination
          FROM {outbox_parked} l WHERE NOT l.dead AND {in_line l}
          ORDER BY l.shard, l.destination, l.line, l.lane, l.seq)
         UNION ALL
         SELECT a.seq, a.destination FROM {outbox_parked} a WHERE NOT a.dead AND {alone a}
         UNION ALL
         SELECT k.seq, k.destination FROM {outbox_parked} m
         JOIN {outbox_parked} k ON k.line = m.line AND k.lane = m.lane
         WHERE m.seq < 0 AND k.seq > 0 AND NOT k.dead)";

/// As many places of the history are looked at in the same time.
const COST: i64 = 5;

/// How long one page may be searched for, within what its statements let: none is begun that would take longer.
const PATIENCE: Duration = Duration::from_millis(120);

/// What one page may still cost.
struct Search {
    budget: Budget,
    /// How many parked rows the last look at their words took, and how long.
    worded: Option<(i64, Duration)>,
}

/// Events that match. What is found after much of the history was looked at for nothing is given at once, with the
/// place to go on from: a page may have fewer events than there are.
pub(super) async fn list(view: &View, list: &List) -> Result<Listing> {
    page(view, list, Budget::within(PATIENCE)).await
}

async fn page(view: &View, list: &List, budget: Budget) -> Result<Listing> {
    let limit = list.limit.max(1) as usize;
    let way = Way::of(list.newest_first);
    let mut at = match &list.from {
        Some(cursor) => cursor.place()?.0,
        None => way.start(),
    };
    let mut search = Search { budget, worded: None };
    let mut listing = Listing::default();
    loop {
        let wanted = (limit - listing.events.len() + 1).min(STRIDE);
        let found = find(view, &list.filter, way, at, wanted, &mut search).await?;
        let mut events = records(view, &found.places).await?;
        for place in &found.places {
            let Some(record) = events
                .remove(place)
                .filter(|record| is_meant(view, &list.filter, record))
            else {
                continue;
            };
            if listing.events.len() == limit {
                listing.next = Some(Cursor::at(at, ""));
                return Ok(listing);
            }
            at = place.0;
            listing.events.push(record);
        }
        let Some(to) = found.to else {
            return Ok(listing);
        };
        at = to;
        if search.budget.is_spent() {
            listing.next = Some(Cursor::at(at, ""));
            return Ok(listing);
        }
    }
}

/// Every record that has the id.
pub(super) async fn show(view: &View, id: &EventId) -> Result<Vec<EventRecord>> {
    let mut records = by_id(view, id).await?;
    timeline::tell(view, id, &mut records).await?;
    Ok(records)
}

/// The same without what happened to it.
pub(super) async fn by_id(view: &View, id: &EventId) -> Result<Vec<EventRecord>> {
    let filter = Filter {
        event_id: vec![id.clone()],
        ..Filter::default()
    };
    let all = List::first(u32::MAX, filter);
    Ok(page(view, &all, Budget::default()).await?.events)
}

fn is_meant(view: &View, filter: &Filter, record: &EventRecord) -> bool {
    record
        .routes
        .iter()
        .any(|route| filter.matches(record, route, Timestamp(view.now)))
}

/// Places that a filter may be about, in order.
struct Found {
    places: Vec<Place>,
    /// How far all tables were looked through; none: to their end.
    to: Option<i64>,
}

async fn find(
    view: &View,
    filter: &Filter,
    way: Way,
    at: i64,
    wanted: usize,
    search: &mut Search,
) -> Result<Found> {
    let mut all = BTreeSet::new();
    let mut to = None;
    for table in [Table::Queued, Table::Parked, Table::Sent] {
        let Some(meant) = Meant::of(filter, table, view.now, 3) else {
            continue;
        };
        let (places, reached) = match table {
            Table::Sent => {
                stretch::history(view, filter, &meant, way, at, wanted, &mut search.budget).await?
            }
            Table::Queued => plain(view, "{outbox}", &meant, way, at, wanted).await?,
            Table::Parked => match labels(filter) {
                Some(words) => worded(view, filter, &words, &meant, way, at, search).await?,
                None => plain(view, "{outbox_parked}", &meant, way, at, wanted).await?,
            },
        };
        all.extend(places);
        // Behind the place that the slowest came to, the others are not complete.
        to = match (to, reached) {
            (Some(one), Some(other)) => Some(way.first(one, other)),
            (one, other) => one.or(other),
        };
    }
    let mut places: Vec<Place> = all.into_iter().collect();
    places.retain(|(place, _)| to.is_none_or(|to| *place == to || way.is_before(*place, to)));
    if way == Way::Down {
        places.reverse();
    }
    if places.len() > wanted {
        places.truncate(wanted);
        to = places.last().map(|last| last.0);
    }
    Ok(Found { places, to })
}

/// Places of one table, and how far it was looked through.
pub(super) type Arm = (Vec<Place>, Option<i64>);

/// One table by whatever index the planner takes, in order.
async fn plain(view: &View, table: &str, meant: &Meant, way: Way, at: i64, wanted: usize) -> Result<Arm> {
    let sql = format!(
        "SELECT seq, coalesce(event_id, 'seq-' || seq) FROM {table} WHERE seq {} $1{} ORDER BY seq {} LIMIT $2",
        way.beyond(),
        meant.sql,
        way.order()
    );
    let places = places(view, &sql, at, i64::try_from(wanted).unwrap_or(i64::MAX), meant).await?;
    let reached = places
        .last()
        .filter(|_| places.len() >= wanted)
        .map(|last| last.0);
    Ok((places, reached))
}

/// Parked rows by the words that people see.
async fn worded(
    view: &View,
    filter: &Filter,
    words: &[&str],
    meant: &Meant,
    way: Way,
    at: i64,
    search: &mut Search,
) -> Result<Arm> {
    let Search { budget, worded } = search;
    let (from, conditions) = match only_heads(filter) {
        true => (HEADS, ""),
        false => ("{outbox_parked}", meant.sql.as_str()),
    };
    let order = way.order();
    let visits = match *worded {
        Some((visits, took)) => budget.next(visits, took, (visits * 4).min(WORDED)),
        None => WORDED / 10,
    };
    let sql = format!(
        "SELECT c.seq, s.event_id, s.status = ANY ('{{{}}}'::text[]) FROM (
             SELECT p.seq, p.destination FROM {from} p WHERE p.seq {} $1{conditions} ORDER BY p.seq {order} LIMIT $2
         ) c CROSS JOIN LATERAL (
             SELECT p.event_id, p.status FROM {{outbox_parked_status}} p
             WHERE p.seq = c.seq AND p.destination = c.destination LIMIT 1
         ) s ORDER BY c.seq {order}",
        words.join(","),
        way.beyond(),
    );
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&at, &visits];
    values.extend(meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
    let began = Instant::now();
    let rows = view.client().query(&view.sql(&sql), &values).await?;
    *worded = Some((visits, began.elapsed()));
    budget.spend(visits * COST);
    let full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= visits);
    let last = rows.last().map(|row| row.try_get::<_, i64>(0)).transpose()?;
    let mut places: Vec<Place> = Vec::new();
    for row in &rows {
        if row.try_get(2)? {
            places.push((row.try_get(0)?, row.try_get(1)?));
        }
    }
    places.dedup();
    Ok((places, last.filter(|_| full)))
}

/// The places that a statement answers.
pub(super) async fn places(
    view: &View,
    sql: &str,
    at: i64,
    wanted: i64,
    meant: &Meant,
) -> Result<Vec<Place>> {
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&at, &wanted];
    values.extend(meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
    let rows = view.client().query(&view.sql(sql), &values).await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}
