//! Telling people that events need them: a command is run, and a url is called, once for each group of failures with
//! dead letters.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use postrider_admin::Webhook;
use postrider_core::{
    Claim, DestinationName, Duty, Filter, Group, List, Status, StoreError, Timestamp, causes, inert,
};
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Run};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Notify;

use super::Duties;
use crate::config::OnDead;

const PREFIX: &str = "on_dead/";
/// Failures come in bursts, and one call is to have them all.
const GATHER: Duration = Duration::from_secs(1);
/// How often it is looked for what nobody heard of: another relay's, or a call that failed.
const LOOK: Duration = Duration::from_secs(60);
/// Ids that a call names.
const IDS: u32 = 10;
/// Calls of a url at one look.
const ATTEMPTS: u32 = 3;
/// How long to wait before the second of them, and twice that before the third.
const AGAIN: Duration = Duration::from_secs(1);
/// What is logged of a command's output.
const OUTPUT: usize = 1_000;

/// Hears of dead letters.
#[derive(Debug, Default)]
pub struct Ear {
    heard: Notify,
}

impl Observer for Ear {
    fn note(&self, _: Run<'_>, note: &Note) {
        if matches!(note, Note::Dead { .. }) {
            self.heard.notify_one();
        }
    }
}

/// Looks whenever an event turns dead, and now and then.
pub(super) async fn tell(duties: Arc<Duties>, on_dead: OnDead, ear: Arc<Ear>) {
    loop {
        if let Err(error) = look(&duties, &on_dead).await {
            let (outbox, error) = (&duties.opened.name, causes(&error));
            tracing::warn!(outbox, error, "dead letters cannot be looked for, will retry");
        }
        let heard = tokio::time::timeout(LOOK, ear.heard.notified());
        if duties.stop.run_until_cancelled(heard).await.is_none() || !duties.rest(GATHER).await {
            return;
        }
    }
}

async fn look(duties: &Duties, on_dead: &OnDead) -> Result<(), StoreError> {
    let upkeep = &duties.opened.upkeep;
    // Before the groups: what another relay tells of meanwhile is no duty of a group that is gone.
    let mut past = upkeep.past_duties(PREFIX.to_owned()).await?;
    let groups = duties.opened.console.groups().await?;
    let dead: Vec<&Group> = groups.iter().filter(|group| group.dead > 0).collect();
    let first_seen: BTreeMap<String, Timestamp> = dead
        .iter()
        .flat_map(|group| Channel::all(on_dead).map(|channel| (channel.duty(group), group.seen.0)))
        .collect();
    // A group whose dead letters are gone is news when it has some again: all that it has failed first since it was
    // told of, however short the time between was.
    past.retain(|duty| first_seen.get(&duty.name).is_none_or(|first| *first > duty.at));
    if !past.is_empty() {
        upkeep.forget_duties(past).await?;
    }
    for group in dead {
        for channel in Channel::all(on_dead) {
            told(duties, on_dead, group, &channel).await?;
        }
    }
    Ok(())
}

/// Tells one of them of a group, unless that is done or another relay is at it.
async fn told(
    duties: &Duties,
    on_dead: &OnDead,
    group: &Group,
    channel: &Channel<'_>,
) -> Result<(), StoreError> {
    let duty = Duty {
        name: channel.duty(group),
        holder: duties.holder.clone(),
        term: on_dead.timeout * ATTEMPTS + LOOK / 2,
        slot: Timestamp(0),
    };
    if duties.opened.upkeep.claim(duty.clone()).await? != Claim::Yours {
        return Ok(());
    }
    let message = message(duties, group).await?;
    let (outbox, to) = (&duties.opened.name, channel.name());
    match channel.tell(duties, on_dead.timeout, &message).await {
        Ok(output) => {
            let (group, dead) = (&group.name, group.dead);
            tracing::info!(outbox, to, group, dead, output, "told of dead letters");
            duties.opened.upkeep.finish(duty, String::new()).await
        }
        // The claim ends by itself, and then it is tried again.
        Err(error) => {
            tracing::warn!(outbox, to, error, "nobody was told of dead letters, will retry");
            Ok(())
        }
    }
}

/// Who is told.
enum Channel<'a> {
    Command(&'a [String]),
    Url(&'a Webhook),
}

impl<'a> Channel<'a> {
    fn all(on_dead: &'a OnDead) -> impl Iterator<Item = Self> {
        let command = on_dead.command.as_deref().map(Self::Command);
        command.into_iter().chain(on_dead.url.as_ref().map(Self::Url))
    }

    /// Each is told once, whatever becomes of the other.
    fn duty(&self, group: &Group) -> String {
        match self {
            Self::Command(_) => name(group),
            Self::Url(_) => format!("{}/url", name(group)),
        }
    }

    /// What the log may say.
    fn name(&self) -> &str {
        match self {
            Self::Command(words) => words.first().map_or("", String::as_str),
            Self::Url(url) => url.host(),
        }
    }

    async fn tell(&self, duties: &Duties, limit: Duration, message: &Value) -> Result<String, String> {
        match self {
            Self::Command(words) => call(words, limit, message).await,
            Self::Url(url) => post(duties, url, limit, message).await,
        }
    }
}

/// Posts the message, a few times if need be: what is down for a moment should not wait for the next look.
async fn post(duties: &Duties, url: &Webhook, limit: Duration, message: &Value) -> Result<String, String> {
    let mut attempt = 1;
    loop {
        let posted = tokio::time::timeout(limit, url.post(message.to_string())).await;
        let error = match posted {
            Ok(Ok(())) => return Ok(String::new()),
            Ok(Err(error)) => error,
            Err(_) => format!("{} did not answer in time", url.host()),
        };
        if attempt == ATTEMPTS || !duties.rest(AGAIN * attempt).await {
            return Err(inert(&error, OUTPUT).into());
        }
        attempt += 1;
    }
}

fn name(group: &Group) -> String {
    let destination = group.destination.as_ref().map_or("", DestinationName::as_str);
    format!("{PREFIX}{destination}/{}/{}", group.error_kind, group.name)
}

/// What they are told. Payloads are nobody's business there.
async fn message(duties: &Duties, group: &Group) -> Result<Value, StoreError> {
    let filter = Filter {
        status: vec![Status::DeadLetter],
        destination: group.destination.clone(),
        error_kind: Some(group.error_kind.clone()),
        error_group: Some(group.name.clone()).filter(|text| !text.is_empty()),
        ..Filter::default()
    };
    let listing = duties.opened.console.list(List::first(IDS, filter)).await?;
    let ids: Vec<&str> = listing
        .events
        .iter()
        .map(|event| event.event_id.as_str())
        .collect();
    Ok(json!({
        "outbox": duties.opened.name,
        "destination": group.destination.as_ref().map(DestinationName::as_str),
        "error_kind": group.error_kind,
        "group": group.name,
        "count": group.count,
        "dead": group.dead,
        "example": group.example,
        "first_failed_at": group.seen.0.to_string(),
        "last_failed_at": group.seen.1.to_string(),
        "event_ids": ids,
    }))
}

/// Runs the command; answers what it printed, or why that was no success.
async fn call(words: &[String], limit: Duration, message: &Value) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("no program is named")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let told = async {
        if let Some(mut input) = input {
            // A command that does not read what it is told may still have done its work.
            let _ = input.write_all(message.to_string().as_bytes()).await;
        }
    };
    let talk = async { tokio::join!(told, beginning(output), beginning(errors), child.wait()) };
    let ((), output, errors, status) = tokio::time::timeout(limit, talk)
        .await
        .map_err(|_| "it did not end in time".to_owned())?;
    let status = status.map_err(|error| error.to_string())?;
    let printed = [output, errors].concat();
    let printed = inert(String::from_utf8_lossy(&printed).trim(), OUTPUT);
    match status.success() {
        true => Ok(printed.into()),
        false => Err(format!("it ended with {status}: {printed}")),
    }
}

/// What a command prints, up to what the log takes of it. The rest is read too, since a command that cannot write does
/// not end, but it is not kept: it may print until its time is over.
async fn beginning(printed: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut printed) = printed else {
        return kept;
    };
    // As many letters as the log takes have four bytes each at most. What was printed before an error is kept.
    let most = 4 * OUTPUT as u64;
    if (&mut printed).take(most).read_to_end(&mut kept).await.is_ok() {
        let _ = tokio::io::copy(&mut printed, &mut tokio::io::sink()).await;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_command_prints_without_end_is_read_and_not_kept() {
        let mut printed = tokio::io::repeat(b'y').take(64 << 20);
        assert_eq!(beginning(Some(&mut printed)).await, vec![b'y'; 4 * OUTPUT]);
        assert_eq!(
            printed.limit(),
            0,
            "or the command would wait for somebody to read it"
        );
        let floods = [
            "sh",
            "-c",
            "head -c 30000000 /dev/zero | tr '\\0' y; echo end >&2; exit 3",
        ];
        let floods = floods.map(str::to_owned);
        let error = call(&floods, Duration::from_secs(60), &json!({}))
            .await
            .unwrap_err();
        assert!(error.starts_with("it ended with exit status: 3: yyy"), "{error}");
        assert!(error.len() < 2 * OUTPUT, "{} bytes", error.len());
    }
}
