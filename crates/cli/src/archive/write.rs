//! Writing what was published in a time into a folder of its own.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use postrider_core::{Claim, Cursor, Duty, HistoryAsk, HistoryRow, JobId, RelayId, Timestamp};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::line;
use super::manifest::{
    self, Folder, LOCK, LOST, Manifest, NAME, Part, UNFINISHED, hex_of, is_plain_file, place_of, unreadable,
};
use super::verify::{self, damaged};
use crate::failure::Failure;
use crate::leave::Leave;
use crate::wire::Opened;

/// Rows of one file.
const ROWS: usize = 50_000;
/// Bytes of lines in one file, compressed later.
const BYTES: usize = 64 << 20;
/// What is asked of the database at a time.
const PAGE: u32 = 1_000;
const PAGE_BYTES: u64 = 8 << 20;

/// Settles that were under way have ended by then.
pub const SETTLED: Duration = Duration::from_secs(60);

/// What a run wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub rows: u64,
    /// None where there was nothing to write.
    pub folder: Option<PathBuf>,
    /// Where that folder ends.
    pub until: Option<Timestamp>,
}

/// Until when the archive of an outbox covers its history; none: there is none yet. History is removed because it says
/// so: an archive that has lost a file, or a folder between others, says nothing.
pub fn archived_until(dir: &Path, outbox: &str) -> Result<Option<Timestamp>, Failure> {
    let dir = dir.join(outbox);
    let last = last_folder(&dir, outbox)?;
    let mut before: Option<Folder> = None;
    for path in manifest::folders(&dir)? {
        let folder = manifest::open(&path)?;
        folder.is_complete()?;
        if let Some(gap) = before.as_ref().and_then(|before| verify::gap(before, &folder)) {
            return Err(Failure::found(gap).advice(LOST));
        }
        before = Some(folder);
    }
    Ok(last.map(|folder| Timestamp(folder.manifest.until)))
}

/// The folder that ends last. History is removed because it is there, so it must be of this outbox: a folder of another
/// one that somebody has put there says nothing about it.
fn last_folder(dir: &Path, outbox: &str) -> Result<Option<Folder>, Failure> {
    let Some(path) = manifest::folders(dir)?.pop() else {
        return Ok(None);
    };
    let folder = manifest::open(&path)?;
    if folder.manifest.outbox != outbox {
        let text = format!(
            "{} is the archive of the outbox {:?}, not of {outbox:?}",
            path.display(),
            folder.manifest.outbox
        );
        return Err(Failure::found(text).advice("move it out of this archive_dir, or set another one"));
    }
    Ok(Some(folder))
}

/// Writes what was published before a moment and is in no folder yet. What is settled later with an earlier time would
/// be missed, so the moment is one that has passed for every relay, whatever the caller's clock says.
///
/// `leave` is asked before every page of the history; without it everything is left to a later run.
pub async fn write(
    opened: &Opened,
    dir: &Path,
    until: Timestamp,
    leave: &mut dyn Leave,
) -> Result<Option<Written>, Failure> {
    let dir = dir.join(&opened.name);
    // One at a time: two folders that follow the same one would hold the same rows.
    let _lock = on_disk(|| lock(&dir, &opened.name))?;
    let (duty, until) = settled(opened, until).await?;
    let written = folder(opened, &dir, until, leave).await?;
    let rows = written.as_ref().map_or(0, |written| written.rows);
    let finished = opened.upkeep.finish(duty, format!("wrote {rows} rows")).await;
    finished.map_err(|error| Failure::store(&opened.name, &error))?;
    Ok(written)
}

/// Given back by hand: while a program is being started, such as one of `on_dead`, it has every file that is open here.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where that fails, it ends with the file.
        let _ = self.0.unlock();
    }
}

fn lock(dir: &Path, outbox: &str) -> Result<Lock, Failure> {
    let path = dir.join(LOCK);
    let open = || {
        fs::create_dir_all(dir)?;
        is_plain_file(&path)?;
        File::options().create(true).append(true).open(&path)
    };
    let file = open().map_err(|error| unreadable(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(Failure::backend(format!(
            "{outbox}: somebody else is writing the archive in {}",
            dir.display()
        ))
        .advice("try again when that has ended")),
        Err(TryLockError::Error(error)) => {
            let failure = Failure::backend(format!("{} cannot be locked", path.display()));
            let advice = "an archive needs a file system with file locks";
            Err(failure.because(&error).advice(advice))
        }
    }
}

/// The moment, or the latest before it behind which nothing is settled any more. The clock of the database decides: it
/// is the one that the history was written by.
async fn settled(opened: &Opened, until: Timestamp) -> Result<(Duty, Timestamp), Failure> {
    let mut duty = Duty {
        name: "archive".to_owned(),
        holder: RelayId(JobId::new().0),
        // The lock is what keeps others out.
        term: Duration::ZERO,
        slot: later(until, SETTLED),
    };
    // A clock here that is ahead of the database's is told by how much at the first claim.
    for _ in 0..2 {
        let claim = opened.upkeep.claim(duty.clone()).await;
        match claim.map_err(|error| Failure::store(&opened.name, &error))? {
            Claim::Yours | Claim::Done | Claim::Held => {
                let until = Timestamp(duty.slot.0.saturating_sub(micros(SETTLED)));
                return Ok((duty, until));
            }
            Claim::Early(ahead) => duty.slot = Timestamp(duty.slot.0.saturating_sub(micros(ahead))),
        }
    }
    let failure = Failure::backend(format!(
        "{}: the clock of the database is being set back",
        opened.name
    ));
    Err(failure.advice("give the command again when it runs evenly"))
}

fn later(Timestamp(at): Timestamp, by: Duration) -> Timestamp {
    Timestamp(at.saturating_add(micros(by)))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

async fn folder(
    opened: &Opened,
    dir: &Path,
    until: Timestamp,
    leave: &mut dyn Leave,
) -> Result<Option<Written>, Failure> {
    let (before, place) = on_disk(|| Ok::<_, Failure>((last_folder(dir, &opened.name)?, last_place(dir)?)))?;
    let since = before.as_ref().map(|folder| folder.manifest.until);
    if since.is_some_and(|since| since >= until.0) {
        return Ok(Some(Written::default()));
    }
    let previous = before.map(|folder| folder.checksum);
    let mut run = Run {
        target: dir.join(name(until)),
        manifest: Manifest::new(&opened.name, since, until.0, previous),
        dir: dir.to_owned(),
    };
    run.manifest.place = place;
    on_disk(|| run.begin())?;
    let ask = HistoryAsk {
        after: None,
        since: since.map(Timestamp),
        until: Some(until),
        limit: PAGE,
        max_bytes: PAGE_BYTES,
    };
    // A clock that was set back gives times that the folders before cover, to rows that they cannot have.
    let late = place.zip(since).map(|(place, since)| HistoryAsk {
        after: Some(Cursor::at(place, "")),
        since: None,
        until: Some(Timestamp(since)),
        ..ask.clone()
    });
    for (ask, behind) in late.map(|ask| (ask, place)).into_iter().chain([(ask, None)]) {
        run = match rows(opened, ask, behind, run, leave).await? {
            Some(run) => run,
            None => return Ok(None),
        };
    }
    on_disk(|| run.end()).map(Some)
}

/// Does what waits for the disk, which may be one behind a network that does not answer: the relays of this process
/// must not wait with it.
pub fn on_disk<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Writes what is asked for, of the rows behind a place; none if it had to leave off.
async fn rows(
    opened: &Opened,
    mut ask: HistoryAsk,
    behind: Option<i64>,
    mut run: Run,
    leave: &mut dyn Leave,
) -> Result<Option<Run>, Failure> {
    let mut text = Text::default();
    loop {
        let page = opened.upkeep.history(ask.clone()).await;
        let page = page.map_err(|error| Failure::store(&opened.name, &error))?;
        let is_meant = |row: &&HistoryRow| behind.is_none_or(|behind| place_of(row) > behind);
        for row in page.rows.iter().filter(is_meant) {
            run.manifest.note(row);
            text.add(row);
        }
        // With every page: the walk through a long history may last longer than the right to it, with little to write.
        if !leave.to_go_on().await {
            return Ok(None);
        }
        if (text.is_full() || page.next.is_none()) && text.rows > 0 {
            run = run.part(std::mem::take(&mut text)).await?;
        }
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return Ok(Some(run)),
        }
    }
}

/// The highest place in the archive. Folders of a program that did not write it down are read for it.
fn last_place(dir: &Path) -> Result<Option<i64>, Failure> {
    let mut last = None;
    for path in manifest::folders(dir)?.iter().rev() {
        let folder = manifest::open(path)?;
        if folder.manifest.place.is_some() {
            return Ok(last.max(folder.manifest.place));
        }
        for part in &folder.manifest.parts {
            let rows = verify::rows(&folder, part).map_err(damaged)?;
            last = last.max(rows.iter().map(place_of).max());
        }
    }
    Ok(last)
}

/// Colons are not for every file system.
fn name(until: Timestamp) -> String {
    until.to_string().replace(':', "-")
}

/// The lines of a file.
#[derive(Default)]
struct Text {
    lines: Vec<u8>,
    rows: usize,
}

impl Text {
    fn add(&mut self, row: &HistoryRow) {
        self.lines.extend_from_slice(line::write(row).as_bytes());
        self.lines.push(b'\n');
        self.rows += 1;
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS || self.lines.len() >= BYTES
    }
}

/// A folder that is being made.
struct Run {
    dir: PathBuf,
    target: PathBuf,
    manifest: Manifest,
}

impl Run {
    /// Where it is made.
    fn unfinished(&self) -> PathBuf {
        let mut name = self.target.clone().into_os_string();
        name.push(UNFINISHED);
        name.into()
    }

    /// What killed runs left, under whatever moment, goes.
    fn begin(&self) -> Result<(), Failure> {
        for left in manifest::unfinished(&self.dir)? {
            fs::remove_dir_all(&left).map_err(|error| unreadable(&left, &error))?;
        }
        let folder = self.unfinished();
        fs::create_dir_all(&folder).map_err(|error| unreadable(&folder, &error))
    }

    /// Writes one file. Compressing takes long enough to be kept from the relays' threads.
    async fn part(mut self, text: Text) -> Result<Self, Failure> {
        let file = format!("part-{:06}.jsonl.gz", self.manifest.parts.len() + 1);
        let path = self.unfinished().join(&file);
        let rows = text.rows as u64;
        let written = tokio::task::spawn_blocking(move || {
            let bytes = compress(&text.lines).map_err(|error| unreadable(&path, &error))?;
            durable(&path, &bytes)?;
            Ok::<_, Failure>((bytes.len() as u64, hex_of(&bytes), hex_of(&text.lines)))
        });
        let ended = |error| Failure::backend("writing a file of the archive was broken off").because(&error);
        let (bytes, sha256, text_sha256) = written.await.map_err(ended)??;
        self.manifest.rows += rows;
        self.manifest.parts.push(Part {
            file,
            rows,
            bytes,
            sha256,
            text_sha256,
        });
        Ok(self)
    }

    fn end(self) -> Result<Written, Failure> {
        let folder = self.unfinished();
        if self.manifest.rows == 0 {
            fs::remove_dir_all(&folder).map_err(|error| unreadable(&folder, &error))?;
            return Ok(Written::default());
        }
        let text = self.manifest.sealed().map_err(|error| {
            Failure::backend("the manifest of the archive cannot be written").because(&error)
        })?;
        durable(&folder.join(NAME), &text)?;
        sync(&folder)?;
        fs::rename(&folder, &self.target).map_err(|error| unreadable(&self.target, &error))?;
        sync(&self.dir)?;
        Ok(Written {
            rows: self.manifest.rows,
            folder: Some(self.target),
            until: Some(Timestamp(self.manifest.until)),
        })
    }
}

fn compress(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    encoder.finish()
}

/// Writes a file that is there after a power cut.
fn durable(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| unreadable(path, &error))
}

fn sync(folder: &Path) -> Result<(), Failure> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| unreadable(folder, &error))
}
