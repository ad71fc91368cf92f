//! Reading an archive back to where a replay finds it.

use std::path::Path;
use std::time::Instant;

use postrider_core::{
    Cursor, Filter, HistoryRow, Job, JobId, JobKind, JobState, JobVerb, NewJob, Restore, Timestamp,
};

use super::manifest::{self, Folder, Part};
use super::verify::{self, damaged};
use crate::begin::begin;
use crate::failure::Failure;
use crate::output::{cell, time};
use crate::wire::Opened;

/// Rows of one transaction. Cursors count how many of them are done: a job that was begun with another number would
/// leave rows out, or write them twice.
const BATCH: usize = 500;

/// What was read back.
#[derive(Debug)]
pub struct Restored {
    pub job: Job,
    /// The times of the range whose folders are not there.
    pub missing: Vec<String>,
    /// Whether it had ended before, and nothing was done now.
    pub is_over: bool,
}

/// Reads rows back, in a job of its own or in one that was begun and broken off: that has its range, because how far it
/// came is counted in the rows of that range. `tell` hears of every step.
pub async fn restore(
    opened: &Opened,
    dir: &Path,
    range: Restore,
    job: Option<JobId>,
    actor: &str,
    mut tell: impl FnMut(&Job),
) -> Result<Restored, Failure> {
    let failed = |error| Failure::store(&opened.name, &error);
    let known = match &job {
        Some(id) => Some(known(opened, id, range).await?),
        None => None,
    };
    let range = known.as_ref().map_or(range, |(_, range)| *range);
    let dir = dir.join(&opened.name);
    let Found { folders, mut missing } = sound(&dir, range)?;
    if let Some((job, _)) = &known {
        missing.extend(unread(&folders, range, job)?);
    }
    let mut job = match known {
        // Only now that its files are known to be sound: one that cannot go on stays paused.
        Some((job, _)) if job.state == JobState::Paused => {
            let resumed = opened.console.steer(job.id, JobVerb::Resume, actor.to_owned());
            resumed.await.map_err(failed)?
        }
        Some((job, _)) if job.state == JobState::Done => {
            return Ok(Restored {
                job,
                missing,
                is_over: true,
            });
        }
        Some((job, _)) => job,
        None => {
            if !is_any(&folders, range)? {
                return Err(nothing(&dir, &missing));
            }
            let new = NewJob {
                id: JobId::new(),
                kind: JobKind::Restore(range),
                filter: Filter::default(),
                actor: actor.to_owned(),
            };
            begin(opened, new).await?
        }
    };
    for folder in &folders {
        for part in &folder.manifest.parts {
            let place = place(folder, part);
            if is_passed(&job, &place) {
                continue;
            }
            let rows = verify::rows(folder, part).map_err(damaged)?;
            let rows: Vec<HistoryRow> = rows.into_iter().filter(|row| has(range, row)).collect();
            job = part_of(opened, job, &place, rows, &mut tell).await?;
            if job.state != JobState::Running {
                return Ok(Restored {
                    job,
                    missing,
                    is_over: false,
                });
            }
        }
    }
    let end = job.cursor.clone().unwrap_or_else(|| Cursor("end".to_owned()));
    let job = opened.upkeep.mark(job.id, end, 0, true).await.map_err(failed)?;
    Ok(Restored {
        job,
        missing,
        is_over: false,
    })
}

/// What the archive has of a range.
struct Found {
    folders: Vec<Folder>,
    missing: Vec<String>,
}

/// The folders of a range, once it is known that nothing in them was changed and none is missing in between: what is
/// restored in part looks like all there was. That one is missing at an end of the range is told, and no reason to
/// refuse the others: old folders may have been thrown away.
fn sound(dir: &Path, range: Restore) -> Result<Found, Failure> {
    let mut all = Vec::new();
    for path in manifest::folders(dir)? {
        all.push(manifest::open(&path)?);
    }
    let first = all.iter().position(|folder| meets(range, folder));
    let last = all.iter().rposition(|folder| meets(range, folder));
    let missing = missing(&all, range);
    let Some((first, last)) = first.zip(last) else {
        // A folder that is not mounted must not look like a time in which nothing was published.
        return Err(nothing(dir, &missing));
    };
    let chain = &all[first..=last];
    if let Some(fault) = chain.windows(2).find_map(|two| verify::gap(&two[0], &two[1])) {
        return Err(damaged(fault));
    }
    let folders: Vec<Folder> = all.into_iter().filter(|folder| meets(range, folder)).collect();
    for folder in &folders {
        for part in &folder.manifest.parts {
            verify::bytes(folder, part).map_err(damaged)?;
        }
    }
    Ok(Found { folders, missing })
}

/// The times of the range that folders had which are not there: before the oldest, if it was asked for by name, or
/// between two. Behind the newest nothing is known to have been written.
fn missing(all: &[Folder], range: Restore) -> Vec<String> {
    let mut missing = Vec::new();
    let mut before: Option<&Folder> = None;
    for folder in all {
        let is_next = match before {
            Some(before) => verify::gap(before, folder).is_none(),
            None => folder.manifest.previous.is_none(),
        };
        let since = before.map(|before| Timestamp(before.manifest.until));
        let until = folder.manifest.since.map(Timestamp);
        let is_between = before.is_some();
        let is_meant = range
            .since
            .map_or(is_between, |at| until.is_some_and(|until| at < until))
            && range.until.is_none_or(|at| since.is_none_or(|since| since < at));
        if !is_next && is_meant {
            let since = since.map_or_else(|| "the beginning".to_owned(), time);
            let until = until.map_or_else(|| "then".to_owned(), time);
            missing.push(format!("from {since} to {until}"));
        }
        before = Some(folder);
    }
    missing
}

/// What a job has passed without reading it: folders that were not there when it went by, and are now. It does not go
/// back, and must not end as if it had all of them.
fn unread(folders: &[Folder], range: Restore, job: &Job) -> Result<Option<String>, Failure> {
    let mut passed = 0;
    for folder in folders {
        for part in &folder.manifest.parts {
            let place = place(folder, part);
            let done = match job.state == JobState::Done || is_passed(job, &place) {
                true => usize::MAX,
                false => done_of(job, &place).saturating_mul(BATCH),
            };
            if done > 0 {
                let rows = verify::rows(folder, part).map_err(damaged)?;
                let rows = rows.iter().filter(|row| has(range, row)).count();
                passed += rows.min(done) as u64;
            }
        }
    }
    let unread = passed.saturating_sub(job.touched);
    Ok((unread > 0).then(|| {
        format!("with {unread} rows that were not there when the job went by: begin another restore, without --job")
    }))
}

/// There is nothing of that time, and no job is begun.
fn nothing(dir: &Path, missing: &[String]) -> Failure {
    let mut text = format!("{} has no row of an archive of that time", dir.display());
    if !missing.is_empty() {
        text.push_str(&format!(": the folders are missing {}", missing.join(", ")));
    }
    let advice = "check --dir or archive_dir, that the volume is mounted, and --since and --until";
    Failure::found(text).advice(advice)
}

/// Whether one row of the range is there. Mostly the first file has one.
fn is_any(folders: &[Folder], range: Restore) -> Result<bool, Failure> {
    for folder in folders {
        for part in &folder.manifest.parts {
            let rows = verify::rows(folder, part).map_err(damaged)?;
            if rows.iter().any(|row| has(range, row)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn meets(range: Restore, Folder { manifest, .. }: &Folder) -> bool {
    let since = manifest.since.unwrap_or(i64::MIN);
    let since = manifest.earliest.map_or(since, |earliest| earliest.min(since));
    range.until.is_none_or(|until| since < until.0) && range.since.is_none_or(|at| at.0 < manifest.until)
}

fn has(range: Restore, row: &HistoryRow) -> bool {
    range.since.is_none_or(|since| row.published_at >= since)
        && range.until.is_none_or(|until| row.published_at < until)
}

/// Puts the rows of one file in place, from where the job stands in it.
async fn part_of(
    opened: &Opened,
    mut job: Job,
    place: &str,
    rows: Vec<HistoryRow>,
    tell: &mut impl FnMut(&Job),
) -> Result<Job, Failure> {
    let done = done_of(&job, place);
    for (number, batch) in rows.chunks(BATCH).enumerate().skip(done) {
        let cursor = Cursor(format!("{place}:{:06}", number + 1));
        let began = Instant::now();
        let restored = opened
            .upkeep
            .restore(job.id.clone(), batch.to_vec(), cursor)
            .await;
        job = restored.map_err(|error| Failure::store(&opened.name, &error))?;
        tell(&job);
        if job.state != JobState::Running {
            break;
        }
        // Where one writes at a time, producers write in between.
        tokio::time::sleep(began.elapsed()).await;
    }
    Ok(job)
}

/// The file as the cursor names it: the order of the texts is that of the files.
fn place(folder: &Folder, part: &Part) -> String {
    let name = folder.path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}/{}", part.file)
}

fn at(job: &Job) -> Option<(&str, usize)> {
    let (place, number) = job.cursor.as_ref()?.0.rsplit_once(':')?;
    Some((place, number.parse().ok()?))
}

/// Whether the job is behind this file.
fn is_passed(job: &Job, place: &str) -> bool {
    at(job).is_some_and(|(at, _)| at > place)
}

/// The steps of this file that the job has made.
fn done_of(job: &Job, place: &str) -> usize {
    at(job)
        .filter(|(at, _)| *at == place)
        .map_or(0, |(_, number)| number)
}

/// A restore that was begun, with its range. Another one than it was begun with is refused: `given` may only repeat it.
async fn known(opened: &Opened, id: &JobId, given: Restore) -> Result<(Job, Restore), Failure> {
    let jobs = opened.console.jobs(Some(id.clone()), 1).await;
    let job = jobs.map_err(|error| Failure::store(&opened.name, &error))?.pop();
    let Some((job, JobKind::Restore(range))) = job.map(|job| (job.clone(), job.kind)) else {
        return Err(
            Failure::found(format!("there is no restore {:?}", cell(id.as_str())))
                .advice("`postrider job list` shows the jobs that there are"),
        );
    };
    if given != Restore::default() && given != range {
        return Err(Failure::input(format!(
            "the restore {id} was begun with another --since or --until"
        ))
        .advice("leave them out: the job knows its range; or begin another one without --job"));
    }
    if job.state == JobState::Cancelled {
        return Err(
            Failure::found(format!("the restore {id} cannot go on: it is cancelled"))
                .advice("leave --job out: `postrider archive restore` begins another one"),
        );
    }
    Ok((job, range))
}
