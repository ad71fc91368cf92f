//! `postrider archive write`, `verify` and `restore`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_core::{Job, JobId, JobState, Restore, Timestamp};
use serde_json::json;

use super::ask::actor;
use super::job::{goes_on_by, sent_by};
use super::progress::Progress;
use super::replay::in_order;
use crate::archive::{self, SETTLED};
use crate::cli::{ArchiveArgs, ArchiveCommand};
use crate::config::{Config, duration};
use crate::failure::{Done, Failure};
use crate::output::{Output, count, whole};
use crate::signal;
use crate::wire;

pub async fn archive(config: &Config, out: Output, command: &ArchiveCommand) -> Result<Done, Failure> {
    match command {
        ArchiveCommand::Write { place, older_than } => write(config, out, place, *older_than).await,
        ArchiveCommand::Verify { place } => verify(config, out, place),
        ArchiveCommand::Restore {
            place,
            since,
            until,
            job,
        } => {
            let range = Restore {
                since: *since,
                until: *until,
            };
            in_order(*since, *until)?;
            restore(config, out, place, range, job.as_deref()).await
        }
    }
}

async fn write(
    config: &Config,
    out: Output,
    place: &ArchiveArgs,
    older_than: Duration,
) -> Result<Done, Failure> {
    if older_than < SETTLED {
        let text = format!("--older-than {} is below 1m", duration::show(older_than));
        let advice =
            "what was settled a moment ago may still be followed by something earlier; give 1m or more";
        return Err(Failure::input(text).advice(advice));
    }
    let dir = dir(config, place)?;
    let mut leave = signal::stop_token();
    let age = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
    let until = Timestamp(Timestamp::now().0.saturating_sub(age));
    for (name, outbox) in wire::chosen(config, place.outbox.outbox.as_deref())? {
        let opened = wire::ready(name, outbox).await?;
        let Some(written) = archive::write(&opened, &dir, until, &mut leave).await? else {
            return Err(Failure::found(format!(
                "{name}: stopped, and nothing was written; give the command again"
            )));
        };
        let folder = written.folder.as_ref().map(|folder| folder.display().to_string());
        if let Some(folder) = &folder {
            let until = written.until.map(|until| until.to_string());
            let detail = json!({ "folder": folder, "until": until }).to_string();
            let noted = opened
                .console
                .note(actor(), "archive", detail, written.rows)
                .await;
            noted.map_err(|error| {
                let advice = format!("{folder} is written and whole; only the audit does not have it");
                Failure::store(name, &error).advice(advice)
            })?;
        }
        let text = match &folder {
            Some(folder) => format!("{name}: {} written to {folder}", count(written.rows, "row")),
            None => {
                let age = duration::show(older_than);
                format!("{name}: nothing to write: nothing new is older than {age}")
            }
        };
        out.either(
            &json!({ "outbox": name, "rows": written.rows, "folder": folder }),
            text,
        )?;
    }
    Ok(Done::Fine)
}

fn verify(config: &Config, out: Output, place: &ArchiveArgs) -> Result<Done, Failure> {
    let dir = dir(config, place)?;
    let mut done = Done::Fine;
    for (name, _) in wire::chosen(config, place.outbox.outbox.as_deref())? {
        let verified = archive::verify(&dir, name)?;
        let mut text = format!(
            "{name}: {} in {}",
            count(verified.rows, "row"),
            count(verified.folders as u64, "folder")
        );
        match verified.faults.as_slice() {
            [] => text.push_str(", all as written"),
            faults => {
                done = Done::Found;
                text.push_str(&format!(", {}:", count(faults.len() as u64, "fault")));
                for fault in faults {
                    text.push_str(&format!("\n  {fault}"));
                }
                text.push_str(&format!("\nwhat to do: {}", archive::LOST));
            }
        }
        let strangers = verified.strangers.iter();
        let strangers: Vec<String> = strangers.map(|path| whole(&path.to_string_lossy())).collect();
        for path in &strangers {
            text.push_str(&format!("\n  {path}: is in no manifest, and no restore reads it"));
        }
        let value = json!({
            "outbox": name,
            "folders": verified.folders,
            "rows": verified.rows,
            "faults": verified.faults,
            "advice": (!verified.faults.is_empty()).then_some(archive::LOST),
            "strangers": strangers,
        });
        out.either(&value, text)?;
    }
    Ok(done)
}

async fn restore(
    config: &Config,
    out: Output,
    place: &ArchiveArgs,
    range: Restore,
    job: Option<&str>,
) -> Result<Done, Failure> {
    let dir = dir(config, place)?;
    let (name, outbox) = wire::single(config, place.outbox.outbox.as_deref())?;
    let opened = wire::ready(name, outbox).await?;
    let mut progress = Progress::new(out, None);
    let archive::Restored {
        job,
        missing,
        is_over,
    } = archive::restore(
        &opened,
        &dir,
        range,
        job.map(JobId::from),
        &actor(),
        |job: &Job| progress.show(job),
    )
    .await?;
    progress.end();
    // What a job has restored is removed after a time, and a replay of a part of it is refused.
    let left = match is_over {
        true => {
            let left = opened.upkeep.restored(job.id.clone()).await;
            left.map_err(|error| Failure::store(name, &error))?
        }
        false => job.touched,
    };
    let is_gone = left < job.touched;
    let state = match job.state {
        JobState::Done if is_gone => {
            let again = wire::option(config, name);
            format!(
                "{} of it is left: what was read back is removed with the history, or was purged; `postrider \
                 archive restore{again}` without --job, with the same --dir, --since and --until, reads it back anew",
                if left == 0 { "nothing" } else { "only a part" }
            )
        }
        JobState::Done => format!("{} sends those that were published", sent_by(config, name, &job)),
        // Somebody else has paused or cancelled it meanwhile.
        JobState::Cancelled => "the job is cancelled; without --job another one begins".to_owned(),
        state => format!(
            "the job is {}; {} goes on",
            state.as_str(),
            goes_on_by(config, name, &job)
        ),
    };
    let before = if is_over { " before" } else { "" };
    let mut text = format!("{name}: {} restored{before}; {state}", count(job.touched, "row"));
    if !missing.is_empty() {
        let times = missing.join(", ");
        text.push_str(&format!(
            "\n{name}: it is not all of that time: the folders are missing {times}"
        ));
    }
    let value = json!({
        "outbox": name,
        "job": job.id.as_str(),
        "state": job.state.as_str(),
        "rows": job.touched,
        "left": left,
        "missing": missing,
    });
    out.either(&value, text)?;
    Ok(match job.state {
        JobState::Done if missing.is_empty() && !is_gone => Done::Fine,
        JobState::Done => Done::Found,
        JobState::Running | JobState::Paused | JobState::Cancelled => Done::Found,
    })
}

fn dir(config: &Config, place: &ArchiveArgs) -> Result<PathBuf, Failure> {
    let configured = config
        .cleanup
        .archive
        .as_ref()
        .map(|archive| archive.dir.as_path());
    let dir: Option<&Path> = place.dir.as_deref().or(configured);
    dir.map(Path::to_owned).ok_or_else(|| {
        Failure::input("it is not said where the archive is")
            .advice("give --dir, or set archive_dir in [cleanup]")
    })
}
