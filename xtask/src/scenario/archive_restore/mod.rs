//! [archive-restore] Published events are archived, verified, removed, restored and replayed, in the database they came
//! from and in another one: what arrives is what was written, byte for byte. The archive and both restores are killed
//! at their work and given again; bits of the files change, and each is found.

mod arrival;
mod compared;
mod dice;
mod flips;
mod hostile;
mod restored;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postrider_testkit::ledger::Ledger;
use serde_json::Value;

use self::flips::{Flips, files, flips};
use self::hostile::{COLUMNS, Hostile};
use self::restored::{Restored, bring_back, compare};
use super::operated::{Operated, STORES};
use super::outcome::Outcome;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(600);
const RAW: &str = "envelope = \"raw\"";
/// Rows of one statement.
const INSERT: u64 = 200;
/// Often enough to kill a process that lives for some tens of milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How much there is of everything.
struct Size {
    events: u64,
    keys: u64,
    /// Every so many-th event is large.
    large: u64,
    flips: u64,
}

/// What one store was seen to do.
struct Kept {
    archived: u64,
    bytes: u64,
    kills: u64,
    /// How long the run after the last kill took.
    resumed: Duration,
    /// Rows of the history after it was purged.
    left: u64,
    flips: Flips,
    /// Jobs that restores of changed archives began.
    begun: usize,
    /// In the same database, and in another.
    restored: [Restored; 2],
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let size = Size {
        events: stage.size(100_000, 4_000),
        keys: stage.size(1_000, 50),
        large: stage.size(500, 400),
        flips: stage.size(40, 12),
    };
    let mut ledger = Ledger::new();
    let mut all = Vec::new();
    for store in STORES {
        all.push((store, keep(stage, store, &size, &mut ledger)?));
    }
    let mut outcome = Outcome::of(ledger.report());
    let sum = |number: fn(&Kept) -> u64| all.iter().map(|(_, one)| number(one)).sum::<u64>();
    outcome.figure("archived", sum(|one| one.archived));
    outcome.figure("archive_mib", sum(|one| one.bytes) >> 20);
    outcome.figure("kills", sum(|one| one.kills));
    let resumed = all.iter().map(|(_, one)| one.resumed.as_millis() as u64);
    outcome.figure("resumed_ms", resumed.collect::<Vec<_>>());
    outcome.figure("flips", sum(|one| one.flips.tried));
    outcome.figure("flips_found", sum(|one| one.flips.found));
    outcome.figure("flips_refused", sum(|one| one.flips.refused));
    let restores = || all.iter().flat_map(|(_, one)| &one.restored);
    let killed_at: Vec<u64> = restores().map(|one| one.killed_at).collect();
    outcome.figure("restore_killed_at", killed_at);
    outcome.figure("restored", restores().map(|one| one.rows).sum::<u64>());
    outcome.figure("identical", restores().map(|one| one.identical).sum::<u64>());
    outcome.figure("different", restores().map(|one| one.different).sum::<u64>());
    for (store, one) in &all {
        judge(&mut outcome, stage, store, size.events, one);
    }
    Ok(outcome)
}

fn judge(outcome: &mut Outcome, stage: &Stage, store: &str, events: u64, one: &Kept) {
    // At the reduced size it may be over before it can be killed.
    outcome.check(one.kills > 0 || stage.reduced, || {
        format!("{store}: the archive was written before it could be killed")
    });
    let rows = (one.archived, one.left);
    outcome.check(rows == (events, 0), || {
        format!("{store}: (archived, left) is {rows:?} of {events}")
    });
    let Flips {
        tried,
        found,
        refused,
    } = one.flips;
    outcome.check((found, refused) == (tried, tried) && tried > 0, || {
        format!("{store}: of {tried} changed bits {found} were found and {refused} not restored from")
    });
    outcome.check(one.begun == 0, || {
        format!("{store}: {} jobs were begun on changed archives", one.begun)
    });
    for (place, restored) in ["the same database", "another database"]
        .iter()
        .zip(&one.restored)
    {
        let at = restored.killed_at;
        outcome.check(at > 0 && at < events, || {
            format!("{store}, {place}: the restore was killed at {at} of {events}, not in the middle")
        });
        let rows = (restored.rows, restored.identical, restored.different);
        outcome.check(rows == (events, events, 0), || {
            format!("{store}, {place}: (restored, identical, different) is {rows:?} of {events}")
        });
        outcome.check(restored.among_copies.is_clean(), || {
            format!("{store}, {place}, among copies: {}", restored.among_copies)
        });
    }
}

fn keep(stage: &Stage, store: &'static str, size: &Size, ledger: &mut Ledger) -> Result<Kept> {
    let outbox = Operated::open(stage, store, store)?;
    outbox.route_to(RAW)?;
    let half = size.events / 2;
    stage.note(&format!("{store}: {half} events are published and archived"));
    let mut events = publish(&outbox, store, 0..half, size, 2)?;
    write(&outbox, "90m")?;
    stage.note(&format!("{store}: as many again, and the archive is killed"));
    events.extend(publish(&outbox, store, half..size.events, size, 1)?);
    let archive = outbox.directory().join("archive/shop");
    let mut kills = 0;
    for point in [Point::Begun, Point::Part] {
        kills += u64::from(kill_at(&outbox, &archive, point)?);
    }
    let began = Instant::now();
    write(&outbox, "30m")?;
    let resumed = began.elapsed();
    let verified = last(&outbox, &["archive", "verify", "--dir", "archive"])?;
    let bytes = files(&archive)?
        .into_iter()
        .map(|file| Ok(fs::metadata(file)?.len()));
    let bytes = bytes.sum::<Result<u64>>()?;

    outbox.ends(&["purge", "--older-than", "1m", "--yes"], 0)?;
    let left = outbox.number("SELECT count(*) FROM outbox_sent")?;
    stage.note(&format!("{store}: {} bits are changed", size.flips));
    let flips = flips(&outbox, &archive, size.flips)?;
    let begun = outbox.values(&["job", "list"])?.len();

    stage.note(&format!("{store}: restoring and replaying"));
    let dir = outbox.directory().join("archive");
    let same = bring_back(&outbox, &dir)?;
    stage.note(&format!("{store}: the same in another database"));
    let other = Operated::open(stage, store, &format!("{store}-other"))?;
    other.route_to(RAW)?;
    let another = bring_back(&other, &dir)?;

    events
        .iter()
        .try_for_each(|event| ledger.commit(&event.committed()))?;
    let same = compare(&outbox, &outbox, same, &events, ledger)?;
    // What arrived first is counted once.
    let another = compare(&outbox, &other, another, &events, &mut Ledger::new())?;
    Ok(Kept {
        archived: verified["rows"].as_u64().unwrap_or(0),
        bytes,
        kills,
        resumed,
        left,
        flips,
        begun,
        restored: [same, another],
    })
}

/// Writes events and lets them be published, and makes that so long ago: the archive leaves alone what is new.
fn publish(
    outbox: &Operated<'_>,
    store: &str,
    places: std::ops::Range<u64>,
    size: &Size,
    hours_ago: u64,
) -> Result<Vec<Hostile>> {
    let events: Vec<Hostile> = places
        .map(|place| Hostile::at(store, place, size.keys, size.large))
        .collect();
    for some in events.chunks(INSERT as usize) {
        let rows: Vec<String> = some.iter().map(|event| event.values(store)).collect();
        outbox.sql(&format!(
            "INSERT INTO outbox ({COLUMNS}) VALUES {}",
            rows.join(",\n")
        ))?;
    }
    outbox.ends(&["run", "--until-empty"], 0)?;
    outbox.age(hours_ago)?;
    Ok(events)
}

fn write(outbox: &Operated<'_>, older_than: &str) -> Result<Value> {
    last(
        outbox,
        &["archive", "write", "--dir", "archive", "--older-than", older_than],
    )
}

/// The last line that a command prints.
fn last(outbox: &Operated<'_>, arguments: &[&str]) -> Result<Value> {
    let last = outbox.values(arguments)?.pop();
    last.ok_or_else(|| Failure::new(format!("{arguments:?} printed nothing")))
}

/// When the archive is killed.
#[derive(Clone, Copy, PartialEq)]
enum Point {
    /// Its folder is there.
    Begun,
    /// A file is in it.
    Part,
}

/// Kills the archive at its work; false if it was over before. What it leaves must not look like an archive.
fn kill_at(outbox: &Operated<'_>, archive: &Path, point: Point) -> Result<bool> {
    let before = last(outbox, &["archive", "verify", "--dir", "archive"])?;
    let mut writing = outbox.start(&["archive", "write", "--dir", "archive", "--older-than", "30m"])?;
    until_every(LOOK_EVERY, "the archive is being written", PATIENCE, || {
        let is_there = unfinished(archive)?.is_some_and(|folder| match point {
            Point::Begun => true,
            Point::Part => fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()),
        });
        Ok((is_there || writing.ended()?.is_some()).then_some(()))
    })?;
    writing.kill()?;
    let is_left = unfinished(archive)?.is_some();
    let after = last(outbox, &["archive", "verify", "--dir", "archive"])?;
    if is_left && after["rows"] != before["rows"] {
        return Err(Failure::new(format!(
            "a killed archive left {after}, before it was {before}"
        )));
    }
    Ok(is_left)
}

fn unfinished(archive: &Path) -> Result<Option<PathBuf>> {
    for folder in fs::read_dir(archive)? {
        let path = folder?.path();
        if path.extension().is_some_and(|end| end == "unfinished") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
