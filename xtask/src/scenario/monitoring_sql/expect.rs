//! What each query must answer, worked out from the list of events.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::ask::{Asked, Rows};
use super::mix::{Event, Fate};
use crate::failure::{Failure, Result};
use crate::scenario::outcome::Outcome;

/// How many rows the query for recent events gives.
const RECENT: usize = 20;

/// Compares every answer of a database; one that is shown gives the figures.
pub(super) fn check(
    outcome: &mut Outcome,
    (database, shown): (&str, bool),
    asked: &Asked,
    events: &[Event],
    slack: Duration,
) -> Result<()> {
    let mut verdict = Verdict {
        outcome,
        database,
        slack: slack.as_secs_f64(),
        shown,
    };
    let count = |which: &dyn Fn(&Event) -> bool| events.iter().filter(|event| which(event)).count();

    let backlog = [
        count(&Event::is_unpublished),
        count(&|event| event.fate == Fate::Dead),
    ];
    verdict.row(
        "backlog",
        asked,
        &backlog.map(|number| Cell::Exactly(number as f64)),
    )?;

    let mut dead: Vec<&Event> = events.iter().filter(|event| event.fate == Fate::Dead).collect();
    dead.sort_by_key(|event| std::cmp::Reverse(event.age));
    verdict.ids("dead_letters", asked, &dead)?;

    let published: Vec<&Event> = events.iter().filter(|event| event.is_published()).collect();
    verdict.row("retries", asked, &retries(&published))?;
    verdict.latency(asked, &published)?;

    let recent: Vec<&Event> = events
        .iter()
        .filter(|event| event.is_of_the_last_hour())
        .collect();
    verdict.row("last_hour", asked, &last_hour(&recent))?;

    let mut orders: Vec<&Event> = events
        .iter()
        .filter(|event| event.aggregate_type == "ORDER")
        .collect();
    orders.reverse();
    orders.sort_by_key(|event| event.age);
    orders.truncate(RECENT);
    verdict.ids("recent", asked, &orders)
}

fn retries(published: &[&Event]) -> [Cell; 3] {
    let retries = || published.iter().map(|event| f64::from(event.retries()));
    [
        Cell::Exactly(retries().sum::<f64>() / published.len() as f64),
        Cell::Exactly(retries().fold(0.0, f64::max)),
        Cell::Exactly(published.len() as f64),
    ]
}

fn last_hour(events: &[&Event]) -> [Cell; 5] {
    let count = |which: &dyn Fn(&Event) -> bool| {
        Cell::Exactly(events.iter().filter(|event| which(event)).count() as f64)
    };
    let published: Vec<&Event> = events
        .iter()
        .copied()
        .filter(|event| event.is_published())
        .collect();
    [
        count(&Event::is_unpublished),
        count(&|event| event.retries() > 0),
        count(&|event| event.retries() >= 5),
        Cell::AtLeast(average_age(&published)),
        Cell::Exactly(
            events
                .iter()
                .map(|event| f64::from(event.retries()))
                .fold(0.0, f64::max),
        ),
    ]
}

fn average_age(events: &[&Event]) -> f64 {
    events.iter().map(|event| f64::from(event.age)).sum::<f64>() / events.len() as f64
}

/// A number that a query must give.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Exactly(f64),
    /// An age: beside what it was when the row was inserted, it holds what the relay took.
    AtLeast(f64),
}

struct Verdict<'a> {
    outcome: &'a mut Outcome,
    database: &'a str,
    slack: f64,
    shown: bool,
}

impl Verdict<'_> {
    /// The query gives one row of numbers.
    fn row(&mut self, query: &'static str, asked: &Asked, expected: &[Cell]) -> Result<()> {
        let rows = asked.rows(query)?;
        let [row] = rows.as_slice() else {
            return Err(Failure::new(format!("{query} gave {rows:?}, not one row")));
        };
        let numbers = numbers(row)?;
        let right = numbers.len() == expected.len()
            && numbers
                .iter()
                .zip(expected)
                .all(|(found, cell)| self.holds(*found, *cell));
        self.judge(query, json!(numbers), right, &format!("{expected:?}"));
        Ok(())
    }

    /// The query gives these events in this order, their ids first.
    fn ids(&mut self, query: &'static str, asked: &Asked, expected: &[&Event]) -> Result<()> {
        let found: Vec<&str> = asked
            .rows(query)?
            .iter()
            .filter_map(|row| Some(row.first()?.as_str()))
            .collect();
        let expected: Vec<&str> = expected.iter().map(|event| event.id.as_str()).collect();
        self.judge(
            query,
            json!(found.len()),
            found == expected,
            &format!("{expected:?}, not {found:?}"),
        );
        Ok(())
    }

    fn latency(&mut self, asked: &Asked, published: &[&Event]) -> Result<()> {
        let mut expected: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        for event in published {
            expected.entry(event.event_type).or_default().push(event);
        }
        let found = by_type(asked.rows("latency")?)?;
        let right = found.len() == expected.len()
            && found
                .iter()
                .zip(&expected)
                .all(|((name, seconds), (expected, events))| {
                    name == expected && self.holds(*seconds, Cell::AtLeast(average_age(events)))
                });
        let ages: Vec<_> = expected
            .iter()
            .map(|(name, events)| (name, average_age(events)))
            .collect();
        self.judge(
            "latency",
            json!(found),
            right,
            &format!("{ages:?} and at most {} more", self.slack),
        );
        Ok(())
    }

    /// Databases print an average with sixteen digits, and SQLite keeps times to the millisecond.
    fn holds(&self, found: f64, cell: Cell) -> bool {
        match cell {
            Cell::Exactly(number) => (found - number).abs() < 1e-9,
            Cell::AtLeast(age) => (age - 0.002..=age + self.slack + 0.002).contains(&found),
        }
    }

    fn judge(&mut self, query: &'static str, found: Value, right: bool, expected: &str) {
        let database = self.database;
        self.outcome.check(right, || {
            format!("{database}: {query} gave {found}, it must be {expected}")
        });
        if self.shown {
            self.outcome.figure(query, found);
        }
    }
}

fn numbers(row: &[String]) -> Result<Vec<f64>> {
    row.iter().map(|text| Ok(text.parse()?)).collect()
}

fn by_type(rows: &Rows) -> Result<BTreeMap<String, f64>> {
    let pair = |row: &Vec<String>| match row.as_slice() {
        [name, seconds] => Ok((name.clone(), seconds.parse()?)),
        _ => Err(Failure::new(format!("{row:?} is not a type and its seconds"))),
    };
    rows.iter().map(pair).collect()
}
