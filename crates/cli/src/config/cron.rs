//! When something is done: six fields as cron has them, in UTC.

use std::str::FromStr;

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use postrider_core::Timestamp;
use serde::de::{Deserialize, Deserializer};

use super::scalar::{Scalar, scalar, shown};

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The longest time without a 29th of February is eight years, and one weekday of it comes within forty.
const HORIZON: i32 = 41 * 366;

/// Second, minute, hour, day of the month, month and day of the week, each as the set of its values. A moment is meant
/// when all six hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

impl Cron {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The last moment at or before this one; none in the years that the calendar has.
    pub fn last_before(&self, at: Timestamp) -> Option<Timestamp> {
        let (date, second) = civil(at)?;
        let mut limit = second;
        let mut day = date;
        for _ in 0..HORIZON {
            if self.is_day(day)
                && let Some(found) = self.last_second(limit)
            {
                return moment(day, found);
            }
            day = day.yesterday().ok()?;
            limit = 86_399;
        }
        None
    }

    /// The first moment after this one; none in the years that the calendar has.
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        let (date, second) = civil(at)?;
        let mut least = second + 1;
        let mut day = date;
        for _ in 0..HORIZON {
            if self.is_day(day)
                && let Some(found) = self.first_second(least)
            {
                return moment(day, found);
            }
            day = day.tomorrow().ok()?;
            least = 0;
        }
        None
    }

    fn is_day(&self, day: Date) -> bool {
        let weekday = i64::from(day.weekday().to_sunday_zero_offset());
        has(self.days, i64::from(day.day()))
            && has(self.months, i64::from(day.month()))
            && has(self.weekdays, weekday)
    }

    fn is_second(&self, second: i64) -> bool {
        has(self.hours, second / 3_600)
            && has(self.minutes, second / 60 % 60)
            && has(self.seconds, second % 60)
    }

    fn last_second(&self, at_most: i64) -> Option<i64> {
        (0..=at_most).rev().find(|second| self.is_second(*second))
    }

    fn first_second(&self, at_least: i64) -> Option<i64> {
        (at_least..86_400).find(|second| self.is_second(*second))
    }
}

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!(
                "must have six fields: second, minute, hour, day of the month, month and day of the week, such as \
                 \"0 0 3 * * *\", is {}",
                shown(text)
            ));
        };
        let cron = Self {
            text: fields.join(" "),
            seconds: field("second", second, 0..=59, &[])?,
            minutes: field("minute", minute, 0..=59, &[])?,
            hours: field("hour", hour, 0..=23, &[])?,
            days: field("day of the month", day, 1..=31, &[])?,
            months: field("month", month, 1..=12, &MONTHS)?,
            weekdays: weekdays(field("day of the week", weekday, 0..=7, &DAYS)?),
        };
        match cron.next_after(Timestamp(0)) {
            Some(_) => Ok(cron),
            None => Err("names a day that never comes".to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a schedule such as \"0 0 3 * * *\"",
            |value| match value {
                Scalar::Text(text) => text.parse(),
                _ => Err("must be text such as \"0 0 3 * * *\"".to_owned()),
            },
        )
    }
}

/// The set of one field: `*`, values, ranges, lists of them, and steps.
fn field(
    what: &str,
    text: &str,
    range: std::ops::RangeInclusive<i64>,
    names: &[&str],
) -> Result<u64, String> {
    let wrong = || {
        format!(
            "the {what} must be `*`, numbers from {} to {}, ranges such as 1-5, lists of them or steps such as */15, \
             is {}",
            range.start(),
            range.end(),
            shown(text)
        )
    };
    let value = |text: &str| -> Option<i64> {
        let lower = text.to_ascii_lowercase();
        let named = names.iter().position(|name| *name == lower);
        let number = match named {
            Some(place) => i64::try_from(place).ok()? + if names.len() == 12 { 1 } else { 0 },
            None => text.parse().ok()?,
        };
        range.contains(&number).then_some(number)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (span, step) = part.split_once('/').unwrap_or((part, "1"));
        let step: usize = step.parse().ok().filter(|step| *step > 0).ok_or_else(wrong)?;
        let (first, last) = match span.split_once('-') {
            _ if span == "*" => (*range.start(), *range.end()),
            Some((first, last)) => (value(first).ok_or_else(wrong)?, value(last).ok_or_else(wrong)?),
            None => {
                let first = value(span).ok_or_else(wrong)?;
                // `5/10` means from 5 on, as everywhere.
                (first, if part.contains('/') { *range.end() } else { first })
            }
        };
        if first > last {
            return Err(wrong());
        }
        (first..=last).step_by(step).for_each(|value| set |= 1 << value);
    }
    Ok(set)
}

/// Seven is Sunday too.
fn weekdays(set: u64) -> u64 {
    set | (set >> 7 & 1)
}

fn has(set: u64, value: i64) -> bool {
    set >> value & 1 == 1
}

/// The day and the second of a moment in UTC.
fn civil(at: Timestamp) -> Option<(Date, i64)> {
    let seconds = at.0.div_euclid(1_000_000);
    let epoch = jiff::civil::date(1970, 1, 1);
    let days = i32::try_from(seconds.div_euclid(86_400)).ok()?;
    let date = epoch.checked_add(days.days()).ok()?;
    Some((date, seconds.rem_euclid(86_400)))
}

fn moment(day: Date, second: i64) -> Option<Timestamp> {
    let midnight = day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    Some(Timestamp(midnight + second * 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T11:30:00Z, a Monday.
    const MONDAY: i64 = 1_794_828_600;

    fn at(second: i64) -> Timestamp {
        Timestamp(second * 1_000_000)
    }

    #[test]
    fn known_moments() {
        for (text, last, next) in [
            ("0 0 3 * * *", "2026-11-16T03:00:00", "2026-11-17T03:00:00"),
            ("0 30 11 * * *", "2026-11-16T11:30:00", "2026-11-17T11:30:00"),
            ("*/15 * * * * *", "2026-11-16T11:30:00", "2026-11-16T11:30:15"),
            ("0 0 12 * * sun,Wed", "2026-11-15T12:00:00", "2026-11-18T12:00:00"),
            ("0 0 0 1 jan-mar *", "2026-03-01T00:00:00", "2027-01-01T00:00:00"),
            ("0 0 0 29 2 *", "2024-02-29T00:00:00", "2028-02-29T00:00:00"),
            (
                "5/20 0 8-10/2 * * 1-5",
                "2026-11-16T10:00:45",
                "2026-11-17T08:00:05",
            ),
        ] {
            let cron: Cron = text.parse().unwrap();
            let shown = |moment: Option<Timestamp>| moment.unwrap().to_string();
            assert!(shown(cron.last_before(at(MONDAY))).starts_with(last), "{text}");
            assert!(shown(cron.next_after(at(MONDAY))).starts_with(next), "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            "",
            "0 3 * * *",
            "0 0 3 * * * *",
            "60 0 3 * * *",
            "0 0 24 * * *",
            "0 0 3 0 * *",
            "0 0 3 * 13 *",
            "0 0 3 * * 8",
            "0 0 3 30 feb *",
            "0 0 5-3 * * *",
            "0 */0 3 * * *",
            "0 0 3 * * someday",
        ] {
            assert!(text.parse::<Cron>().is_err(), "{text}");
        }
    }

    #[test]
    fn both_ways_agree_with_looking_at_every_second() {
        for text in ["*/7 */13 * * * *", "0 59 23 * * *", "30 0 0,12 * 11 mon-wed"] {
            let cron: Cron = text.parse().unwrap();
            let is_meant = |second: i64| {
                let (day, of_day) = civil(at(second)).unwrap();
                cron.is_day(day) && cron.is_second(of_day)
            };
            for from in (MONDAY..MONDAY + 100_000).step_by(33_331) {
                let next = (from + 1..).find(|second| is_meant(*second));
                assert_eq!(cron.next_after(at(from)), next.map(at), "{text} from {from}");
                let last = (0..=from).rev().find(|second| is_meant(*second));
                assert_eq!(cron.last_before(at(from)), last.map(at), "{text} from {from}");
            }
        }
    }
}
