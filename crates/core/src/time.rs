//! How a time is written.

use std::fmt;

use crate::Timestamp;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// RFC 3339 in UTC with six digits of the second: `2026-11-15T21:36:00.000000Z`. Always the same length, so that text
/// order is time order. Years beyond 9999, which the RFC cannot write, carry a sign as in ISO 8601.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(MICROS_PER_SECOND);
        let micros = self.0.rem_euclid(MICROS_PER_SECOND);
        let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        match year {
            0..=9999 => write!(f, "{year:04}")?,
            _ => write!(f, "{year:+05}")?,
        }
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(
            f,
            "-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        )
    }
}

/// Year, month and day of a number of days since 1970, by Howard Hinnant's `civil_from_days`: years that begin in March
/// put the leap day last, and 400 of them always have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use crate::Timestamp;

    #[test]
    fn known_times_are_written_as_others_write_them() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_794_778_560_000_001, "2026-11-15T21:36:00.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(Timestamp(extreme).to_string().ends_with('Z'));
        }
    }
}
