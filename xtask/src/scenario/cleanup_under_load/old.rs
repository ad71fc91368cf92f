//! Days of old history, the oldest first, and a few parked rows.

use crate::failure::Result;
use crate::scenario::operated::Operated;
use crate::scenario::pg_measure::days_of_history;

/// Parked rows, which nothing may touch.
pub(super) const PARKED: u64 = 10;
/// A term that nothing is past, in days.
pub(super) const LONG: u64 = 60;
/// The youngest old day is so many days back: two more than the shortest term, because a day goes when its last moment
/// is past the term.
const YOUNGEST: u64 = 4;

/// So many days with so many rows each.
pub(super) struct Days {
    pub(super) count: u64,
    pub(super) rows: u64,
}

impl Days {
    pub(super) fn all(&self) -> u64 {
        self.count * self.rows
    }

    /// The term of a turn, in days. Where whole days are dropped, one more day is past it than at the turn before; on a
    /// file, where all goes row by row, every day is.
    pub(super) fn due(&self, store: &str, turn: u64) -> u64 {
        let last = self.count - 1;
        let day = match store {
            "postgres" => turn.min(last),
            _ => last,
        };
        self.back(day) - 2
    }

    /// How many days ago that was.
    fn back(&self, turn: u64) -> u64 {
        YOUNGEST + self.count - 1 - turn
    }

    /// Writes everything, and lets the database come to rest.
    pub(super) fn fill(&self, outbox: &Operated<'_>) -> Result<()> {
        let is_postgres = outbox.store() == "postgres";
        if is_postgres {
            outbox.sql(&days_of_history(self.back(self.count - 1), self.back(0)))?;
        }
        for turn in 0..self.count {
            let (first, last) = (turn * self.rows + 1, (turn + 1) * self.rows);
            let sql = match is_postgres {
                true => postgres(self.back(turn), first, last),
                false => sqlite(self.back(turn), first, last),
            };
            outbox.sql(&sql)?;
        }
        let rest = match is_postgres {
            true => postgres_rest(self.all()),
            false => sqlite_rest(self.all()),
        };
        outbox.sql(&rest).map(drop)
    }
}

/// Old rows that are left.
pub(super) fn left(outbox: &Operated<'_>) -> Result<u64> {
    let of = |table: &str| {
        outbox.number(&format!(
            "SELECT count(*) FROM {table} WHERE event_id LIKE 'old-%'"
        ))
    };
    Ok(of("outbox_sent")? + of("outbox_restored")?)
}

const COLUMNS: &str =
    "seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload, enqueued_at, outcome,
     published_at, attempts, failures";

/// Half of a day in its partition, which goes at once, and half read back from an archive, which goes row by row.
fn postgres(back: u64, first: u64, last: u64) -> String {
    let (middle, hours) = (first.midpoint(last), past_term(back));
    let columns = "n, 'only', 'old-' || n, 'OrderCreated', 'ORDER', (n % 5000)::text,
         '{\"pad\":\"' || repeat('x', 220) || '\"}', at, 'published', at, 0, 0";
    format!(
        "INSERT INTO outbox_sent ({COLUMNS}) SELECT {columns}
         FROM (SELECT n, ((now() AT TIME ZONE 'UTC')::date - {back} + time '12:00') AT TIME ZONE 'UTC' AS at
               FROM generate_series({first}, {middle}) n) s;
         INSERT INTO outbox_restored (job_id, restored_at, {COLUMNS})
         SELECT 'a job that is over', at, {columns}
         FROM (SELECT n, now() - interval '{hours} hours' AS at FROM generate_series({middle} + 1, {last}) n) s"
    )
}

fn postgres_rest(rows: u64) -> String {
    format!(
        "SELECT setval('outbox_seq', {rows} + 100);
         INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
             enqueued_at, updated_at)
         SELECT {rows} + n, 'only', 0, 0, 'P' || n, md5('P' || n)::uuid, 'parked-' || n, 'OrderCreated', 'ORDER',
             'P' || n, '{{}}', 1, true, now(), 0, 1, false, now() - interval '30 days', now()
         FROM generate_series(1, {PARKED}) n;
         VACUUM ANALYZE outbox_sent;
         VACUUM ANALYZE outbox_restored;
         CHECKPOINT"
    )
}

fn sqlite(back: u64, first: u64, last: u64) -> String {
    let hours = past_term(back);
    format!(
        "INSERT INTO outbox_sent ({COLUMNS})
         SELECT n, 'only', 'old-' || n, 'OrderCreated', 'ORDER', CAST(n % 5000 AS TEXT),
             '{{\"pad\":\"' || printf('%.*c', 220, 'x') || '\"}}', at, 'published', at, 0, 0
         FROM (WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last})
               SELECT n, unixepoch() * 1000000 - {hours} * 3600000000 AS at FROM s)"
    )
}

fn sqlite_rest(rows: u64) -> String {
    format!(
        "INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox', {rows} + 100);
         INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, event_type, aggregate_type,
             aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent, enqueued_at,
             updated_at)
         SELECT {rows} + n, 'only', 0, 'P' || n, 'parked-' || n, 'OrderCreated', 'ORDER', 'P' || n, '{{}}', 1, 1, 0, 0,
             1, 0, unixepoch() * 1000000 - 30 * 86400000000, 0
         FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {PARKED}) SELECT n FROM s);
         PRAGMA wal_checkpoint(TRUNCATE)"
    )
}

/// The age in hours of what goes row by row: past the term of its turn, and of no turn before.
fn past_term(back: u64) -> u64 {
    back * 24 - 36
}
