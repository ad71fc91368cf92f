//! Reading an archive back to where a replay finds it.

use std::path::Path;

use postrider_core::{Cursor, Filter, HistoryRow, Job, JobId, JobKind, JobState, NewJob, Restore};

use super::manifest::{self, Folder, Part};
use super::verify;
use crate::failure::Failure;
use crate::wire::Opened;

/// Rows of one transaction.
const BATCH: usize = 500;

/// Reads rows back, in a job of its own or in one that was begun and broken off: that has its range, because how far it
/// came is counted in the rows of that range. `tell` hears of every step.
pub async fn restore(
    opened: &Opened,
    dir: &Path,
    range: Restore,
    job: Option<JobId>,
    actor: &str,
    mut tell: impl FnMut(&Job),
) -> Result<Job, Failure> {
    let failed = |error| Failure::store(&opened.name, &error);
    let known = match &job {
        Some(id) => Some(known(opened, id, range).await?),
        None => None,
    };
    let range = known.as_ref().map_or(range, |(_, range)| *range);
    let folders = sound(&dir.join(&opened.name), range)?;
    let mut job = match known {
        Some((job, _)) => job,
        None => {
            let new = NewJob {
                kind: JobKind::Restore(range),
                filter: Filter::default(),
                actor: actor.to_owned(),
            };
            opened.console.begin(new).await.map_err(failed)?
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
                return Ok(job);
            }
        }
    }
    let end = job.cursor.clone().unwrap_or_else(|| Cursor("end".to_owned()));
    opened.upkeep.mark(job.id, end, 0, true).await.map_err(failed)
}

/// The folders of a range, once it is known that nothing in them was changed and none is missing in between: what is
/// restored in part looks like all there was.
fn sound(dir: &Path, range: Restore) -> Result<Vec<Folder>, Failure> {
    let mut folders: Vec<Folder> = Vec::new();
    for path in manifest::folders(dir)? {
        let folder = manifest::open(&path)?;
        if !meets(range, &folder) {
            continue;
        }
        if let Some(fault) = folders.last().and_then(|before| verify::gap(before, &folder)) {
            return Err(damaged(fault));
        }
        for part in &folder.manifest.parts {
            verify::bytes(&folder, part).map_err(damaged)?;
        }
        folders.push(folder);
    }
    // A folder that is not mounted must not look like a time in which nothing was published.
    if folders.is_empty() {
        let text = format!("{} has no folder of an archive of that time", dir.display());
        let advice = "check --dir or archive_dir, that the volume is mounted, and --since and --until";
        return Err(Failure::found(text).advice(advice));
    }
    Ok(folders)
}

fn meets(range: Restore, folder: &Folder) -> bool {
    let since = folder.manifest.since.unwrap_or(i64::MIN);
    range.until.is_none_or(|until| since < until.0)
        && range.since.is_none_or(|at| at.0 < folder.manifest.until)
}

fn has(range: Restore, row: &HistoryRow) -> bool {
    range.since.is_none_or(|since| row.published_at >= since)
        && range.until.is_none_or(|until| row.published_at < until)
}

fn damaged(fault: String) -> Failure {
    Failure::backend(fault)
        .advice("`postrider archive verify` finds all that is wrong; restore from another copy")
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
        let restored = opened
            .upkeep
            .restore(job.id.clone(), batch.to_vec(), cursor)
            .await;
        job = restored.map_err(|error| Failure::store(&opened.name, &error))?;
        tell(&job);
        if job.state != JobState::Running {
            break;
        }
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
        return Err(Failure::found(format!("there is no restore {id}"))
            .advice("`postrider job list` shows the jobs that there are"));
    };
    if given != Restore::default() && given != range {
        return Err(Failure::input(format!(
            "the restore {id} was begun with another --since or --until"
        ))
        .advice("leave them out: the job knows its range; or begin another one without --job"));
    }
    Ok((job, range))
}
