//! `postrider dead edit`: another payload for an event that failed, which is sent again with it.

use std::collections::BTreeSet;

use postrider_core::{Chunk, DestinationName, Edit, EventId, Payload, Status, Verb};

use super::ask::{actor, confirm};
use super::behind;
use super::bounded;
use super::named::{only_in, refuse};
use super::total::Total;
use crate::args::EditArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count};
use crate::wire::{self, Opened};

pub async fn edit(config: &Config, out: Output, args: &EditArgs) -> Result<Done, Failure> {
    let edit = Edit {
        event_id: EventId::from(args.id.as_str()),
        destination: args.destination.as_deref().map(DestinationName::from),
        payload: payload(args)?,
        content_type: args.content_type.clone(),
        dry_run: true,
        actor: actor(),
    };
    let mut total = Total::new(("edit", "edited and redriven"), false);
    total.is_narrowed = args.destination.is_some();
    let mut tried = Vec::new();
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let opened = wire::ready(name, outbox).await?;
        // What can never be sent is refused before anybody is asked.
        let chunk = make(&opened, edit.clone()).await?;
        tried.push((opened, chunk));
    }
    let touched = tried.iter().filter(|(_, chunk)| chunk.touched > 0);
    let touched: Vec<&str> = touched.map(|(opened, _)| opened.name.as_str()).collect();
    only_in(&args.id, &touched)?;
    for (opened, chunk) in tried {
        total.enter(&opened).await?;
        if chunk.touched == 0 {
            let refused: BTreeSet<Status> = chunk.refused.into_iter().map(|(_, status)| status).collect();
            total.found.extend(refused.first().map(|_| args.id.clone()));
            refuse(&opened, &args.id, refused, &mut total).await?;
            continue;
        }
        if !args.yes {
            let question = format!(
                "replace the payload of {} by {} and send it again?",
                cell(&args.id),
                count(edit.payload.len() as u64, "byte")
            );
            confirm(&question, "give --yes")?;
        }
        let edit = Edit {
            dry_run: false,
            ..edit.clone()
        };
        total.found.insert(args.id.clone());
        let filter = edit.filter();
        total.add(make(&opened, edit).await?);
        total.leave(&Verb::Redrive);
        let stays = behind::stays(config, &opened, &args.id, &filter, false);
        total.stays.extend(stays.await?);
    }
    total.report(out, std::slice::from_ref(&args.id))
}

async fn make(opened: &Opened, edit: Edit) -> Result<Chunk, Failure> {
    let made = opened.console.edit(edit).await;
    made.map_err(|error| Failure::store(&opened.name, &error))
}

fn payload(args: &EditArgs) -> Result<Payload, Failure> {
    if let Some(text) = &args.payload {
        return Ok(Payload::Text(text.clone()));
    }
    let Some(path) = &args.payload_file else {
        return Ok(Payload::Tombstone);
    };
    Ok(match String::from_utf8(bounded::payload(path)?) {
        Ok(text) => Payload::Text(text),
        Err(error) => Payload::Bytes(error.into_bytes().into()),
    })
}
