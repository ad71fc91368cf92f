//! Ownership: who may publish, by the database's clock.

use std::time::Duration;

use postrider_core::{Controls, Heartbeat, Lease, Limits, OrderKey, Shard, Standing, Suspect, Token};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use crate::error::Result;
use crate::ident::Tables;
use crate::{clock, row, schema, settle};

/// History rows that one heartbeat removes, so that an outbox that has gone quiet empties all the same.
const TRIMMED: usize = 500;

/// Registers or renews the relay, releases and claims shards, and answers with what it owns.
pub(crate) fn heartbeat(
    connection: &mut Connection,
    tables: &Tables,
    history: Option<Duration>,
    beat: &Heartbeat,
) -> Result<Standing> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = schema::check(&tx, tables)?.now;
    let book = Book { tx: &tx, tables, now };
    book.register(beat)?;
    let mut released = Vec::new();
    for (shard, token) in &beat.release {
        if book.release(beat, *shard, *token)? {
            released.push(*shard);
        }
    }
    book.reconcile(beat)?;
    book.note_suspects(beat)?;
    let share = if beat.claim { book.fair_share()? } else { 0 };
    if beat.claim {
        book.claim(beat, share, &released)?;
    }
    book.forget_relays()?;
    let standing = Standing {
        leases: book.leases(beat)?,
        share,
        shards: 1,
        controls: controls(&tx, tables)?,
    };
    settle::trim(&tx, tables, history, now, TRIMMED)?;
    tx.commit()?;
    Ok(standing)
}

/// One heartbeat's look at `outbox_shard` and `outbox_relay`.
struct Book<'a> {
    tx: &'a Transaction<'a>,
    tables: &'a Tables,
    now: i64,
}

/// A row of `outbox_shard`.
struct State {
    shard: Shard,
    owner: Option<String>,
    lease: Lease,
}

impl Book<'_> {
    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
        Ok(self.tx.prepare_cached(&self.tables.sql(sql))?.execute(values)?)
    }

    fn register(&self, beat: &Heartbeat) -> Result<()> {
        let expires = self.now.saturating_add(clock::micros(beat.term));
        self.execute(
            "INSERT INTO {outbox_relay} (relay, expires_at, in_flight, claims, version) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (relay) DO UPDATE SET expires_at = ?2, in_flight = ?3, claims = ?4",
            params![&*beat.relay.0, expires, beat.window, beat.claim, env!("CARGO_PKG_VERSION")],
        )?;
        Ok(())
    }

    /// Gives a shard up. That is a change of owner too: the token moves, and what the relay sends after it is fenced.
    fn release(&self, beat: &Heartbeat, shard: Shard, token: Token) -> Result<bool> {
        let changed = self.execute(
            "UPDATE {outbox_shard} SET owner = NULL, token = token + 1, maybe_sent = 0, unclean = 0, suspect = NULL
             WHERE shard = ?1 AND owner = ?2 AND token = ?3",
            params![shard.0, &*beat.relay.0, number(token)],
        )?;
        Ok(changed > 0)
    }

    /// Compares what the database gave with what the relay remembers. A difference means that an answer was lost: the
    /// shard is claimed anew, or let go by a relay that is stopping. The counts stay, because the relay never saw them.
    fn reconcile(&self, beat: &Heartbeat) -> Result<()> {
        for state in self.states()? {
            let owned = state.owner.as_deref() == Some(&*beat.relay.0);
            if owned && !beat.held.contains(&(state.shard, state.lease.token)) {
                self.execute(
                    "UPDATE {outbox_shard} SET token = token + 1, owner = iif(?2, owner, NULL), suspect = -abs(suspect)
                     WHERE shard = ?1",
                    params![state.shard.0, beat.claim],
                )?;
            }
        }
        Ok(())
    }

    /// Writes down what is about to be tried alone, for shards that the relay knows to be its own.
    fn note_suspects(&self, beat: &Heartbeat) -> Result<()> {
        for suspect in &beat.suspects {
            for (shard, token) in beat.held.iter().filter(|(shard, _)| *shard == suspect.shard) {
                self.execute(
                    // Another suspect has a count of its own: it is found guilty by its own ends, not by those of
                    // others.
                    "UPDATE {outbox_shard} SET suspect = ?4,
                        unclean = CASE WHEN abs(suspect) IS NOT ?4 THEN min(unclean, ?5) ELSE unclean END
                     WHERE shard = ?1 AND owner = ?2 AND token = ?3",
                    params![
                        shard.0,
                        &*beat.relay.0,
                        number(*token),
                        row::place(suspect.seq),
                        Suspect::COUNTS_FROM
                    ],
                )?;
            }
        }
        Ok(())
    }

    /// Shards divided by live relays, rounded up. A relay that is stopping does not count: what it gave up would find
    /// no taker until its row expires.
    fn fair_share(&self) -> Result<u16> {
        let sql = self.tables.sql(
            "SELECT (SELECT count(*) FROM {outbox_shard}),
                    (SELECT count(*) FROM {outbox_relay} WHERE claims = 1 AND expires_at > ?1)",
        );
        let (shards, live): (u16, u16) = self
            .tx
            .prepare_cached(&sql)?
            .query_row([self.now], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(shards.div_ceil(live.max(1)))
    }

    /// Claims shards that nobody owns or whose owner has expired, up to the share; not those given up in this very
    /// call, which are meant for others.
    fn claim(&self, beat: &Heartbeat, share: u16, released: &[Shard]) -> Result<()> {
        let states = self.states()?;
        let is_own = |state: &&State| state.owner.as_deref() == Some(&*beat.relay.0);
        let mut owned = states.iter().filter(is_own).count();
        for state in states.iter().filter(|state| !is_own(state)) {
            if owned >= usize::from(share) {
                break;
            }
            if !released.contains(&state.shard) && self.take(beat, state)? {
                owned += 1;
            }
        }
        Ok(())
    }

    /// The latest end of a lease that can be true. One further ahead was written before the clock was set back; waiting
    /// for it could take years.
    fn believable(&self, beat: &Heartbeat) -> i64 {
        let ahead = beat
            .term
            .saturating_mul(10)
            .saturating_add(Duration::from_secs(60));
        self.now.saturating_add(clock::micros(ahead))
    }

    /// Takes one shard if it may be taken. Taking it from an expired owner counts as unclean; of what the owner before
    /// that one had in hand, some may be unmarked still. A suspect that the new owner has not tried yet is negative:
    /// of a shard that needs care only the ends count at which its suspect was on trial.
    fn take(&self, beat: &Heartbeat, state: &State) -> Result<bool> {
        let changed = self.execute(
            "UPDATE {outbox_shard} SET token = token + 1, owner = ?2,
                    unclean = unclean + (owner IS NOT NULL AND (unclean < ?5 OR coalesce(suspect, 0) > 0)),
                    suspect = -abs(suspect),
                    maybe_sent = max(maybe_sent,
                        coalesce((SELECT in_flight FROM {outbox_relay} WHERE relay = owner), 0))
             WHERE shard = ?1
               AND NOT EXISTS (SELECT 1 FROM {outbox_relay}
                   WHERE relay = owner AND expires_at > ?3 AND expires_at <= ?4)",
            params![
                state.shard.0,
                &*beat.relay.0,
                self.now,
                self.believable(beat),
                Suspect::COUNTS_FROM
            ],
        )?;
        Ok(changed > 0)
    }

    /// Drops the rows of relays that are expired or stopping and own nothing. An owner's row stays: its window is
    /// needed at the takeover.
    fn forget_relays(&self) -> Result<()> {
        self.execute(
            "DELETE FROM {outbox_relay} WHERE (claims = 0 OR expires_at <= ?1)
               AND relay NOT IN (SELECT owner FROM {outbox_shard} WHERE owner IS NOT NULL)",
            [self.now],
        )?;
        Ok(())
    }

    fn leases(&self, beat: &Heartbeat) -> Result<Vec<Lease>> {
        let own = |state: State| (state.owner.as_deref() == Some(&*beat.relay.0)).then_some(state.lease);
        Ok(self.states()?.into_iter().filter_map(own).collect())
    }

    fn states(&self) -> Result<Vec<State>> {
        let sql = self.tables.sql(
            "SELECT shard, owner, token, maybe_sent, unclean, abs(suspect) FROM {outbox_shard} ORDER BY shard",
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| {
            let shard = Shard(row.get(0)?);
            Ok(State {
                shard,
                owner: row.get(1)?,
                lease: Lease {
                    shard,
                    token: token(row.get(2)?),
                    maybe_sent: row.get(3)?,
                    unclean: row.get(4)?,
                    suspect: row.get::<_, Option<i64>>(5)?.map(row::seq),
                },
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// A token as SQLite has it.
pub(crate) fn number(token: Token) -> i64 {
    i64::try_from(token.0).unwrap_or(i64::MAX)
}

/// A token as the core has it.
pub(crate) fn token(number: i64) -> Token {
    Token(u64::try_from(number).unwrap_or(0))
}

/// Limits, from a column on.
pub(crate) fn limits(row: &Row<'_>, from: usize) -> rusqlite::Result<Limits> {
    Ok(Limits {
        max_in_flight: Limits::stored(row.get(from)?),
        max_rate: Limits::stored(row.get(from + 1)?),
    })
}

fn controls(connection: &Connection, tables: &Tables) -> Result<Controls> {
    let sql = tables.sql(
        "SELECT destination, paused, max_in_flight, max_rate FROM {outbox_control} ORDER BY destination",
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut controls = Controls::default();
    while let Some(found) = rows.next()? {
        // Somebody may have written any bytes there, which must not stop the outbox.
        let name = row::lossy(found.get_ref(0)?);
        let paused: bool = found.get(1)?;
        let limits = limits(found, 2)?;
        controls.decide(&name, paused, limits);
    }
    let keys =
        tables.sql("SELECT order_key FROM {outbox_parked} WHERE seq < 0 AND lane = 0 ORDER BY seq LIMIT ?1");
    let mut statement = connection.prepare_cached(&keys)?;
    let limit = i64::try_from(Controls::KEYS).unwrap_or(i64::MAX);
    let keys = statement.query_map([limit], |found| Ok(row::lossy(found.get_ref(0)?)))?;
    controls.paused_keys = keys
        .map(|key| key.map(OrderKey::new))
        .collect::<rusqlite::Result<_>>()?;
    Ok(controls)
}
