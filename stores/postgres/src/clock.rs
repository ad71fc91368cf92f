//! Times as PostgreSQL sends them. The database's clock decides; nothing here looks at another.

use std::error::Error;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use postrider_core::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// From 1970 to 2000, where PostgreSQL begins to count.
const EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz` in microseconds since 1970. `infinity` becomes a time outside every calendar, so that a row with
/// it is refused by the checks of the core, where the types of other crates would fail the whole read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Micros(pub(crate) i64);

impl From<Micros> for Timestamp {
    fn from(time: Micros) -> Self {
        Timestamp(time.0)
    }
}

impl From<Timestamp> for Micros {
    fn from(time: Timestamp) -> Self {
        Micros(time.0)
    }
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let number = i64::from_be_bytes(raw.try_into()?);
        Ok(Micros(number.saturating_add(EPOCH)))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Micros {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0.saturating_sub(EPOCH));
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// How long it is from one time to another; nothing when it has passed.
pub(crate) fn until(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// A duration in microseconds, within what an interval of PostgreSQL holds.
pub(crate) fn micros(duration: Duration) -> i64 {
    const CENTURIES: i64 = 10 * 100 * 366 * 24 * 3_600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(CENTURIES, |micros| micros.min(CENTURIES))
}

/// A duration in seconds, within the same.
pub(crate) fn seconds(duration: Duration) -> f64 {
    Duration::from_micros(micros(duration).unsigned_abs()).as_secs_f64()
}

/// A moment as SQL, within the calendar.
pub(crate) fn moment(at: i64) -> String {
    const AGES: i64 = 60_000_000_000_000_000;
    let at = at.clamp(-AGES, 4 * AGES);
    format!("timestamptz 'epoch' + {at} * interval '1 microsecond'")
}
