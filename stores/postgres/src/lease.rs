//! Ownership: who may publish, by the database's clock. The steps are in the function `outbox_heartbeat`.

use postrider_core::{
    Controls, Heartbeat, Lease, Limits, OrderKey, Shard, Standing, StoreErrorKind, Suspect, Token,
};

use crate::clock;
use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::row;
use crate::session::Session;

const HEARTBEAT: &str = "SELECT share, leases, controls, (SELECT max(version) FROM {outbox_migrations}),
            (SELECT count(*) FROM {outbox_shard}),
            ARRAY(SELECT p.order_key FROM {outbox_parked} p WHERE p.seq < 0 AND p.lane = 0 ORDER BY p.seq LIMIT $13)
     FROM {outbox_heartbeat}($1, pg_catalog.make_interval(secs => $2), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

/// Registers or renews the relay, releases and claims shards, and answers with what it owns.
pub(crate) async fn heartbeat(session: &Session, tables: &Tables, beat: &Heartbeat) -> Result<Standing> {
    let (held_shards, held_tokens) = split(&beat.held);
    let (given_shards, given_tokens) = split(&beat.release);
    let suspects: Vec<i16> = beat.suspects.iter().map(|suspect| shard(suspect.shard)).collect();
    let places: Vec<i64> = beat
        .suspects
        .iter()
        .map(|suspect| row::place(suspect.seq))
        .collect();
    let rows = session
        .ask(
            "heartbeat",
            &tables.sql(HEARTBEAT),
            &[
                &row::storable(&beat.relay.0),
                &clock::seconds(beat.term),
                &beat.claim,
                &i64::from(beat.window),
                &env!("CARGO_PKG_VERSION"),
                &held_shards,
                &held_tokens,
                &given_shards,
                &given_tokens,
                &suspects,
                &places,
                &i32::try_from(Suspect::COUNTS_FROM).unwrap_or(i32::MAX),
                &i64::try_from(Controls::KEYS).unwrap_or(i64::MAX),
            ],
        )
        .await?;
    let answer = rows.first().ok_or_else(unreadable)?;
    crate::schema::check(answer.try_get::<_, Option<i32>>(3)?)?;
    let leases: Vec<&str> = answer.try_get(1)?;
    let controls: Vec<&str> = answer.try_get(2)?;
    Ok(Standing {
        leases: leases.into_iter().map(lease).collect::<Result<_>>()?,
        share: u16::try_from(answer.try_get::<_, i16>(0)?).unwrap_or(0),
        shards: u16::try_from(answer.try_get::<_, i64>(4)?).unwrap_or(u16::MAX),
        controls: Controls {
            paused_keys: answer
                .try_get::<_, Vec<&str>>(5)?
                .into_iter()
                .map(OrderKey::new)
                .collect(),
            ..controls_of(&controls)?
        },
    })
}

const DOUBT: &str = "UPDATE {outbox_shard} s
     SET token = greatest(s.token, h.token) + 1, maybe_sent = greatest(s.maybe_sent, $4)
     FROM unnest($2::smallint[], $3::bigint[]) h(shard, token) WHERE s.shard = h.shard AND s.owner = $1";

/// In another history than before, what the relay remembers of its shards is not believed: their tokens move past
/// those of either history, so that the heartbeat grants them anew, and what it has in hand may have been published.
pub(crate) async fn doubt(session: &Session, tables: &Tables, beat: &Heartbeat) -> Result<()> {
    let (shards, tokens) = split(&beat.held);
    let (me, window) = (row::storable(&beat.relay.0), i64::from(beat.window));
    session
        .ask("doubt", &tables.sql(DOUBT), &[&me, &shards, &tokens, &window])
        .await?;
    Ok(())
}

/// A shard as PostgreSQL has it.
pub(crate) fn shard(shard: Shard) -> i16 {
    i16::try_from(shard.0).unwrap_or(i16::MAX)
}

/// A token as PostgreSQL has it.
pub(crate) fn number(token: Token) -> i64 {
    i64::try_from(token.0).unwrap_or(i64::MAX)
}

/// Shards and tokens as two arrays.
pub(crate) fn split(leases: &[(Shard, Token)]) -> (Vec<i16>, Vec<i64>) {
    leases
        .iter()
        .map(|(of, token)| (shard(*of), number(*token)))
        .unzip()
}

/// `shard token maybe_sent unclean [suspect]`
fn lease(text: &str) -> Result<Lease> {
    let mut words = text.split(' ').map(str::parse::<i64>);
    let mut next = || words.next().and_then(std::result::Result::ok);
    let (Some(shard), Some(token), Some(maybe_sent), Some(unclean)) = (next(), next(), next(), next()) else {
        return Err(unreadable());
    };
    let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Lease {
        shard: Shard(u16::try_from(shard).unwrap_or(u16::MAX)),
        token: Token(u64::try_from(token).unwrap_or(0)),
        maybe_sent: count(maybe_sent),
        unclean: count(unclean),
        suspect: next().map(row::seq),
    })
}

/// `paused max_in_flight max_rate destination` each; a limit of -1 is none.
fn controls_of(lines: &[&str]) -> Result<Controls> {
    let mut controls = Controls::default();
    for line in lines {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().ok_or_else(unreadable);
        let paused = next()? == "1";
        let limit = |word: &str| Limits::stored(word.parse().ok());
        let limits = Limits {
            max_in_flight: limit(next()?),
            max_rate: limit(next()?),
        };
        controls.decide(words.next().unwrap_or(""), paused, limits);
    }
    Ok(controls)
}

fn unreadable() -> Error {
    Error::new(
        StoreErrorKind::Schema,
        "the answer to a heartbeat cannot be read: the functions are of another version",
    )
}
