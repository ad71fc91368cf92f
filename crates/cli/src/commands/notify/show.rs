//! `postrider notify show`: a notification, and what became of each delivery; or what is not done yet.

use postrider_notify::{Board, Delivery, DeliveryState, Notification};
use serde_json::json;

use crate::cli::NotifyShowArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::notify;
use crate::output::{Output, cell, time};

/// The most that are shown of an event: a broadcast may have a million.
const MOST: usize = 100;

pub async fn show(config: &Config, out: Output, args: &NotifyShowArgs) -> Result<Done, Failure> {
    let (settings, _) = notify::configured(config)?;
    let board = notify::ready(config).await?;
    if args.id.is_none() && args.event.is_none() {
        return standing(&settings.outbox, &*board, out).await;
    }
    let asked = match (args.id, &args.event) {
        (Some(id), _) => board.notification(id).await.map(Vec::from_iter),
        (None, event) => board.of_event(event.as_deref().unwrap_or_default(), MOST).await,
    };
    let found = asked.map_err(|error| notify::failed(&settings.outbox, &error.into()))?;
    if found.is_empty() {
        let what = match (args.id, &args.event) {
            (Some(id), _) => format!("there is no notification with the id {id}"),
            (None, event) => {
                let event = cell(event.as_deref().unwrap_or_default());
                format!("there is no notification of the event {event:?}")
            }
        };
        let advice = "an event of which nobody is told, or that has not taken effect, has none; `postrider show` shows \
                      the event itself";
        return Err(Failure::found(what).advice(advice));
    }
    if out.is_json() {
        out.value(&json!(found))?;
        return Ok(Done::Fine);
    }
    for (number, one) in found.iter().enumerate() {
        // A blank line between two.
        if number > 0 {
            out.line("")?;
        }
        out.line(text(one))?;
    }
    Ok(Done::Fine)
}

/// What stands aside needs somebody, so it is no success.
async fn standing(outbox: &str, board: &dyn Board, out: Output) -> Result<Done, Failure> {
    let standing = board.standing().await;
    let standing = standing.map_err(|error| notify::failed(outbox, &error.into()))?;
    let mut lines = vec![
        format!(
            "fan-outs  {} not finished, {} of them aside",
            standing.fan_outs, standing.fan_outs_aside
        ),
        format!(
            "digests   {} not told, {} of them aside",
            standing.digests, standing.digests_aside
        ),
    ];
    let aside = standing.aside.iter();
    lines.extend(aside.map(|one| format!("  {}: {}", cell(&one.event_id), cell(&one.problem))));
    out.either(&json!(standing), lines.join("\n"))?;
    match standing.fan_outs_aside + standing.digests_aside {
        0 => Ok(Done::Fine),
        _ => Ok(Done::Found),
    }
}

fn text(one: &Notification) -> String {
    let entry = &one.entry;
    let mut lines = vec![
        format!(
            "notification {} of {}, {}",
            entry.id,
            cell(&one.user_id),
            cell(&one.audience)
        ),
        format!(
            "  event     {} {}",
            cell(&entry.event_id),
            cell(&entry.event_type)
        ),
        format!("  category  {}", cell(&entry.category)),
    ];
    if let Some(resource) = &one.resource_id {
        lines.push(format!("  resource  {}", cell(resource)));
    }
    lines.push(format!("  title     {}", cell(&entry.title)));
    lines.push(format!("  stored    {}", time(entry.created_at)));
    for (what, at) in [
        ("seen", entry.seen_at),
        ("read", entry.read_at),
        ("archived", entry.archived_at),
    ] {
        lines.extend(at.map(|at| format!("  {what:<8}  {}", time(at))));
    }
    lines.extend(one.deliveries.iter().map(delivery));
    lines.join("\n")
}

fn delivery(one: &Delivery) -> String {
    let state = match &one.state {
        DeliveryState::Stored => "in the feed".to_owned(),
        DeliveryState::Pending { status, error: None } => status.clone(),
        DeliveryState::Pending {
            status,
            error: Some(error),
        } => format!("{status}: {}", cell(error)),
        DeliveryState::Delivered { at: Some(at) } => format!("delivered {}", time(*at)),
        DeliveryState::Delivered { at: None } => "delivered".to_owned(),
        DeliveryState::Dead { error } => format!("dead: {}", cell(error)),
        DeliveryState::Discarded => "discarded".to_owned(),
        DeliveryState::Impossible { reason } => format!("not sent: {}", cell(reason)),
        DeliveryState::Settled => "settled, longer ago than the history knows".to_owned(),
    };
    format!("  {:<8}  {state}", one.channel.as_str())
}
