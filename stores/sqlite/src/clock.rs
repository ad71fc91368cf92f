//! Times: the database's own clock, and what producers write into `available_at` and `created_at`.

use std::time::Duration;

use jiff::civil::DateTime;
use postrider_core::Timestamp;
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

/// Microseconds since 1970 by the database's clock, which has milliseconds.
///
/// Producers in other languages run this as the default of a column, with whatever SQLite they bring along;
/// `unixepoch('subsec')` would be shorter but fails before 3.42.
pub(crate) const NOW: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000";

/// Where times are counted from.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Asks the database for the time.
pub(crate) fn now(connection: &Connection) -> rusqlite::Result<i64> {
    let mut statement = connection.prepare_cached(&format!("SELECT {NOW}"))?;
    statement.query_row([], |row| row.get(0))
}

/// The SQL for a column of microseconds as text in the form of `datetime('now')`.
pub(crate) fn iso(column: &str) -> String {
    format!("strftime('%Y-%m-%d %H:%M:%f', {column} / 1000000.0, 'unixepoch')")
}

/// The SQL for when the event in a table was made: what the producer wrote, read as [`parse`] reads it, or else when
/// the row was inserted. It never fails, because a view that one bad row can break is of no use to monitoring.
pub(crate) fn created(table: &str) -> String {
    let given = format!("{table}.created_at");
    let form = "'%Y-%m-%d %H:%M:%f'";
    let number = format!(
        "strftime({form}, CASE WHEN {given} BETWEEN -1e11 AND 1e11 THEN {given} * 1.0 \
         WHEN {given} BETWEEN -1e14 AND 1e14 THEN {given} / 1e3 ELSE {given} / 1e6 END, 'unixepoch')"
    );
    format!(
        "coalesce(CASE typeof({given}) WHEN 'text' THEN strftime({form}, {given}) WHEN 'integer' THEN {number} \
         WHEN 'real' THEN CASE WHEN {given} BETWEEN 0 AND 5373484.5 THEN strftime({form}, {given}) \
         ELSE {number} END END, {})",
        iso(&format!("{table}.enqueued_at"))
    )
}

/// A duration as the microseconds that columns hold.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How long from `from` until `to`; zero when it has passed.
pub(crate) fn until(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// What our own producers write: RFC 3339 in UTC, which people read and SQLite's date functions understand.
/// A time outside the calendar stays a number, so that it is never lost.
pub(crate) fn text(time: Timestamp) -> Result<String, i64> {
    let text = time.to_string();
    match text.starts_with(['+', '-']) {
        false => Ok(text),
        true => Err(time.0),
    }
}

/// The same as a value for a column of any type.
pub(crate) fn stored(time: Timestamp) -> Value {
    text(time).map_or_else(Value::Integer, Value::Text)
}

/// Reads what a producer wrote. Total: a value that is not a time is an error with a reason, which parks the row.
///
/// Text is ISO 8601, with an offset or in UTC. Numbers are what drivers and `unixepoch()` write: seconds, milliseconds
/// or microseconds since 1970, told apart by their size, which is unambiguous from 1973 to 5138; a real number below
/// 5,373,484.5 is a Julian day, as SQLite itself has it.
pub(crate) fn parse(value: ValueRef<'_>) -> Result<Option<Timestamp>, String> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(Timestamp(scale(number)))),
        ValueRef::Real(number) => real(number).map(Some),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => parse_text(text).map(Some),
            Err(_) => Err("is not valid UTF-8".into()),
        },
        ValueRef::Blob(_) => Err("is binary, not a time".into()),
    }
}

fn scale(number: i64) -> i64 {
    match number {
        -100_000_000_000..=100_000_000_000 => number.saturating_mul(1_000_000),
        -100_000_000_000_000..=100_000_000_000_000 => number.saturating_mul(1_000),
        _ => number,
    }
}

fn real(number: f64) -> Result<Timestamp, String> {
    let micros = match number {
        n if !n.is_finite() => return Err("is not a finite number".into()),
        n if (0.0..5_373_484.5).contains(&n) => (n - 2_440_587.5) * 86_400_000_000.0,
        n if n.abs() <= 1e11 => n * 1e6,
        n if n.abs() <= 1e14 => n * 1e3,
        n => n,
    };
    // A cast of a float saturates, so no number can overflow here.
    Ok(Timestamp(micros.round() as i64))
}

fn parse_text(text: &str) -> Result<Timestamp, String> {
    let stamp = text
        .parse::<jiff::Timestamp>()
        .map(|stamp| stamp.as_microsecond());
    let micros = stamp.or_else(|_| {
        // Without an offset it is UTC, as with SQLite's own `datetime('now')`. The calendar of `jiff::Timestamp` ends a
        // day before the year 9999 does, and its last second is what many write for "never".
        let civil = text
            .strip_suffix(['Z', 'z'])
            .unwrap_or(text)
            .parse::<DateTime>()?;
        let micros = civil.duration_since(EPOCH).as_micros();
        Ok::<_, jiff::Error>(i64::try_from(micros).unwrap_or(i64::MAX))
    });
    match micros {
        Ok(micros) => Ok(Timestamp(micros)),
        Err(_) => Err(format!(
            "is not a time such as 2026-01-31T12:00:00Z: {:?}",
            text.chars().take(40).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<i64, String> {
        parse(ValueRef::Text(text.as_bytes())).map(|time| time.unwrap().0)
    }

    #[test]
    fn text_in_the_forms_that_people_write() {
        let noon = 1_767_268_800_000_000;
        for good in [
            "2026-01-01T12:00:00Z",
            "2026-01-01 12:00:00",
            "2026-01-01 12:00:00.000",
            "2026-01-01T14:00:00+02:00",
            "2026-01-01 14:00:00+02:00",
            "2026-01-01T12:00",
        ] {
            assert_eq!(of(good), Ok(noon), "{good}");
        }
        assert_eq!(of("2026-01-01"), Ok(noon - 12 * 3_600_000_000));
        assert_eq!(of("2026-01-01T12:00:00.123456Z"), Ok(noon + 123_456));
        for never in ["9999-12-31T23:59:59Z", "9999-12-31 23:59:59"] {
            assert_eq!(of(never), Ok(253_402_300_799_000_000), "{never}");
        }
        assert_eq!(
            text(Timestamp(253_402_300_799_000_000)).unwrap(),
            "9999-12-31T23:59:59.000000Z"
        );
        for bad in [
            "",
            "now",
            "tomorrow",
            "2026-13-01",
            "12:00",
            "1767268800",
            "2026-02-30 00:00:00",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_every_common_unit() {
        let noon = Timestamp(1_767_268_800_000_000);
        for number in [1_767_268_800, 1_767_268_800_000, 1_767_268_800_000_000] {
            assert_eq!(parse(ValueRef::Integer(number)), Ok(Some(noon)));
        }
        assert_eq!(
            parse(ValueRef::Real(1_767_268_800.5)),
            Ok(Some(Timestamp(noon.0 + 500_000)))
        );
        assert_eq!(parse(ValueRef::Real(2_461_042.0)), Ok(Some(noon)));
        for number in [i64::MIN, i64::MAX, 0, -1] {
            assert!(parse(ValueRef::Integer(number)).is_ok());
        }
        assert!(parse(ValueRef::Real(f64::NAN)).is_err());
        assert!(parse(ValueRef::Real(f64::MAX)).is_ok());
        assert!(parse(ValueRef::Blob(b"2026")).is_err());
        assert_eq!(parse(ValueRef::Null), Ok(None));
    }

    #[test]
    fn what_we_write_we_read_back() {
        for micros in [
            0,
            1,
            -1,
            1_767_268_800_123_456,
            253_402_207_200_000_000,
            i64::MAX,
            i64::MIN,
        ] {
            let back = match text(Timestamp(micros)) {
                Ok(text) => of(&text).unwrap(),
                Err(number) => parse(ValueRef::Integer(number)).unwrap().unwrap().0,
            };
            assert_eq!(back, micros);
        }
    }

    #[test]
    fn the_clock_of_the_database_is_the_time_of_day() {
        let connection = Connection::open_in_memory().unwrap();
        let now = now(&connection).unwrap();
        assert!((now - Timestamp::now().0).abs() < 5_000_000);
    }
}
